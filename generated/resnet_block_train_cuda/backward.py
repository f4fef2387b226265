"""The backward pass of ResNetBlock: what autograd calls, and the gradients as kernels.

Quoted is the statement that a paragraph differentiates, or computes again because that is cheaper than to
keep it. Gradients have the word of what they belong to: d_x is the gradient of x.
"""

from dataclasses import dataclass

import torch

from . import kernels
from .runtime import convolution_backward, own_types


@dataclass
class ResNetBlockSaved:
    """What resnet_block_backward() reads of the forward pass, and weights."""

    conv1_weight: torch.Tensor  # bfloat16 (256, 128, 3, 3)
    bn1_weight: torch.Tensor  # bfloat16 (256,)
    conv2_weight: torch.Tensor  # bfloat16 (256, 256, 3, 3)
    bn2_weight: torch.Tensor  # bfloat16 (256,)
    shortcut_0_weight: torch.Tensor  # bfloat16 (256, 128, 1, 1)
    shortcut_1_weight: torch.Tensor  # bfloat16 (256,)
    x: torch.Tensor  # bfloat16 (batch, channels, height, width)
    activated: torch.Tensor  # bfloat16 (batch, conv2_channels, conv1_height, conv1_width)
    conv1: torch.Tensor  # bfloat16 (batch, conv1_channels, conv1_height, conv1_width)
    bn1_mean: torch.Tensor  # float32 (conv1_channels,)
    bn1_rstd: torch.Tensor  # float32 (conv1_channels,)
    out: torch.Tensor  # bfloat16 (batch, conv1_channels, conv1_height, conv1_width)
    conv2: torch.Tensor  # bfloat16 (batch, conv2_channels, conv1_height, conv1_width)
    bn2_mean: torch.Tensor  # float32 (conv2_channels,)
    bn2_rstd: torch.Tensor  # float32 (conv2_channels,)
    shortcut: torch.Tensor  # bfloat16 (batch, shortcut_channels, shortcut_height, shortcut_width)
    shortcut_mean: torch.Tensor  # float32 (shortcut_channels,)
    shortcut_rstd: torch.Tensor  # float32 (shortcut_channels,)


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
        saved = ResNetBlockSaved(
            conv1_weight=model.conv1.weight,
            bn1_weight=model.bn1.weight,
            conv2_weight=model.conv2.weight,
            bn2_weight=model.bn2.weight,
            shortcut_0_weight=model.shortcut[0].weight,
            shortcut_1_weight=model.shortcut[1].weight,
            x=x,
            activated=activated,
            conv1=conv1,
            bn1_mean=bn1_mean,
            bn1_rstd=bn1_rstd,
            out=out,
            conv2=conv2,
            bn2_mean=bn2_mean,
            bn2_rstd=bn2_rstd,
            shortcut=shortcut,
            shortcut_mean=shortcut_mean,
            shortcut_rstd=shortcut_rstd,
        )
        ctx.save_for_backward(*vars(saved).values())
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


def resnet_block_backward(kept, d_activated):
    """The gradients of ResNetBlock's arguments that have any, then of its parameters; empties `kept`."""
    saved = ResNetBlockSaved(*kept)
    kept.clear()
    batch, channels, height, width = saved.x.shape
    _, conv2_channels, conv1_height, conv1_width = saved.activated.shape
    conv1_channels = saved.conv1.shape[1]

    # ResNetBlock.forward    out = out + self.shortcut(x)
    x_channels_last = torch.empty(
        batch,
        channels,
        height,
        width,
        dtype=torch.bfloat16,
        device=saved.x.device,
        memory_format=torch.channels_last,
    )
    kernels.to_channels_last(
        saved.x, x_channels_last, n_batches=batch, n_pixels=height * width, n_channels=channels
    )

    # ResNetBlock.forward    return F.relu(out)
    # ResNetBlock.forward    out = self.bn2(self.conv2(out))
    d_out = torch.empty_like(saved.activated)
    through_rstd = saved.shortcut_mean.new_empty(1, conv2_channels, 1, 1)
    through_mean = saved.shortcut_mean.new_empty(1, conv2_channels, 1, 1)
    bn2_through_rstd = saved.shortcut_mean.new_empty(1, conv2_channels, 1, 1)
    d_shortcut_1_weight = saved.activated.new_empty(conv2_channels)
    d_bn2_weight = saved.activated.new_empty(conv2_channels)
    d_shortcut_1_bias = saved.activated.new_empty(conv2_channels)
    d_bn2_bias = saved.activated.new_empty(conv2_channels)
    kernels.d_relu_d_batch_norms(
        saved.activated,
        d_activated,
        saved.shortcut,
        saved.shortcut_mean,
        saved.shortcut_rstd,
        saved.conv2,
        saved.bn2_mean,
        saved.bn2_rstd,
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
    del saved.activated

    d_shortcut = torch.empty_like(saved.shortcut)
    d_conv2 = torch.empty_like(saved.conv2)
    kernels.transpose_d_batch_norms(
        d_out,
        through_mean,
        saved.shortcut,
        saved.shortcut_mean,
        saved.shortcut_rstd,
        through_rstd,
        saved.shortcut_1_weight,
        saved.conv2,
        saved.bn2_mean,
        saved.bn2_rstd,
        bn2_through_rstd,
        saved.bn2_weight,
        d_shortcut,
        d_conv2,
        n_batches=batch,
        n_pixels=conv1_height * conv1_width,
        n_channels=conv2_channels,
    )
    del saved.conv2, saved.shortcut

    d_x_from_shortcut, d_shortcut_0_weight, _ = convolution_backward(
        d_shortcut, x_channels_last, saved.shortcut_0_weight, stride=2
    )
    del d_shortcut
    d_out, d_conv2_weight, _ = convolution_backward(d_conv2, saved.out, saved.conv2_weight, padding=1)

    # ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
    through_rstd = saved.bn1_mean.new_empty(1, conv1_channels, 1, 1)
    through_mean = saved.bn1_mean.new_empty(1, conv1_channels, 1, 1)
    d_bn1_weight = saved.out.new_empty(conv1_channels)
    d_bn1_bias = saved.out.new_empty(conv1_channels)
    kernels.d_relu_d_batch_norm_weight_and_bias(
        saved.out,
        d_out,
        saved.conv1,
        saved.bn1_mean,
        saved.bn1_rstd,
        through_rstd,
        through_mean,
        d_bn1_weight,
        d_bn1_bias,
        batch * conv1_height * conv1_width,
        conv1_channels,
    )
    d_conv1 = torch.empty_like(saved.out)
    kernels.d_relu_d_batch_norm(
        saved.out,
        d_out,
        through_mean,
        saved.conv1,
        saved.bn1_mean,
        saved.bn1_rstd,
        through_rstd,
        saved.bn1_weight,
        d_conv1,
        batch * conv1_height * conv1_width,
        conv1_channels,
    )
    del saved.conv1, saved.out
    d_x_from_conv1, d_conv1_weight, _ = convolution_backward(
        d_conv1, x_channels_last, saved.conv1_weight, stride=2, padding=1
    )
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
