"""How a reference sees what its kernel is given: each tensor as the kernel's comment says it lies in memory.

``# bf16 (n_cols, n_rows)`` is a window of that shape, which the reference brings into the kernel's space (rows...,
cols...) by ``x.t()``. Where a tensor does not vary along an axis the window has size 1 there, without leading ones, so
that broadcasting puts everything in place. What has no such window (reads at data-dependent places, behind a mask, at
several addresses) comes as flat memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping

from longhand.emit.names.unit_names import KernelNames
from longhand.emit.text.expression import Precedence, Text
from longhand.emit.text.reference_joins import PieceLoad, goes_back
from longhand.lower.ir import Load
from longhand.schedule.plan import Address, KernelPlan, ParameterRef, Product, ScalarRef, SizeOf


@dataclasses.dataclass(frozen=True)
class StridedView:
    """How a tensor argument is seen; Python expressions over the kernel's own arguments.

    Attributes:
        tensor: The pointer's word.
        shape: Sizes; empty for one element.
        stride: Strides in elements.
        offset: Elements from the tensor's first to the view's.
        back: What brings it into the kernel's space: ``.t()``; empty where it is there.
    """

    tensor: str
    shape: tuple[str, ...]
    stride: tuple[str, ...]
    offset: str = "0"
    back: str = ""


class ViewFinder:
    """Finds the views of one kernel's tensors."""

    def __init__(self, plan: KernelPlan, names: KernelNames, pieces: Mapping[int, PieceLoad]) -> None:
        self.plan = plan
        self.names = names
        self.pieces = pieces

    def product(self, product: Product) -> Text:
        """A product of sizes and strides."""
        factors = [self._factor(factor) for factor in product]
        if not factors:
            return Text("1")
        return Text(" * ".join(factors), Precedence.PRODUCT if len(factors) > 1 else Precedence.ATOM)

    def _factor(self, factor: object) -> str:
        match factor:
            case SizeOf(axis=axis):
                return self.names.axes[axis].size
            case ParameterRef(name=name):
                return self.names.ints[name]
            case ScalarRef(position=position):
                return self.names.scalars[position]
        return str(factor)

    def written(self, position: int, buffer: str) -> StridedView:
        """Where a store's results lie, in the kernel's space with all its axes."""
        return self._in_space(position, buffer, [axis.name for axis in self.plan.axes])

    def read(self, position: int, buffer: str) -> StridedView:
        """How a load's tensor is seen."""
        if position in self.pieces and self.pieces[position].slice is None:
            return self._piece(position, buffer)
        address = self.plan.addresses[position]
        steps = dict(address.axes)
        varying = [axis.name for axis in self.plan.axes]
        while varying and varying[0] not in steps:
            varying.pop(0)
        order = self._memory_order(buffer, steps)
        if order is None or len(order) != len(varying) or order == varying:
            return self._in_space(position, buffer, varying)
        view = self._in_space(position, buffer, order)
        return dataclasses.replace(view, back=_back(order, varying))

    def _memory_order(self, buffer: str, steps: Mapping[str, Product]) -> list[str] | None:
        pointer = next(pointer for pointer in self.plan.pointers if pointer.name == buffer)
        return list(pointer.dims) if pointer.dims is not None and set(pointer.dims) == set(steps) else None

    def _in_space(self, position: int, buffer: str, order: list[str]) -> StridedView:
        address = self.plan.addresses[position]
        steps = dict(address.axes)
        shape = tuple(self.names.axes[axis].size if axis in steps else "1" for axis in order)
        stride = tuple(self.product(steps[axis]).text if axis in steps else "0" for axis in order)
        return StridedView(self.names.pointers[buffer], shape, stride, self._offset(address))

    def _offset(self, address: Address) -> str:
        return " + ".join(self.product(product).text for product in address.offset) or "0"

    def _piece(self, position: int, buffer: str) -> StridedView:
        """The tensor that fills part of an axis, at its own size."""
        view = self._in_space(position, buffer, [axis.name for axis in self.plan.axes])
        where = self.pieces[position].range
        place = [axis.name for axis in self.plan.axes].index(where.axis)
        start = self.names.scalars[where.start] if where.start is not None else None
        end = self.names.scalars[where.end] if where.end is not None else self.names.axes[where.axis].size
        address = self.plan.addresses[position]
        step = dict(address.axes).get(where.axis)
        shape = list(view.shape)
        shape[place] = end if start is None else f"{end} - {start}"
        offset = view.offset
        if where.start is not None and step is not None:
            begins = "0" if step == () and address.offset == ((-1, ScalarRef(where.start)),) else None
            offset = begins or " + ".join(
                [*([offset] if offset != "0" else []), f"{start} * {self.product(step).text}"]
            )
        return dataclasses.replace(view, shape=tuple(shape), offset=offset)


def _back(order: list[str], wanted: list[str]) -> str:
    """The call that brings dimensions in `order` into the order `wanted`."""
    moved = [place for place, axis in enumerate(wanted) if order[place] != axis]
    if len(moved) == 2:
        if len(order) == 2:
            return ".t()"
        one, other = (place - len(order) if moved[0] >= len(order) - 2 else place for place in moved)
        return f".transpose({one}, {other})"
    return f".permute({', '.join(str(order.index(axis)) for axis in wanted)})"


def flat_pointers(plan: KernelPlan, used: Container[int], pieces: Mapping[int, PieceLoad]) -> frozenset[str]:
    """Pointers that no single strided view shows: gathered, masked, or read at several addresses."""
    seen: dict[str, Address] = {}
    flat: set[str] = set()
    for position, value in enumerate(plan.body):
        if not isinstance(value, Load) or position not in used or position in pieces:
            continue
        address = plan.addresses[position]
        if (
            address.values
            or value.mask is not None
            or goes_back(address)
            or seen.get(value.buffer, address) != address
        ):
            flat.add(value.buffer)
        seen[value.buffer] = address
    return frozenset(flat)
