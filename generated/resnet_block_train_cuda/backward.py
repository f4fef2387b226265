"""The backward pass of ResNetBlock: what autograd calls, and the gradients as kernels.

Quoted is the statement that a paragraph differentiates, or computes again because that is cheaper than to
keep it. Gradients have the word of what they belong to: d_x is the gradient of x.
"""

import torch

from . import kernels
from .runtime import convolution_backward, own_types


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
        with own_types("cuda"):
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
    batch, channels, height, width = x.shape
    _, conv2_channels, conv1_height, conv1_width = activated.shape
    conv1_channels = conv1.shape[1]

    # ResNetBlock.forward    out = out + self.shortcut(x)
    x_channels_last = torch.empty(
        batch,
        channels,
        height,
        width,
        dtype=torch.bfloat16,
        device=x.device,
        memory_format=torch.channels_last,
    )
    kernels.to_channels_last(
        x, x_channels_last, n_batches=batch, n_pixels=height * width, n_channels=channels
    )

    # ResNetBlock.forward    return F.relu(out)
    # ResNetBlock.forward    out = self.bn2(self.conv2(out))
    d_out = torch.empty_like(activated)
    through_rstd = shortcut_mean.new_empty(1, conv2_channels, 1, 1)
    through_mean = torch.empty_like(through_rstd)
    bn2_through_rstd = torch.empty_like(through_rstd)
    d_shortcut_1_weight = activated.new_empty(conv2_channels)
    d_bn2_weight = torch.empty_like(d_shortcut_1_weight)
    d_shortcut_1_bias = torch.empty_like(d_shortcut_1_weight)
    d_bn2_bias = torch.empty_like(d_shortcut_1_weight)
    kernels.d_relu_d_batch_norms(
        activated,
        d_activated,
        shortcut,
        shortcut_mean,
        shortcut_rstd,
        conv2,
        bn2_mean,
        bn2_rstd,
        d_out,
        through_rstd,
        through_mean,
        bn2_through_rstd,
        d_shortcut_1_weight,
        d_bn2_weight,
        d_shortcut_1_bias,
        d_bn2_bias,
        n_channels=conv2_channels,
        n_batches=batch,
        n_pixels=conv1_height * conv1_width,
    )
    del activated

    d_shortcut = torch.empty_like(shortcut)
    d_conv2 = torch.empty_like(conv2)
    kernels.transpose_d_batch_norms(
        d_out,
        through_mean,
        shortcut,
        shortcut_mean,
        shortcut_rstd,
        through_rstd,
        shortcut_1_weight,
        conv2,
        bn2_mean,
        bn2_rstd,
        bn2_through_rstd,
        bn2_weight,
        d_shortcut,
        d_conv2,
        n_batches=batch,
        n_pixels=conv1_height * conv1_width,
        n_channels=conv2_channels,
    )
    del conv2, shortcut

    d_x_from_shortcut, d_shortcut_0_weight, _ = convolution_backward(
        d_shortcut, x_channels_last, shortcut_0_weight, stride=2
    )
    del d_shortcut
    d_out, d_conv2_weight, _ = convolution_backward(d_conv2, out, conv2_weight, padding=1)

    # ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
    through_rstd = bn1_mean.new_empty(1, conv1_channels, 1, 1)
    through_mean = torch.empty_like(through_rstd)
    d_bn1_weight = out.new_empty(conv1_channels)
    d_bn1_bias = torch.empty_like(d_bn1_weight)
    kernels.d_relu_d_batch_norm_weight_and_bias(
        out,
        d_out,
        conv1,
        bn1_mean,
        bn1_rstd,
        through_rstd,
        through_mean,
        d_bn1_weight,
        d_bn1_bias,
        batch * conv1_height * conv1_width,
        conv1_channels,
    )
    d_conv1 = torch.empty_like(out)
    kernels.d_relu_d_batch_norm(
        out,
        d_out,
        through_mean,
        conv1,
        bn1_mean,
        bn1_rstd,
        through_rstd,
        bn1_weight,
        d_conv1,
        batch * conv1_height * conv1_width,
        conv1_channels,
    )
    del conv1, out
    d_x_from_conv1, d_conv1_weight, _ = convolution_backward(
        d_conv1, x_channels_last, conv1_weight, stride=2, padding=1
    )
    del x_channels_last
    d_x = d_x_from_shortcut.new_empty(batch, channels, height, width)
    kernels.transpose_add_gradients(
        d_x_from_shortcut, d_x_from_conv1, d_x, n_batches=batch, n_pixels=height * width, n_channels=channels
    )
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
