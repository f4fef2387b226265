"""Index algebra: what a tensor is during lowering. Every view op is a new map onto the same buffer, never a copy.

A tensor is a buffer, an offset, and for each dimension a tuple of *atoms*: factors of the dimension, outermost first,
each with its own step in the buffer. A plain strided dimension is one atom; the dimension that a reshape merges from
a transposed tensor is several, and a loop over it becomes several loops. Dimensions of size 1 have no atoms, so that
their axes never exist. What does not factor (a reshape across atoms that neither divide nor merge) returns None: the
caller copies, as eager does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from longhand.errors import LoweringError
from longhand.lower.body import Size
from longhand.lower.ir import Buffer, View, ViewCall
from longhand.lower.sizes import add, contiguous_strides, divide, exact_quotient, multiply, product, same


@dataclasses.dataclass(frozen=True)
class Atom:
    """One factor of a dimension: `size` positions that are `step` elements apart."""

    size: Size
    step: Size


Dim = tuple[Atom, ...]


@dataclasses.dataclass(frozen=True)
class TensorView:
    """A tensor of the captured graph during lowering.

    Attributes:
        buffer: Whose memory it is.
        dtype: The element type in memory.
        dims: The atoms of each dimension; () for a size of 1.
        offset: Where it begins, in elements.
        calls: How a person would write the view, starting from the whole buffer; None where no such words exist.
    """

    buffer: str
    dtype: torch.dtype
    dims: tuple[Dim, ...]
    offset: Size = 0
    calls: tuple[ViewCall, ...] | None = ()

    @property
    def shape(self) -> tuple[Size, ...]:
        """Sizes."""
        return tuple(product(atom.size for atom in dim) for dim in self.dims)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no elements."""
        return any(atom.size == 0 for dim in self.dims for atom in dim)

    def size(self, dim: int) -> Size:
        """The size of one dimension."""
        return product(atom.size for atom in self.dims[dim])

    def said(self, source: TensorView, call: ViewCall) -> TensorView:
        """The same map with its words: those of `source`, and one call more."""
        return dataclasses.replace(self, calls=None if source.calls is None else (*source.calls, call))

    def replaced(self, dims: Sequence[Dim], offset: Size | None = None) -> TensorView:
        """The same memory seen through other atoms; words for it are not known."""
        start = self.offset if offset is None else offset
        return TensorView(self.buffer, self.dtype, tuple(dims), start, calls=None)

    # --- views that move, drop and add dimensions ---

    def permute(self, order: Sequence[int]) -> TensorView:
        """Dimensions in another order."""
        return self.replaced([self.dims[i] for i in order])

    def transpose(self, first: int, second: int) -> TensorView:
        """Two dimensions swapped."""
        order = list(range(self.rank))
        if order:
            order[first], order[second] = order[second], order[first]
        return self.permute(order)

    def drop(self, dim: int) -> TensorView:
        """Without one dimension, at its position 0."""
        return self.replaced(self.dims[:dim] + self.dims[dim + 1 :])

    def insert(self, dim: int) -> TensorView:
        """With a new dimension of size 1."""
        return self.replaced((*self.dims[:dim], (), *self.dims[dim:]))

    def expand(self, shape: Sequence[Size]) -> TensorView:
        """Broadcast to `shape`, new dimensions in front. Sizes must be known, never -1.

        A dimension that is not 1 has the size that it is broadcast to: eager asks for that, and where one of the two
        is symbolic the trace holds it as a condition. So it takes that size's form, ``c // (c // 4)`` as well as 4.
        """
        missing = len(shape) - self.rank
        dims: list[Dim] = []
        for i, size in enumerate(shape):
            own = self.dims[i - missing] if i >= missing else ()
            is_one = all(atom.size == 1 for atom in own)
            if is_one and not same(size, 1):
                dims.append(_atoms(size, 0))
            elif len(own) == 1 and not (isinstance(size, int) and isinstance(own[0].size, int)):
                dims.append(_atoms(size, own[0].step))
            else:
                dims.append(own)
        return self.replaced(dims)

    # --- views that take a part ---

    def narrow(self, dim: int, start: Size, length: Size, step: Size = 1) -> TensorView | None:
        """`length` positions of one dimension from `start` on, `step` apart (negative: backwards)."""
        if start == 0 and step == 1 and same(length, self.size(dim)):
            return self
        stride = self.stride_of(dim)
        if stride is None:
            return _narrow_outermost(self, dim, start, length, step)
        offset = add(self.offset, multiply(start, stride))
        dims = list(self.dims)
        dims[dim] = _atoms(length, multiply(stride, step))
        return self.replaced(dims, offset)

    def select(self, dim: int, index: Size) -> TensorView | None:
        """One position of a dimension, which goes away."""
        stride = self.stride_of(dim)
        if stride is None:
            if not isinstance(index, int):
                return None
            return _select_static(self, dim, index)
        return self.replaced(
            self.dims[:dim] + self.dims[dim + 1 :], add(self.offset, multiply(index, stride))
        )

    def flip(self, dim: int) -> TensorView:
        """One dimension backwards."""
        offset = self.offset
        atoms = []
        for atom in self.dims[dim]:
            offset = add(offset, multiply(add(atom.size, -1), atom.step))
            atoms.append(Atom(atom.size, multiply(atom.step, -1)))
        dims = list(self.dims)
        dims[dim] = tuple(atoms)
        return self.replaced(dims, offset)

    def shifted(self, dim: int, start: Size, size: Size) -> TensorView | None:
        """A map for `size` positions of which those from `start` on are this view's; the others must not be read."""
        stride = self.stride_of(dim)
        if stride is None:
            return None
        dims = list(self.dims)
        dims[dim] = _atoms(size, stride)
        return self.replaced(dims, add(self.offset, multiply(multiply(start, stride), -1)))

    # --- views that split and merge dimensions ---

    def reshape(self, shape: Sequence[Size]) -> TensorView | None:
        """Another shape over the same elements in the same order; None where the atoms do not factor."""
        if self.is_empty or any(size == 0 for size in shape):
            return self.replaced(_plain_dims(tuple(shape)))
        queue = merge_atoms([atom for dim in self.dims for atom in dim])
        dims: list[Dim] = []
        for size in reversed(shape):
            taken = _take_inner(queue, size, shape)
            if taken is None:
                return None
            dims.append(taken)
        if any(not same(atom.size, 1) for atom in queue):
            raise LoweringError(f"A view of {self.shape} as {tuple(shape)} loses elements.")
        return self.replaced(list(reversed(dims)))

    # --- strides ---

    def stride_of(self, dim: int) -> Size | None:
        """The one stride of a dimension (0 for a size of 1), or None where it has several atoms."""
        atoms = merge_atoms(list(self.dims[dim]))
        if not atoms:
            return 0
        return atoms[0].step if len(atoms) == 1 else None

    def strides(self) -> tuple[Size, ...] | None:
        """The strides of the whole view as torch would report them, or None where a dimension has none."""
        shape = self.shape
        strides: list[Size] = []
        for dim in range(self.rank - 1, -1, -1):
            stride = self.stride_of(dim)
            if stride is None:
                return None
            if not self.dims[dim]:
                inner = strides[-1] if strides else 1
                stride = multiply(inner, shape[dim + 1]) if strides else 1
            strides.append(stride)
        return tuple(reversed(strides))

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie one after the other in row-major order."""
        expected: Size = 1
        for atom in reversed([atom for dim in self.dims for atom in dim]):
            if not same(atom.step, expected):
                return False
            expected = multiply(expected, atom.size)
        return True

    def as_ir(self) -> View | None:
        """The view as an argument of an extern or a result; None where no strides or no words describe it."""
        strides = self.strides()
        if strides is None or self.calls is None or any(isinstance(s, int) and s < 0 for s in strides):
            return None
        return View(self.buffer, self.shape, strides, self.offset, self.calls)


def overlaps(view: TensorView) -> bool:
    """Whether one element may be seen at two positions (expanded or overlapping windows)."""
    atoms = [atom for dim in view.dims for atom in dim]
    if any(atom.step == 0 for atom in atoms):
        return True
    if any(not isinstance(atom.step, int) or not isinstance(atom.size, int) for atom in atoms):
        return not view.is_contiguous
    reach = 0
    for atom in sorted(atoms, key=lambda atom: abs(int(atom.step))):
        if abs(int(atom.step)) <= reach:
            return True
        reach += (int(atom.size) - 1) * abs(int(atom.step))
    return False


def refined(view: TensorView, dim: int, sizes: Sequence[Size]) -> Dim | None:
    """The atoms of a dimension split so that they have exactly `sizes`, outermost first; None if impossible."""
    atoms = list(view.dims[dim])
    split_atoms: list[Atom] = []
    for size in reversed(sizes):
        taken = _take_inner(atoms, size)
        if taken is None or len(taken) != 1:
            return None
        split_atoms.append(taken[0])
    return tuple(reversed(split_atoms))


def whole(buffer: Buffer) -> TensorView:
    """The tensor that a buffer is."""
    dims = tuple(_atoms(size, stride) for size, stride in zip(buffer.shape, buffer.stride, strict=True))
    return TensorView(buffer.name, buffer.dtype, dims)


def as_strided(view: TensorView, shape: Sequence[Size], strides: Sequence[Size], offset: Size) -> TensorView:
    """Any strided map onto the buffer of a view."""
    dims = tuple(_atoms(size, stride) for size, stride in zip(shape, strides, strict=True))
    return TensorView(view.buffer, view.dtype, dims, offset, calls=None)


def _narrow_outermost(view: TensorView, dim: int, start: Size, length: Size, step: Size) -> TensorView | None:
    """A part of a dimension of several atoms, if it is whole positions of the outermost one."""
    outer, *inner = view.dims[dim]
    width = product(atom.size for atom in inner)
    skipped, taken = divide(start, width), divide(length, width)
    if skipped is None or taken is None or step != 1:
        return None
    dims = list(view.dims)
    dims[dim] = (*_atoms(taken, outer.step), *inner)
    return view.replaced(dims, add(view.offset, multiply(skipped, outer.step)))


def _select_static(view: TensorView, dim: int, index: int) -> TensorView | None:
    offset = view.offset
    for atom in reversed(view.dims[dim]):
        if not isinstance(atom.size, int):
            return None
        index, digit = divmod(index, atom.size)
        offset = add(offset, multiply(digit, atom.step))
    return view.replaced(view.dims[:dim] + view.dims[dim + 1 :], offset)


def merge_atoms(atoms: Sequence[Atom]) -> list[Atom]:
    """Neighbours that are one longer atom, merged."""
    merged: list[Atom] = []
    for atom in atoms:
        if merged and same(merged[-1].step, multiply(atom.size, atom.step)):
            merged[-1] = Atom(multiply(merged[-1].size, atom.size), atom.step)
        else:
            merged.append(atom)
    return merged


def _atoms(size: Size, step: Size) -> Dim:
    """A dimension of one atom, or of none if its size is 1."""
    return () if size == 1 else (Atom(size, step),)


def _plain_dims(shape: tuple[Size, ...]) -> tuple[Dim, ...]:
    return tuple(_atoms(size, step) for size, step in zip(shape, contiguous_strides(shape), strict=True))


def _take_inner(queue: list[Atom], size: Size, wanted: Sequence[Size] = ()) -> Dim | None:
    """Removes the innermost `size` positions from a queue of atoms, splitting the last one taken if need be.

    Args:
        queue: The atoms that are left, outermost first.
        size: How many positions.
        wanted: The sizes of the whole shape. A reshape keeps the number of elements, so ``c`` as (4, c // 4) says
            that 4 divides c.
    """
    taken: list[Atom] = []
    rest = size
    while not same(rest, 1):
        if not queue:
            return None
        atom = queue.pop()
        remaining = divide(rest, atom.size) or (exact_quotient(rest, atom.size) if wanted else None)
        if remaining is not None:
            taken.append(atom)
            rest = remaining
            continue
        outer = divide(atom.size, rest) or (exact_quotient(atom.size, rest, wanted) if wanted else None)
        if outer is None:
            return None
        taken.append(Atom(rest, atom.step))
        queue.append(Atom(outer, multiply(atom.step, rest)))
        rest = 1
    return tuple(merge_atoms(list(reversed(taken))))
