"""The backward pass of ResNetBlock: what autograd calls, and the gradients as kernels.

Quoted is the statement that a paragraph differentiates; it may compute a part of that once more. What
comes after "again" is computed once more, too, because that is cheaper than to keep it. Gradients have
the word of what they belong to: d_x is the gradient of x.
"""

from dataclasses import dataclass

import torch

from . import kernels
from .runtime import (
    convolution_backward,
    empty,
    keep_for_backward,
    kept_for_backward,
    of_parameters,
    own_types,
)

# Weights that the backward pass does not read, so that autograd need not keep them, by how their names end.
UNREAD = (".bias",)


@dataclass
class ResNetBlockSaved:
    """What resnet_block_backward() reads of the forward pass."""

    x: torch.Tensor  # float32 (batch, channels, height, width)
    activated: torch.Tensor  # float32 (batch, conv2_channels, conv1_height, conv1_width)
    conv1_out: torch.Tensor  # float32 (batch, conv1_channels, conv1_height, conv1_width)
    bn1_mean: torch.Tensor  # float32 (conv1_channels,)
    bn1_rstd: torch.Tensor  # float32 (conv1_channels,)
    out: torch.Tensor  # float32 (batch, conv1_channels, conv1_height, conv1_width)
    conv2_out: torch.Tensor  # float32 (batch, conv2_channels, conv1_height, conv1_width)
    bn2_mean: torch.Tensor  # float32 (conv2_channels,)
    bn2_rstd: torch.Tensor  # float32 (conv2_channels,)
    shortcut_out: torch.Tensor  # float32 (batch, conv2_channels, conv1_height, conv1_width)
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
        with own_types("cpu"):
            d_x, gradients = resnet_block_backward(model, saved, d_activated.contiguous())
        return None, d_x, *of_parameters(model, gradients)


def resnet_block_backward(model, saved, d_activated):
    """The gradients of ResNetBlock's arguments, then of its parameters by name."""
    batch = saved.x.shape[0]
    _, conv2_channels, conv1_height, conv1_width = saved.activated.shape
    conv1_channels = saved.conv1_out.shape[1]

    # shortcut[1]: BatchNorm2d
    # ResNetBlock.forward    return F.relu(out)
    d_shortcut_1_weight = empty(saved.shortcut_mean.shape, torch.float32)
    d_shortcut_out = empty(saved.activated.shape, torch.float32)
    d_shortcut_1_bias = empty(saved.shortcut_mean.shape, torch.float32)
    kernels.d_batch_norm_relu(
        saved.activated,
        d_activated,
        saved.shortcut_out,
        saved.shortcut_mean,
        saved.shortcut_rstd,
        model.shortcut[1].weight,
        d_shortcut_1_weight,
        d_shortcut_out,
        d_shortcut_1_bias,
        n_channels=conv2_channels,
        n_batches=batch,
        n_pixels=conv1_height * conv1_width,
    )

    # shortcut
    d_x_from_shortcut, d_shortcut_0_weight, _ = convolution_backward(
        d_shortcut_out, saved.x, model.shortcut[0].weight, stride=2
    )

    # ResNetBlock.forward    out = self.bn2(self.conv2(out))
    d_bn2_weight = empty(saved.bn2_mean.shape, torch.float32)
    d_conv2_out = empty(saved.activated.shape, torch.float32)
    d_bn2_bias = empty(saved.bn2_mean.shape, torch.float32)
    kernels.d_batch_norm_relu(
        saved.activated,
        d_activated,
        saved.conv2_out,
        saved.bn2_mean,
        saved.bn2_rstd,
        model.bn2.weight,
        d_bn2_weight,
        d_conv2_out,
        d_bn2_bias,
        n_channels=conv2_channels,
        n_batches=batch,
        n_pixels=conv1_height * conv1_width,
    )
    d_out, d_conv2_weight, _ = convolution_backward(d_conv2_out, saved.out, model.conv2.weight, padding=1)

    # ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))
    d_bn1_weight = empty(saved.bn1_mean.shape, torch.float32)
    d_conv1_out = d_out  # in place: d_out is last read here
    d_bn1_bias = empty(saved.bn1_mean.shape, torch.float32)
    kernels.d_batch_norm_relu(
        saved.out,
        d_out,
        saved.conv1_out,
        saved.bn1_mean,
        saved.bn1_rstd,
        model.bn1.weight,
        d_bn1_weight,
        d_conv1_out,
        d_bn1_bias,
        n_channels=conv1_channels,
        n_batches=batch,
        n_pixels=conv1_height * conv1_width,
    )
    d_x_from_conv1, d_conv1_weight, _ = convolution_backward(
        d_conv1_out, saved.x, model.conv1.weight, stride=2, padding=1
    )
    d_x = d_x_from_conv1  # in place: d_x_from_conv1 is last read here
    kernels.add_gradients(d_x_from_shortcut, d_x_from_conv1, d_x, n_elements=d_x.numel())
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
