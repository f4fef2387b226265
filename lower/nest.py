"""One nest under construction: the axes of an iteration space, and loads and stores through views at its points.

A nest is made over a shape. Each dimension becomes one axis, or several where a view that is read there has several
atoms; all views then see the same axes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import sympy
import torch

from longhand.errors import LoweringError
from longhand.lower.body import Index, Size
from longhand.lower.builder import BodyBuilder, Handle, Number
from longhand.lower.ir import Axis, Nest
from longhand.lower.sizes import add, contiguous_strides, divide, multiply, product
from longhand.lower.views import Atom, TensorView, refined

Sizes = tuple[Size, ...]


@dataclasses.dataclass(frozen=True)
class Coordinate:
    """A position along one dimension: an affine expression of axes, plus values of the body."""

    axes: tuple[tuple[str, Size], ...] = ()
    offset: Size = 0
    values: tuple[tuple[int, Size], ...] = ()

    def times(self, factor: Size) -> Coordinate:
        """The whole expression multiplied."""
        return Coordinate(
            tuple((axis, multiply(step, factor)) for axis, step in self.axes),
            multiply(self.offset, factor),
            tuple((value, multiply(step, factor)) for value, step in self.values),
        )

    def plus(self, offset: Size) -> Coordinate:
        """The expression moved by a constant."""
        return dataclasses.replace(self, offset=add(self.offset, offset))


def combine(coordinates: Sequence[Coordinate]) -> Index:
    """The sum of coordinates as an index."""
    offset: Size = 0
    axes: dict[str, Size] = {}
    values: dict[int, Size] = {}
    for coordinate in coordinates:
        offset = add(offset, coordinate.offset)
        for axis, step in coordinate.axes:
            axes[axis] = add(axes.get(axis, 0), step)
        for value, step in coordinate.values:
            values[value] = add(values.get(value, 0), step)
    return Index(
        offset,
        tuple((axis, step) for axis, step in sorted(axes.items()) if step != 0),
        tuple((value, step) for value, step in sorted(values.items()) if step != 0),
    )


def refine(known: Sizes, other: Sizes) -> Sizes | None:
    """The coarsest factors of a dimension that both lists of factors (outermost first) are made of, or None."""
    left, right = list(known), list(other)
    factors: list[Size] = []
    while left and right:
        a, b = left.pop(), right.pop()
        inner = b if divide(a, b) is not None else a
        for rest, size in ((left, a), (right, b)):
            outer = divide(size, inner)
            if outer is None:
                return None
            if outer != 1:
                rest.append(outer)
        factors.append(inner)
    return None if left or right else tuple(reversed(factors))


class NestBuilder:
    """A nest under construction.

    Args:
        origin: The node of the captured graph.
        shape: The iteration space.
        factors: For each dimension, the sizes of its axes, outermost first; () for a size of 1.
        words: Names for symbolic sizes.
    """

    def __init__(
        self, origin: str, shape: Sizes, factors: Sequence[Sizes], words: Mapping[sympy.Expr, str]
    ) -> None:
        self.shape = shape
        self.body = BodyBuilder(origin)
        self._dims = _name_axes(factors, words)

    @property
    def rank(self) -> int:
        """The number of dimensions of the space."""
        return len(self.shape)

    def axes(self, dims: Sequence[int] | None = None) -> tuple[str, ...]:
        """The names of the axes that some dimensions (default: all) consist of."""
        chosen = range(self.rank) if dims is None else dims
        return tuple(axis.name for dim in chosen for axis in self._dims[dim])

    def coordinate(self, dim: int) -> Coordinate:
        """The position along one dimension."""
        axes = self._dims[dim]
        steps = contiguous_strides(tuple(axis.size for axis in axes))
        return Coordinate(tuple((axis.name, step) for axis, step in zip(axes, steps, strict=True)))

    def position(self, dim: int) -> Handle:
        """The position along one dimension, as an int64 value."""
        return self.position_of(self.coordinate(dim))

    def position_of(self, coordinate: Coordinate) -> Handle:
        """An affine coordinate, as an int64 value."""
        if not coordinate.axes:
            return self.size(coordinate.offset)
        return self.body.position(combine([coordinate]))

    def size(self, size: Size, dtype: torch.dtype = torch.int64) -> Handle:
        """A size as a value: a constant, or a scalar argument if it is symbolic."""
        if isinstance(size, int):
            return self.body.constant(size, dtype)
        return self.body.scalar(size, dtype)

    def load(
        self, view: TensorView, mask: Handle | None = None, other: Number = 0, name: str | None = None
    ) -> Handle:
        """The element of a view (whose shape is the space's) at the current point, in its compute dtype."""
        index = combine([*self._steps(view), Coordinate(offset=view.offset)])
        return self.body.load(view.buffer, index, view.dtype, mask, other, name)

    def load_at(
        self,
        view: TensorView,
        coordinates: Sequence[Coordinate],
        mask: Handle | None = None,
        other: Number = 0,
        name: str | None = None,
    ) -> Handle:
        """The element of a strided view at any coordinates, one per dimension."""
        return self.body.load(view.buffer, self._element(view, coordinates), view.dtype, mask, other, name)

    def _element(self, view: TensorView, coordinates: Sequence[Coordinate]) -> Index:
        """Where the element of a strided view at any coordinates is."""
        strides = view.strides()
        if strides is None:
            raise LoweringError(f"{view.buffer} is accessed at computed positions but has no strides.")
        terms = [at.times(stride) for at, stride in zip(coordinates, strides, strict=True)]
        return combine([*terms, Coordinate(offset=view.offset)])

    def store(
        self, view: TensorView, value: Handle, dims: Sequence[int] | None = None, mask: Handle | None = None
    ) -> None:
        """Writes a value to a view whose dimensions are `dims` of the space (default: all)."""
        index = combine([*self._steps(view, dims), Coordinate(offset=view.offset)])
        self.body.store(view.buffer, index, value.to(view.dtype), mask)

    def store_at(self, view: TensorView, coordinates: Sequence[Coordinate], value: Handle) -> None:
        """Writes a value to the element of a strided view at any coordinates, one per dimension."""
        self.body.store(view.buffer, self._element(view, coordinates), value.to(view.dtype))

    def add_at(
        self, view: TensorView, coordinates: Sequence[Coordinate], value: Handle, mask: Handle | None = None
    ) -> None:
        """Adds a value to the element of a strided view at any coordinates, one per dimension."""
        self.body.store(view.buffer, self._element(view, coordinates), value.to(view.dtype), mask, adds=True)

    def finish(self) -> Nest:
        """The nest as built so far."""
        return Nest(tuple(axis for axes in self._dims for axis in axes), tuple(self.body.values))

    def _steps(self, view: TensorView, dims: Sequence[int] | None = None) -> list[Coordinate]:
        chosen = range(self.rank) if dims is None else dims
        terms: list[Coordinate] = []
        for own, dim in enumerate(chosen):
            axes = self._dims[dim]
            atoms = _split(view, own, tuple(axis.size for axis in axes))
            terms += [Coordinate(((axis.name, atom.step),)) for axis, atom in zip(axes, atoms, strict=True)]
        return terms


def _split(view: TensorView, dim: int, sizes: Sizes) -> tuple[Atom, ...]:
    if not view.dims[dim] and sizes:
        return tuple(Atom(size, 0) for size in sizes)
    if any(size == 0 for size in sizes):
        return tuple(Atom(size, 0) for size in sizes)
    atoms = refined(view, dim, sizes)
    if atoms is None:
        raise LoweringError(
            f"Dimension {dim} of {view.buffer}, {view.dims[dim]}, does not split into {sizes}."
        )
    return atoms


def _name_axes(factors: Sequence[Sizes], words: Mapping[sympy.Expr, str]) -> tuple[tuple[Axis, ...], ...]:
    taken: set[str] = set()
    dims: list[tuple[Axis, ...]] = []
    for dim, sizes in enumerate(factors):
        axes = []
        for part, size in enumerate(sizes):
            word = None if isinstance(size, int) else words.get(size)
            if word is None or word in taken:
                word = f"d{dim}" if len(sizes) == 1 else f"d{dim}_{part}"
            taken.add(word)
            axes.append(Axis(word, size))
        dims.append(tuple(axes))
    return tuple(dims)


def factors_of(shape: Sizes, views: Sequence[TensorView]) -> tuple[list[Sizes], list[int]]:
    """The axes' sizes for each dimension of a space in which `views` are read, and which views do not fit.

    Every view has the space's shape (expanded). A dimension is one axis unless a view has several atoms there. Views
    are fitted in order; the positions of those that do not factor together with earlier ones come back for copying.
    """
    factors: list[Sizes] = [() if size == 1 else (size,) for size in shape]
    unfit: list[int] = []
    for position, view in enumerate(views):
        finer = list(factors)
        for dim, atoms in enumerate(view.dims):
            if len(atoms) < 2 or product(finer[dim]) == 0:
                continue
            refined = refine(finer[dim], tuple(atom.size for atom in atoms))
            if refined is None:
                unfit.append(position)
                break
            finer[dim] = refined
        else:
            factors = finer
    return factors, unfit
