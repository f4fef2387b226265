"""The rules for views that no view op of torch says: a place that data tells, other sizes of the same memory."""

from __future__ import annotations

from typing import Any

import torch

from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter, Rule

aten = torch.ops.aten


def _part_at(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """`capture.whole_calls.narrow`: the part of a tensor whose place another one tells."""
    source, dim, positions = args
    at = rewriter.read(positions)
    return rewriter.view(
        source,
        eager,
        lambda parent: rewriter.emit(aten.index_select.default, (parent, dim, at)),
        lambda parent, child: rewriter.emit(
            aten.index_copy.default, (parent, dim, at, child), value=source.fake
        ),
    )


def _resized(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """``x.resize_(sizes)`` of no more elements than x has: its first ones; the tensor is another view from then on.

    Not of an argument: the caller's tensor would have to change its shape.
    """
    source: Proxy = args[0]
    is_plain = (
        all(isinstance(size, int) for size in (*source.fake.shape, *eager.shape))
        and source.fake.is_contiguous()
    )
    if source.memory.placeholder is not None or not is_plain or eager.numel() > source.fake.numel():
        return NotImplemented
    whole = rewriter.call(aten.reshape.default, (source, [source.fake.numel()]), {})
    first = rewriter.call(aten.slice.Tensor, (whole, 0, 0, eager.numel()), {})
    return rewriter.call(aten.reshape.default, (first, list(eager.shape)), {})


def _product_of_one(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """``torch.cartesian_prod(x)`` is x."""
    return rewriter.same(args[0][0], eager) if len(args[0]) == 1 else NotImplemented


# By packet name.
MEMORY_RULES: dict[str, Rule] = {
    **dict.fromkeys(["resize_", "resize_as_"], _resized),
    "part_at": _part_at,
    "cartesian_prod": _product_of_one,
}
