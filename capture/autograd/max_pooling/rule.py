"""The derivative of max pooling on CUDA: what is kept of a window takes few bytes, and nothing of the images' size.

The library says of each window which of the image's places won, as a whole number of 8 bytes; an image of up to 2**15
places needs 2 of them. And the library's backward pass looks at the images' shape alone.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from longhand.capture.autograd.rules import Rewritten, Setting, derivative_rule
from longhand.capture.functionalize.batch_normalized import batch_normalized_op
from longhand.capture.functionalize.decompositions import packet_name
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.options import Device

aten = torch.ops.aten
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_NARROW = (torch.int16, torch.int32)


@derivative_rule(aten.max_pool2d.default)
def _max_pool2d(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, setting: Setting
) -> Rewritten | None:
    x = given["self"]
    height, width = x.fake.shape[-2:]
    is_known = isinstance(height, int) and isinstance(width, int)
    is_ours = setting.machine.device is Device.CUDA and x.fake.dtype in _FLOATS
    if not (is_ours and is_known and eager.numel()):
        return None
    window = [given[name] for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")]
    window[1] = window[1] or window[0]
    library, backward = aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices_backward.default
    indices = torch.empty_like(eager, dtype=torch.int64)
    largest, places = rewriter.keep(library, (x, *window), {}, (eager, indices))
    holding = (dtype for dtype in _NARROW if height * width <= torch.iinfo(dtype).max)
    narrow = next(holding, None)
    kept = places if narrow is None else rewriter.call(aten._to_copy.default, (places,), {"dtype": narrow})
    before = _clamped(rewriter, x)
    like = x if before is None else _kept_anyway(rewriter, before) or x

    def pullback(grads: Sequence[Proxy | None]) -> list[tuple[Proxy, Proxy | None]]:
        d_out = grads[0]
        if d_out is None:
            return []
        if before is not None:
            is_clamped = rewriter.call(aten.le.Scalar, (largest, 0), {})
            d_out = rewriter.call(aten.where.ScalarSelf, (is_clamped, 0.0, d_out), {})
        wide = (
            kept if narrow is None else rewriter.call(aten._to_copy.default, (kept,), {"dtype": torch.int64})
        )
        d_x = rewriter.keep(backward, (d_out, like, *window, wide), {}, torch.empty_like(x.fake))
        return [(x if before is None else before, d_x)]

    return Rewritten((largest,), pullback)


def _clamped(rewriter: Rewriter, x: Proxy) -> Proxy | None:
    """What the images are the relu of; None where they are not.

    An element that has won a window is that one's result, so where relu made it 0 the result tells, too: a gradient
    goes through both at once.
    """
    if x.node.target is not aten.relu.default or x.parent is not None:
        return None
    (source,) = x.node.all_input_nodes
    made: Proxy = rewriter.fresh(source, source.meta["val"])
    return made


def _kept_anyway(rewriter: Rewriter, x: Proxy) -> Proxy | None:
    """Images of the same shape that the backward pass has: what a batch norm normalized; None where that is not so."""
    norm = x.node.args[0] if x.node.target is operator.getitem else x.node
    if not isinstance(norm, torch.fx.Node) or not isinstance(norm.target, torch._ops.OpOverload):
        return None
    is_norm = packet_name(norm.target).startswith("_native_batch_norm_legit")
    if not is_norm and norm.target is not batch_normalized_op:
        return None
    source = norm.all_input_nodes[0]
    value = source.meta["val"]
    is_alike = (value.shape, value.stride(), value.dtype) == (x.fake.shape, x.fake.stride(), x.fake.dtype)
    return rewriter.fresh(source, value) if is_alike else None
