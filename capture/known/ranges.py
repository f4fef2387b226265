"""Between which two numbers whole numbers lie that are computed: what a sort, a maximum or a clamp makes positions of.

``x[perm // k]`` reads within x if perm comes from a sort: no check of it can fail. What inputs are has none.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture.known.call import shape_of, size_of
from longhand.capture.known.decisions import call_name
from longhand.capture.known.facts import Size
from longhand.capture.known.written import writes_into

aten = torch.ops.aten


@dataclasses.dataclass(frozen=True)
class WholeRange:
    """From where to where the numbers of a tensor can be.

    Attributes:
        least: The smallest; not negative.
        limit: One more than the largest.
    """

    least: int
    limit: Size


_TOLD = "whole_range"  # in the meta of a placeholder
_DEEPEST = 32  # calls that a range is looked for through
# What makes positions along a dimension beside its values, and what makes nothing else.
_SORTS = (aten.sort.default, aten.sort.stable)
_WITH_PLACES = (
    *_SORTS,
    aten.topk.default,
    aten.kthvalue.default,
    aten.mode.default,
    aten.max.dim,
    aten.min.dim,
)
_ARGSORTS = (aten.argsort.default, aten.argsort.stable)
_PLACES = (*_ARGSORTS, aten.argmax.default, aten.argmin.default)
_PROGRESSIONS = (aten.arange.default, aten.arange.start, aten.arange.start_step)
# What has no other elements than its first argument. (What lies beyond the ends of a table, an index never reads.)
_SAME_ELEMENTS = frozenset(
    {
        *(aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.permute.default),
        *(aten.transpose.int, aten.t.default, aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim),
        *(aten.squeeze.dims, aten.expand.default, aten.slice.Tensor, aten.select.int, aten.flip.default),
        *(aten.clone.default, aten.contiguous.default, aten.alias.default, aten.detach.default),
        *(aten.repeat.default, aten.roll.default, aten.index.Tensor, aten.gather.default),
        *(aten.index_select.default, aten._to_copy.default, aten.to.dtype),
    }
)
# Where a call's arguments have the places that it reads or writes.
_PLACES_AT: dict[Any, int] = {
    **dict.fromkeys((aten.index.Tensor, aten._unsafe_index.Tensor, aten.embedding.default), 1),
    **dict.fromkeys((aten.index_put.default, aten._unsafe_index_put.default), 1),
    **dict.fromkeys((aten.gather.default, aten.index_select.default, aten.index_add.default), 2),
    **dict.fromkeys((aten.scatter.src, aten.scatter.value, aten.scatter_add.default), 2),
}
_SAME_ORDER = frozenset(
    {aten.clone.default, aten.contiguous.default, aten.alias.default, aten.detach.default}
)
_WHOLE = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})


def range_of(node: object) -> WholeRange | None:
    """Between which numbers the elements of a node are; None where that is not known, or some are negative."""
    return _range(node, 0)


def tell_range(placeholder: fx.Node, range_: WholeRange | None) -> None:
    """What is known of a placeholder that stands for a value of another graph, or for one that was made ahead."""
    if range_ is not None:
        placeholder.meta[_TOLD] = range_


def range_of_numbers(numbers: torch.Tensor) -> WholeRange | None:
    """The same of numbers that are known."""
    if numbers.dtype not in _WHOLE or not numbers.numel() or numbers.min() < 0:
        return None
    return WholeRange(int(numbers.min()), int(numbers.max()) + 1)


def _range(node: object, depth: int) -> WholeRange | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(node, fx.Node) or not isinstance(value, torch.Tensor) or depth > _DEEPEST:
        return None
    if value.dtype is torch.bool:
        return WholeRange(0, 2)
    if value.dtype not in _WHOLE or _is_written(node, 0):
        return None
    if node.op != "call_function":
        told: WholeRange | None = node.meta.get(_TOLD)
        return told
    known = _of_places(node) or _of_same_elements(node, depth) or _of_arithmetic(node, depth)
    if known is None and node.target is aten.index_put.default:
        return _of_filled(node, depth)
    # A size that varies may be more than a short type holds: its numbers would begin again, below zero.
    is_held = known is not None and (
        known.limit - 1 <= torch.iinfo(value.dtype).max
        if isinstance(known.limit, int)
        else value.dtype is torch.int64
    )
    return known if is_held else None


def _is_written(node: fx.Node, depth: int) -> bool:
    """Whether a custom op may write into a tensor, or into a view of it."""
    return depth > _DEEPEST or any(
        writes_into(user, node) or (user.target in _SAME_ELEMENTS and _is_written(user, depth + 1))
        for user in node.users
    )


def _of_places(node: fx.Node) -> WholeRange | None:
    """Positions along a dimension."""
    if node.target in _PROGRESSIONS:
        return _of_progression(node)
    call: object = node
    if node.target is operator.getitem and node.args[1] == 1:
        call = node.args[0]
    if not isinstance(call, fx.Node) or call.target not in (_PLACES if call is node else _WITH_PLACES):
        return None
    source = call.args[0]
    shape = shape_of(source) if isinstance(source, fx.Node) else ()
    dim = _argument(call, "dim", None if call.target in (aten.argmax.default, aten.argmin.default) else -1)
    along = shape if dim is None else shape[dim : dim + 1 or None]
    return WholeRange(0, functools.reduce(operator.mul, along, 1))


def _argument(call: fx.Node, name: str, default: Any) -> Any:
    """What a call of ATen is given by that name."""
    assert isinstance(call.target, torch._ops.OpOverload)
    for place, argument in enumerate(call.target._schema.arguments):
        if argument.name == name:
            given = (
                call.args[place] if place < len(call.args) else call.kwargs.get(name, argument.default_value)
            )
            return default if given is None else given
    return default


def _of_progression(node: fx.Node) -> WholeRange | None:
    start = size_of(_argument(node, "start", 0))
    end = size_of(_argument(node, "end", None))
    step = size_of(_argument(node, "step", 1))
    if not isinstance(start, int) or start < 0 or end is None or not isinstance(step, int) or step < 1:
        return None
    return WholeRange(start, end)


def _of_same_elements(node: fx.Node, depth: int) -> WholeRange | None:
    """What only moves, repeats or picks elements, of one tensor or of several."""
    if node.target is operator.getitem and node.args[1] == 0:
        call = node.args[0]
        assert isinstance(call, fx.Node)
        return _range(call.args[0], depth + 1) if call.target in _WITH_PLACES else None
    if node.target in _SAME_ELEMENTS:
        return _range(node.args[0], depth + 1)
    if node.target in (aten.cat.default, aten.stack.default):
        parts = node.args[0]
        return (
            _of_all([_range(part, depth + 1) for part in parts]) if isinstance(parts, list | tuple) else None
        )
    if node.target is aten.where.self:
        return _of_all([_range(part, depth + 1) for part in node.args[1:]])
    return None


def _of_all(ranges: list[WholeRange | None]) -> WholeRange | None:
    """The range that several are in; None where it is not known of all of them, or which limit is the largest."""
    known = [one for one in ranges if one is not None]
    limits = {one.limit for one in known}
    if not known or len(known) < len(ranges):
        return None
    if len(limits) > 1 and not all(isinstance(limit, int) for limit in limits):
        return None
    return WholeRange(min(one.least for one in known), max(limits) if len(limits) > 1 else limits.pop())


def _of_arithmetic(node: fx.Node, depth: int) -> WholeRange | None:
    rule = _ARITHMETIC.get(node.target)
    return rule(node, _range(node.args[0], depth + 1)) if rule is not None else None


def _clamped(node: fx.Node, given: WholeRange | None) -> WholeRange | None:
    least, most = (_argument(node, name, None) for name in ("min", "max"))
    if given is None and (least is None or most is None):
        return None
    low = given.least if least is None and given is not None else least
    limit = given.limit if most is None and given is not None else size_of(most)
    if not isinstance(low, int) or low < 0 or limit is None:
        return None
    limit = limit if most is None else limit + 1
    if isinstance(limit, int):
        return WholeRange(low, limit) if low < limit else None
    return WholeRange(0, limit) if limit.is_positive else None


def _divided(node: fx.Node, given: WholeRange | None) -> WholeRange | None:
    by = node.args[1]
    mode = node.kwargs.get("rounding_mode", "floor")
    if given is None or not isinstance(by, int) or by < 1 or mode not in ("floor", "trunc"):
        return None
    if isinstance(given.limit, int):
        return WholeRange(given.least // by, (given.limit - 1) // by + 1)
    limit = sympy.expand(given.limit / by)  # n whole groups of `by` numbers: the last one's is n - 1
    is_whole = all(coefficient.is_Integer for coefficient in limit.as_coefficients_dict().values())
    return WholeRange(given.least // by, limit) if is_whole else None


def _remainder(node: fx.Node, given: WholeRange | None) -> WholeRange | None:
    by = node.args[1]
    return WholeRange(0, by) if isinstance(by, int) and by > 0 else None


_ARITHMETIC: dict[Any, Callable[[fx.Node, WholeRange | None], WholeRange | None]] = {
    aten.clamp.default: _clamped,
    aten.floor_divide.default: _divided,
    aten.floor_divide.Scalar: _divided,
    aten.div.Tensor_mode: _divided,
    aten.div.Scalar_mode: _divided,
    aten.remainder.Scalar: _remainder,
    aten.remainder.Tensor: _remainder,
}


# --- positions ---


def is_progression(node: fx.Node) -> bool:
    """Whether a node holds 0, 1, 2 and so on."""
    shape = shape_of(node)
    is_arange = node.target in _PROGRESSIONS and _argument(node, "step", 1) == 1
    return is_arange and len(shape) == 1 and _of_progression(node) == WholeRange(0, shape[0])


def is_read_as_places(call: fx.Node, node: fx.Node) -> bool:
    """Whether all that a call takes of a node is where it reads or writes."""
    place = _PLACES_AT.get(call.target)
    others = [given for at, given in enumerate(call.args) if at != place]
    return place is not None and node not in pytree.tree_leaves(others)


# --- memory that a permutation fills ---


def is_permutation(node: object) -> bool:
    """Whether a node holds each position of its one dimension once."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(node, fx.Node) or not isinstance(value, torch.Tensor) or value.dim() != 1:
        return False
    if node.op != "call_function" or _is_written(node, 0):
        return False
    if node.target in _SAME_ORDER or node.target in (aten._to_copy.default, aten.to.dtype):
        return is_permutation(node.args[0])
    if node.target is operator.getitem:
        call, place = node.args
        return isinstance(call, fx.Node) and call.target in _SORTS and bool(place == 1)
    return node.target in _ARGSORTS or is_progression(node)


def filled_by_permutation(node: fx.Node) -> bool:
    """Whether a call writes every element of a tensor of one dimension, each once: what was there does not matter."""
    indices = node.args[1] if node.target is aten.index_put.default else None
    if not isinstance(indices, list | tuple) or len(indices) != 1 or not is_permutation(indices[0]):
        return False
    (index,) = indices
    given = node.args[0]
    is_adding = (len(node.args) > 3 and bool(node.args[3])) or bool(node.kwargs.get("accumulate"))
    assert isinstance(index, fx.Node) and isinstance(given, fx.Node)
    return not is_adding and str(shape_of(given)) == str(shape_of(index))


def is_overwritten(node: fx.Node) -> bool:
    """Whether a node is memory that nothing was written into, and that is only read to be written over."""
    is_empty = node.op == "call_function" and call_name(node).removeprefix("new_").startswith("empty")
    return is_empty and all(filled_by_permutation(user) and user.args[0] is node for user in node.users)


def _of_filled(node: fx.Node, depth: int) -> WholeRange | None:
    return _range(node.args[2], depth + 1) if filled_by_permutation(node) else None
