"""The backward pass of ResNetBlock: what autograd calls, and the gradients as kernels.

Quoted is the statement that a paragraph differentiates; it may compute a part of that once more. What
comes after "again" is computed once more, too, because that is cheaper than to keep it. Gradients have
the word of what they belong to: d_x is the gradient of x.
"""

from dataclasses import dataclass

import torch

from . import kernels
from .runtime import convolution_backward, keep_for_backward, kept_for_backward, of_parameters, own_types

# Weights that the backward pass does not read, so that autograd need not keep them, by how their names end.
UNREAD = (
    ".bn2.bias",
    ".1.bias",
)


@dataclass
class ResNetBlockSaved:
    """What resnet_block_backward() reads of the forward pass."""

    x: torch.Tensor  # bfloat16 (batch, channels, height, width)
    activated: torch.Tensor  # bfloat16 (batch, conv2_channels, conv1_height, conv1_width)
    conv1_out: torch.Tensor  # bfloat16 (batch, conv1_channels, conv1_height, conv1_width)
    bn1_mean: torch.Tensor  # float32 (conv1_channels,)
    bn1_rstd: torch.Tensor  # float32 (conv1_channels,)
    out: torch.Tensor  # bfloat16 (batch, conv1_channels, conv1_height, conv1_width)
    conv2_out: torch.Tensor  # bfloat16 (batch, conv2_channels, conv1_height, conv1_width)
    bn2_mean: torch.Tensor  # float32 (conv2_channels,)
    bn2_rstd: torch.Tensor  # float32 (conv2_channels,)
    shortcut_out: torch.Tensor  # bfloat16 (batch, conv2_channels, conv1_height, conv1_width)
    shortcut_mean: torch.Tensor  # float32 (conv2_channels,)
    shortcut_rstd: torch.Tensor  # float32 (conv2_channels,)


class ResNetBlockFunction(torch.autograd.Function):
    """ResNetBlock with gradients, which have no gradients themselves."""

    @staticmethod
    def forward(ctx, model, x, *parameters):
        activated, saved = model.launch(x)
        keep_for_backward(ctx, saved, model, UNREAD)
        return (activated,)

    @staticmethod
    def backward(ctx, d_activated):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "ResNetBlock has no second derivative: create_graph=True takes the eager model"
            )
        model, saved = kept_for_backward(ctx)
        with own_types("cuda"):
            d_x, gradients = resnet_block_backward(model, saved, d_activated.contiguous())
        return None, d_x, *of_parameters(model, gradients)


def resnet_block_backward(model, saved, d_activated):
    """The gradients of ResNetBlock's arguments, then of its parameters by name.

    Drops parts of `saved` once they are read.
    """
    batch, channels, height, width = saved.x.shape
    _, conv2_channels, conv1_height, conv1_width = saved.activated.shape
    conv1_channels = saved.conv1_out.shape[1]

    # shortcut[0]: Conv2d
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

    # shortcut[1]: BatchNorm2d
    # ResNetBlock.forward    return F.relu(out)
    # ResNetBlock.forward    out = self.bn2(self.conv2(out))
    d_out = torch.empty_like(saved.activated)
    through_rstd = saved.shortcut_mean.new_empty(1, conv2_channels, 1, 1)
    through_mean = torch.empty_like(through_rstd)
    bn2_through_rstd = torch.empty_like(through_rstd)
    d_shortcut_1_weight = saved.activated.new_empty(conv2_channels)
    d_bn2_weight = torch.empty_like(d_shortcut_1_weight)
    d_shortcut_1_bias = torch.empty_like(d_shortcut_1_weight)
    d_bn2_bias = torch.empty_like(d_shortcut_1_weight)
    kernels.d_batch_norms_relu(
        saved.activated,
        d_activated,
        saved.shortcut_out,
        saved.shortcut_mean,
        saved.shortcut_rstd,
        saved.conv2_out,
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

    # shortcut[1]: BatchNorm2d
    d_shortcut_out = torch.empty_like(saved.shortcut_out)
    d_conv2_out = torch.empty_like(saved.shortcut_out)
    kernels.d_batch_norms(
        d_out,
        through_mean,
        saved.shortcut_out,
        saved.shortcut_mean,
        saved.shortcut_rstd,
        through_rstd,
        model.shortcut[1].weight,
        saved.conv2_out,
        saved.bn2_mean,
        saved.bn2_rstd,
        bn2_through_rstd,
        model.bn2.weight,
        d_shortcut_out,
        d_conv2_out,
        n_batches=batch,
        n_pixels=conv1_height * conv1_width,
        n_channels=conv2_channels,
    )
    del saved.conv2_out, saved.shortcut_out, d_out

    d_x_from_shortcut, d_shortcut_0_weight, _ = convolution_backward(
        d_shortcut_out, x_channels_last, model.shortcut[0].weight, stride=2
    )

    d_out, d_conv2_weight, _ = convolution_backward(d_conv2_out, saved.out, model.conv2.weight, padding=1)
    del saved.out, d_conv2_out

    # ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
    through_rstd = saved.bn1_mean.new_empty(1, conv1_channels, 1, 1)
    through_mean = torch.empty_like(through_rstd)
    d_bn1_weight = saved.conv1_out.new_empty(conv1_channels)
    d_bn1_bias = torch.empty_like(d_bn1_weight)
    kernels.d_batch_norm_relu_weight(
        saved.conv1_out,
        saved.bn1_mean,
        saved.bn1_rstd,
        model.bn1.weight,
        model.bn1.bias,
        d_out,
        through_rstd,
        through_mean,
        d_bn1_weight,
        d_bn1_bias,
        n_rows=batch * conv1_height * conv1_width,
        n_cols=conv1_channels,
    )
    d_conv1_out = d_out  # in place: d_out is last read here
    kernels.d_batch_norm_relu(
        saved.conv1_out,
        saved.bn1_mean,
        saved.bn1_rstd,
        model.bn1.weight,
        model.bn1.bias,
        d_out,
        through_mean,
        through_rstd,
        d_conv1_out,
        n_rows=batch * conv1_height * conv1_width,
        n_cols=conv1_channels,
    )
    del saved.conv1_out
    d_x_from_conv1, d_conv1_weight, _ = convolution_backward(
        d_conv1_out, x_channels_last, model.conv1.weight, stride=2, padding=1
    )
    del x_channels_last, d_out, d_conv1_out
    d_x = d_x_from_shortcut.new_empty(batch, channels, height, width)
    kernels.add_gradients(
        d_x_from_shortcut, d_x_from_conv1, d_x, n_batches=batch, n_pixels=height * width, n_channels=channels
    )
    return d_x, {
        "conv1.weight": d_conv1_weight,
        "bn1.weight": d_bn1_weight,
        "bn1.bias": d_bn1_bias,
        "conv2.weight": d_conv2_weight,
        "bn2.weight": d_bn2_weight,
        "bn2.bias": d_bn2_bias,
        "shortcut.0.weight": d_shortcut_0_weight,
        "shortcut.1.weight": d_shortcut_1_weight,
        "shortcut.1.bias": d_shortcut_1_bias,
    }
