"""Joined and padded tensors in a reference: ``torch.cat([-q[..., half:], q[..., :half]], dim=-1)``, ``F.pad(x, ...)``.

A kernel's body reads every piece under the mask of its own range and lets a `where` pick. A reader wants the pieces.
Each is a slice of a tensor that the kernel reads as a whole, too (a rotation's halves), or a tensor of its own size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from longhand.emit.names.buffer_names import BufferWords
from longhand.emit.names.operation_names import aten_name
from longhand.emit.names.unit_names import KernelNames
from longhand.lower.ir import Constant, Load, Pointwise, PointwiseOp, Scalar, arguments, domains
from longhand.schedule.plan import Address, KernelPlan, ScalarRef, conditions_of, limit_along

_JOINS = frozenset({"cat", "concat", "stack", "constant_pad_nd"})


@dataclasses.dataclass(frozen=True)
class Range:
    """Positions `start` to `end` of an axis: words of scalars, None for the axis's own ends."""

    axis: str
    start: int | None
    end: int | None


@dataclasses.dataclass(frozen=True)
class Join:
    """A value that is put together.

    Attributes:
        axis: The axis along which; of a pad the padded one.
        pieces: Positions of the pieces' values, in order; of a pad the one load.
        ranges: Where each piece lies.
        fill: Of a pad: what is around it; None for a cat.
    """

    axis: str
    pieces: tuple[int, ...]
    ranges: tuple[Range, ...]
    fill: float | int | bool | None = None


@dataclasses.dataclass(frozen=True)
class PieceLoad:
    """How a piece's load is seen.

    Attributes:
        range: What part of the axis it fills.
        slice: The subscript along the axis, of a tensor that is read as a whole too; None: a view of its own size.
    """

    range: Range
    slice: str | None


def find_joins(
    plan: KernelPlan, names: KernelNames, words: BufferWords
) -> tuple[dict[int, Join], dict[int, PieceLoad]]:
    """The joins of a body by the position of their result, and how the loads of their pieces are seen."""
    joins: dict[int, Join] = {}
    loads: dict[int, PieceLoad] = {}
    picked = {
        other.args[2] for other in plan.body if isinstance(other, Pointwise) and other.op is PointwiseOp.WHERE
    }
    for position, value in enumerate(plan.body):
        node = words.nodes.get(getattr(value, "origin", ""))
        if node is None or aten_name(node) not in _JOINS:
            continue
        join = None
        if isinstance(value, Pointwise) and value.op is PointwiseOp.WHERE and position not in picked:
            join = _cat(plan, position)
        elif isinstance(value, Load) and value.mask is not None and aten_name(node) == "constant_pad_nd":
            join = _pad(plan, position, value)
        seen = _piece_loads(plan, names, join) if join is not None else None
        if join is not None and seen is not None:
            joins[position] = join
            loads |= seen
    return joins, loads


def _cat(plan: KernelPlan, position: int) -> Join | None:
    """The pieces that a chain of ``where(at < limit, piece, rest)`` picks from."""
    pieces: list[int] = []
    ranges: list[Range] = []
    axis, start = "", None
    origin = getattr(plan.body[position], "origin", "")
    while True:
        value = plan.body[position]
        is_where = isinstance(value, Pointwise) and value.op is PointwiseOp.WHERE and value.origin == origin
        if not is_where:
            pieces.append(position)
            ranges.append(Range(axis, start, None))
            return Join(axis, tuple(pieces), tuple(ranges))
        assert isinstance(value, Pointwise)
        limit = limit_along(plan, value.args[0], PointwiseOp.LT)
        if limit is None or (axis and limit[0] != axis):
            return None
        axis = limit[0]
        pieces.append(value.args[1])
        ranges.append(Range(axis, start, limit[1]))
        start, position = limit[1], value.args[2]


def _pad(plan: KernelPlan, position: int, load: Load) -> Join | None:
    assert load.mask is not None
    start = end = None
    axes = set()
    for condition in conditions_of(plan, load.mask):
        low, high = limit_along(plan, condition, PointwiseOp.GE), limit_along(plan, condition, PointwiseOp.LT)
        if low is not None and start is None:
            axes.add(low[0])
            start = low[1]
        elif high is not None and end is None:
            axes.add(high[0])
            end = high[1]
        else:
            return None
    if len(axes) != 1:
        return None
    (axis,) = axes
    return Join(axis, (position,), (Range(axis, start, end),), load.other)


def _piece_loads(plan: KernelPlan, names: KernelNames, join: Join) -> dict[int, PieceLoad] | None:
    """How each masked load below the pieces is seen; None if some cannot be."""
    found: dict[int, PieceLoad] = {}
    varying = domains(plan.body)
    counts: dict[str, int] = {}
    for value in plan.body:
        if isinstance(value, Load):
            counts[value.buffer] = counts.get(value.buffer, 0) + 1
    for piece, where in zip(join.pieces, join.ranges, strict=True):
        inside = list(_loads_of_piece(plan, piece))
        if not inside or any(load is None for load in inside):
            return None
        for position in inside:
            assert position is not None
            load = plan.body[position]
            assert isinstance(load, Load) and load.mask is not None
            if varying[load.mask] - {where.axis}:
                return None  # behind more than the piece's own range
            whole = _whole(plan, load.buffer)
            cut = _slice(plan, names, plan.addresses[position], whole, where) if whole is not None else None
            if cut is None and (counts[load.buffer] > 1 or goes_back(plan.addresses[position])):
                return None
            found[position] = PieceLoad(where, cut)
    return found


def _loads_of_piece(plan: KernelPlan, position: int) -> Iterator[int | None]:
    """The masked loads that a piece is computed from; None for anything else that it reads."""
    value = plan.body[position]
    if isinstance(value, Load):
        yield position if value.mask is not None and not plan.addresses[position].values else None
    elif isinstance(value, Pointwise):
        for argument in arguments(value):
            yield from _loads_of_piece(plan, argument)
    elif not isinstance(value, Scalar | Constant):
        yield None


def _whole(plan: KernelPlan, buffer: str) -> Address | None:
    """The one address at which a pointer is read without a mask; of two halves that are read apart, their row's."""
    loads = [
        (value.mask is None, plan.addresses[position])
        for position, value in enumerate(plan.body)
        if isinstance(value, Load) and value.buffer == buffer
    ]
    found = {repr(address): address for is_plain, address in loads if is_plain}
    if not found and len(loads) > 1:
        found = {repr(row): row for _, address in loads for row in [dataclasses.replace(address, offset=())]}
    return next(iter(found.values())) if len(found) == 1 else None


def goes_back(address: Address) -> bool:
    """Whether some axis walks backwards (a flip), which as_strided does not do."""
    return any(isinstance(factor, int) and factor < 0 for _, product in address.axes for factor in product)


def _slice(
    plan: KernelPlan, names: KernelNames, address: Address, whole: Address, where: Range
) -> str | None:
    """The half that a piece reads of a tensor whose halves are joined in the other order."""
    if address.axes != whole.axes or whole.offset or dict(address.axes).get(where.axis) != ():
        return None
    limit = where.end if where.start is None else where.start
    scalar = plan.body[limit] if limit is not None else None
    if limit is None or not isinstance(scalar, Scalar) or scalar.name != "half":
        return None
    word = names.scalars[limit]
    if where.start is None and address.offset == ((ScalarRef(limit),),):
        return f"{word}:"
    if where.end is None and address.offset == ((-1, ScalarRef(limit)),):
        return f":{word}"
    return None
