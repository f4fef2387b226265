"""The backward pass of ResNetBlock: what autograd calls, and the gradients as kernels.

Quoted is the statement that a paragraph differentiates, or computes again because that is cheaper than to
keep it. Gradients have the word of what they belong to: d_x is the gradient of x.
"""

import torch

from . import kernels
from .runtime import convolution_backward, empty, own_types


class ResNetBlockFunction(torch.autograd.Function):
    """ResNetBlock with gradients, which have no gradients themselves."""

    @staticmethod
    def forward(ctx, model, x, *parameters):
        (
            activated,
            conv1,
            bn1_mean,
            bn1_rstd,
            out,
            conv2,
            bn2_mean,
            bn2_rstd,
            shortcut,
            shortcut_mean,
            shortcut_rstd,
        ) = model.launch(x)
        ctx.save_for_backward(
            model.conv1.weight,
            model.bn1.weight,
            model.conv2.weight,
            model.bn2.weight,
            model.shortcut[0].weight,
            model.shortcut[1].weight,
            x,
            activated,
            conv1,
            bn1_mean,
            bn1_rstd,
            out,
            conv2,
            bn2_mean,
            bn2_rstd,
            shortcut,
            shortcut_mean,
            shortcut_rstd,
        )
        return (activated,)

    @staticmethod
    def backward(ctx, d_activated):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "ResNetBlock has no second derivative: create_graph=True takes the eager model"
            )
        saved = list(ctx.saved_tensors)
        ctx.maybe_clear_saved_tensors()  # unless the graph is retained, each is dropped once it is read
        with own_types("cpu"):
            return None, *resnet_block_backward(saved, d_activated.contiguous())


def resnet_block_backward(saved, d_activated):
    """The gradients of ResNetBlock's arguments that have any, then of its parameters; empties `saved`."""
    (
        conv1_weight,
        bn1_weight,
        conv2_weight,
        bn2_weight,
        shortcut_0_weight,
        shortcut_1_weight,
        x,
        activated,
        conv1,
        bn1_mean,
        bn1_rstd,
        out,
        conv2,
        bn2_mean,
        bn2_rstd,
        shortcut,
        shortcut_mean,
        shortcut_rstd,
    ) = saved
    saved.clear()
    batch = x.shape[0]
    _, conv2_channels, conv1_height, conv1_width = activated.shape
    conv1_channels = conv1.shape[1]
    _, _, shortcut_height, shortcut_width = shortcut.shape

    # ResNetBlock.forward    return F.relu(out)
    # ResNetBlock.forward    out = out + self.shortcut(x)
    d_shortcut_1_weight = empty(shortcut_1_weight.shape, torch.float32)
    d_shortcut = empty(shortcut.shape, torch.float32)
    d_shortcut_1_bias = empty(shortcut_1_weight.shape, torch.float32)
    kernels.d_relu_d_batch_norm(
        activated,
        d_activated,
        shortcut,
        shortcut_mean,
        shortcut_rstd,
        shortcut_1_weight,
        d_shortcut_1_weight,
        d_shortcut,
        d_shortcut_1_bias,
        n_channels=conv2_channels,
        n_batches=batch,
        n_pixels=shortcut_height * shortcut_width,
    )

    d_x_from_shortcut, d_shortcut_0_weight, _ = convolution_backward(
        d_shortcut, x, shortcut_0_weight, stride=2
    )

    # ResNetBlock.forward    out = self.bn2(self.conv2(out))
    d_bn2_weight = empty(bn2_mean.shape, torch.float32)
    d_conv2 = empty(activated.shape, torch.float32)
    d_bn2_bias = empty(bn2_mean.shape, torch.float32)
    kernels.d_relu_d_batch_norm(
        activated,
        d_activated,
        conv2,
        bn2_mean,
        bn2_rstd,
        bn2_weight,
        d_bn2_weight,
        d_conv2,
        d_bn2_bias,
        n_channels=conv2_channels,
        n_batches=batch,
        n_pixels=conv1_height * conv1_width,
    )

    d_out, d_conv2_weight, _ = convolution_backward(d_conv2, out, conv2_weight, padding=1)

    # ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
    d_bn1_weight = empty(bn1_mean.shape, torch.float32)
    d_conv1 = empty(out.shape, torch.float32)
    d_bn1_bias = empty(bn1_mean.shape, torch.float32)
    kernels.d_relu_d_batch_norm(
        out,
        d_out,
        conv1,
        bn1_mean,
        bn1_rstd,
        bn1_weight,
        d_bn1_weight,
        d_conv1,
        d_bn1_bias,
        n_channels=conv1_channels,
        n_batches=batch,
        n_pixels=conv1_height * conv1_width,
    )
    d_x_from_conv1, d_conv1_weight, _ = convolution_backward(d_conv1, x, conv1_weight, stride=2, padding=1)
    d_x = empty(d_x_from_shortcut.shape, torch.float32)
    kernels.add_gradients(d_x_from_shortcut, d_x_from_conv1, d_x, d_x.numel())
    return (
        d_x,
        d_conv1_weight,
        d_bn1_weight,
        d_bn1_bias,
        d_conv2_weight,
        d_bn2_weight,
        d_bn2_bias,
        d_shortcut_0_weight,
        d_shortcut_1_weight,
        d_shortcut_1_bias,
    )
