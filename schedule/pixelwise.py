"""Convolutions of single pixels: each pixel's channels, which lie side by side, are a row of a matrix product.

So is their derivative, which cuBLAS computes in the kernels that cuDNN takes for it, too; but a call of cuDNN's
derivative costs the host about 75 us, that of two products whose plans are kept less than half (H200). In 16 bits
alone: whether float32 may be rounded to TF32 is another setting for convolutions than for products.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from longhand.lower.ir import Buffer, Extern, View

__all__ = ["is_pixelwise_backward"]

aten = torch.ops.aten
_DTYPES = (torch.float16, torch.bfloat16)
_PLAIN = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}


def is_pixelwise_backward(call: Extern, buffers: Mapping[str, Buffer]) -> bool:
    """Whether a call is the derivative of a 1x1 convolution, without a bias, of images channels last."""
    if call.target is not aten.convolution_backward.default:
        return False
    names = (argument.name for argument in call.target._schema.arguments)
    given = dict(zip(names, call.args, strict=False))
    d_out, x, weight = (given[name] for name in ("grad_output", "input", "weight"))
    if not all(isinstance(one, View) and len(one.shape) == 4 for one in (d_out, x, weight)):
        return False
    is_plain = all(set(given[name]) == {value} for name, value in _PLAIN.items())
    has_bias = bool(given["output_mask"][2])
    return (
        is_plain
        and not (has_bias or given["transposed"])
        and given["groups"] == 1
        and tuple(weight.shape[2:]) == (1, 1)
        and all(one.stride[1] == 1 and buffers[one.buffer].dtype in _DTYPES for one in (d_out, x))
    )
