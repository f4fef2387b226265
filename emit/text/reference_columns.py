"""Reads of a row's parts, as slices of one view: ``F.silu(gate_up[:, :n_cols]) * gate_up[:, up_offset:]``.

A kernel reads two parts of each row at two addresses, and a table that both halves of a row share at the place in the
half. Flat memory would show either as arithmetic of positions; a person writes slices, and joins the table to itself.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence

from longhand.capture.graph import Role
from longhand.emit.text.reference_ops import PieceLoad, goes_back
from longhand.emit.text.reference_page import StridedView, ViewFinder
from longhand.lower.ir import Load, Pointwise
from longhand.schedule.plan import Address, KernelPlan, ParameterRef, Product, SizeOf


@dataclasses.dataclass(frozen=True)
class ColumnRead:
    """How one load is seen.

    Attributes:
        view: Of the pointer; the same for all of its loads.
        text: What the load reads, with `{}` for the tensor.
        numbers: The parameters besides tensors that the text names.
    """

    view: StridedView
    text: str
    numbers: tuple[str, ...]


def find_columns(
    plan: KernelPlan, finder: ViewFinder, used: Container[int], pieces: Mapping[int, PieceLoad]
) -> dict[int, ColumnRead]:
    """The loads of pointers that are read as parts of rows, or in halves that are alike."""
    loads: dict[str, list[int]] = defaultdict(list)
    barred: set[str] = set()
    for position, value in enumerate(plan.body):
        if not isinstance(value, Load) or position not in used:
            continue
        loads[value.buffer].append(position)
        if position in pieces or value.mask is not None or goes_back(plan.addresses[position]):
            barred.add(value.buffer)
    seen: dict[int, ColumnRead] = {}
    for buffer, positions in loads.items():
        if buffer not in barred and plan.axes:
            seen |= _parts(plan, finder, buffer, positions) or _halves(plan, finder, buffer, positions)
    return seen


def _parts(
    plan: KernelPlan, finder: ViewFinder, buffer: str, positions: Sequence[int]
) -> dict[int, ColumnRead]:
    """Two parts of each row, the second of which begins at a column that is told."""
    addresses = [plan.addresses[position] for position in positions]
    first, *others = sorted({address.offset for address in addresses}, key=len)
    col = plan.axes[-1].name
    if first or len(others) != 1 or len({address.axes for address in addresses}) != 1:
        return {}
    (begin,) = others
    steps = dict(addresses[0].axes)
    if any(address.values for address in addresses) or steps.get(col) != () or not _is_column(begin, col):
        return {}
    at_start = positions[[address.offset for address in addresses].index(())]
    view = finder.read(at_start, buffer)
    if view.back or len(view.shape) != len(steps):
        return {}
    size, word = finder.names.axes[col].size, finder.product(begin[0]).text
    wide = dataclasses.replace(view, shape=(*view.shape[:-1], f"{word} + {size}"))
    every = ":, " * (len(view.shape) - 1)
    seen = {}
    for position, address in zip(positions, addresses, strict=True):
        part = f"{word}:" if address.offset else f":{word if word == size else size}"
        seen[position] = ColumnRead(wide, f"{{}}[{every}{part}]", tuple(dict.fromkeys((size, word))))
    return seen


def _is_column(begin: tuple[Product, ...], col: str) -> bool:
    """Whether an offset is a column's number: the size of the columns, or an argument that tells it."""
    if len(begin) != 1 or len(begin[0]) != 1:
        return False
    (factor,) = begin[0]
    return factor == SizeOf(col) or isinstance(factor, ParameterRef)


def _halves(
    plan: KernelPlan, finder: ViewFinder, buffer: str, positions: Sequence[int]
) -> dict[int, ColumnRead]:
    """A table as wide as half a row, which is read at the place in the half."""
    addresses = {plan.addresses[position] for position in positions}
    if len(addresses) != 1:
        return {}
    (address,) = addresses
    half = _half_of(plan, finder, address)
    if half is None:
        return {}
    steps = dict(address.axes)
    order = [axis.name for axis in plan.axes[:-1]]
    while order and order[0] not in steps:
        order.pop(0)
    shape = [finder.names.axes[axis].size if axis in steps else "1" for axis in order]
    stride = [finder.product(steps[axis]).text if axis in steps else "0" for axis in order]
    view = StridedView(finder.names.pointers[buffer], (*shape, half), (*stride, "1"))
    text = f"{{}}.repeat({'1, ' * len(order)}2)"
    return {position: ColumnRead(view, text, ()) for position in positions}


def _half_of(plan: KernelPlan, finder: ViewFinder, address: Address) -> str | None:
    """The word of the size of a half, where a table is read at the place in it."""
    col = plan.axes[-1].name
    if address.offset or len(address.values) != 1 or address.values[0][1] != () or col in dict(address.axes):
        return None
    chosen = plan.body[address.values[0][0]]
    if not isinstance(chosen, Pointwise) or chosen.name is not Role.IN_HALF:
        return None
    condition = plan.body[chosen.args[0]]
    assert isinstance(condition, Pointwise)  # at < half
    at, limit = condition.args
    along = plan.addresses.get(at)
    if along is None or along.axes != ((col, ()),) or along.values or along.offset:
        return None
    return finder.names.scalars.get(limit)
