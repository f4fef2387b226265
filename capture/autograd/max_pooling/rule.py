"""The derivative of max pooling of small windows on CUDA: what is kept of a window is a place in it, of one byte.

The rest (large or dilated windows, sizes that vary, indices that the user wants) stays with the library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from longhand.capture.autograd.max_pooling.pool_operators import max_pool2d_backward_op, max_pool2d_op
from longhand.capture.autograd.rules import Rewritten, Setting, called, derivative_rule
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.roles import Role
from longhand.options import Device

aten = torch.ops.aten

# Of a window whose loops are unrolled, forwards and backwards (MOST_PLACES of lower.body).
_MOST_PLACES = 25
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@derivative_rule(aten.max_pool2d.default)
def _max_pool2d(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, setting: Setting
) -> Rewritten | None:
    x = given["self"]
    size, padding, dilation = (_each(given[name]) for name in ("kernel_size", "padding", "dilation"))
    stride = _each(given["stride"]) or size
    image = list(x.fake.shape[-2:])
    is_small = math.prod(size) <= _MOST_PLACES and dilation == [1, 1]
    is_known = all(isinstance(side, int) for side in (*image, *eager.shape[-2:]))
    is_ours = setting.machine.device is Device.CUDA and x.fake.dtype in _FLOATS
    if not (is_ours and is_small and is_known and eager.numel()):
        return None
    window = (size, stride, padding)
    largest, places = rewriter.call(max_pool2d_op, (x, *window, given["ceil_mode"]), {})
    called(Role.PLACES, places)

    before = _clamped(rewriter, x)

    def pullback(grads: Sequence[Proxy | None]) -> list[tuple[Proxy, Proxy | None]]:
        d_out = grads[0]
        if d_out is None:
            return []
        if before is not None:
            is_clamped = rewriter.call(aten.le.Scalar, (largest, 0), {})
            d_out = rewriter.call(aten.where.ScalarSelf, (is_clamped, 0.0, d_out), {})
        d_x = rewriter.call(max_pool2d_backward_op, (d_out, places, image, *window), {})
        return [(x if before is None else before, d_x)]

    return Rewritten((largest,), pullback)


def _clamped(rewriter: Rewriter, x: Proxy) -> Proxy | None:
    """What the images are the relu of; None where they are not.

    An element that has won a window is that one's result, so where relu made it 0 the result tells, too: a gradient
    goes through both at once, and nothing of the images' size is kept for it.
    """
    if x.node.target is not aten.relu.default or x.parent is not None:
        return None
    (source,) = x.node.all_input_nodes
    made: Proxy = rewriter.fresh(source, source.meta["val"])
    return made


def _each(sides: Sequence[int]) -> list[int]:
    """One number may stand for both sides of an image."""
    return list(sides) * 2 if len(sides) == 1 else list(sides)
