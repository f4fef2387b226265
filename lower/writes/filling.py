"""Values put into a tensor of one number, by ATen: it writes them into the result, which is filled with that first.

``torch.zeros(...).index_put(...)`` would make the zeros, copy them, and write into the copy. Nor does a later call of
the same kind need to be given these zeros.
"""

from __future__ import annotations

from typing import Any

import torch

from longhand.lower.context import Context
from longhand.lower.lowerings.creation import filled
from longhand.lower.lowerings.externs import extern_argument
from longhand.lower.unsupported import LOOP_DTYPES
from longhand.lower.views import TensorView
from longhand.lower.writes.mutation import TWINS


def written_into_filled(ctx: Context, args: list[Any], reason: str) -> TensorView | None:
    """The node's result: what its first argument is filled with, and the values; None where that is no such tensor.

    Args:
        ctx: The program and the node.
        args: The node's arguments in the order of its schema.
        reason: Why it is no kernel of ours.
    """
    node = ctx.node
    if node.target not in TWINS or not isinstance(args[0], TensorView):
        return None
    if any(None in index for index in node.args[1:2] if isinstance(index, list | tuple)):
        return None  # the public index_put_ takes no None
    number, result = ctx.fills.get(args[0].buffer), ctx.result()
    if number is None or result.dtype not in LOOP_DTYPES or args[0].dtype != result.dtype:
        return None
    assert isinstance(node.target, torch._ops.OpOverload)
    total = filled(ctx, number)
    into = total.as_ir()
    assert into is not None  # it is new
    rest = tuple(extern_argument(ctx, argument) for argument in node.args[1:])
    kwargs = {name: extern_argument(ctx, argument) for name, argument in node.kwargs.items()}
    ctx.call(TWINS[node.target], (into, *rest), kwargs, outputs=(), mutates=(total.buffer,), reason=reason)
    return total
