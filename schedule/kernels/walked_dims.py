"""Which dimensions of the tensors of a launch its axes walk: they tell how long an axis is where no word does.

By strides, not by sizes: that two numbers are the same says nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from longhand.lower.ir import Buffer, Load, Size, Store
from longhand.schedule.kernels.address_terms import value_of
from longhand.schedule.kernels.kernel_plan import Access, KernelPlan

_MOST_STEPS = 4  # along a dimension that are read as so many of its strides
_MOST_PARTS = 4  # of one dimension that are joined: queries, keys and values, and a gate


@dataclasses.dataclass(frozen=True)
class WalkedDims:
    """Neighbouring dimensions of a tensor that an axis walks from end to end, by itself or together with another.

    Attributes:
        place: Which of the tensors that the launch is given.
        dims: The dimensions.
        beside: The axis that walks the one dimension with it: of pairs in a row their two places.
        n_left_out: How many of the one dimension's places come before or after: the first, for a class.
        n_parts: Of how many parts of the one dimension that are so long it walks one: of a gate beside what it gates.
        is_outer: Whether each of its steps goes over all of that other axis.
    """

    place: int
    dims: tuple[int, ...]
    beside: str | None = None
    n_left_out: int = 0
    n_parts: int = 1
    is_outer: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the axis is as long as the dimensions are."""
        return self.beside is None and not self.n_left_out and self.n_parts == 1


def walked_dims(
    kernel: KernelPlan, sizes: Sequence[Size], ints: Sequence[Size], buffers: Sequence[Buffer]
) -> dict[str, list[WalkedDims]]:
    """By axis: what it walks in a launch with these sizes and numbers, of what is written first.

    Args:
        kernel: What is launched.
        sizes: Of its axes.
        ints: Its strides and offsets.
        buffers: The tensors that it is given.
    """
    of_axes = dict(zip((axis.name for axis in kernel.axes), sizes, strict=True))
    passed = [pointer for pointer in kernel.pointers if not pointer.scratch]
    places = sorted(range(len(passed)), key=lambda place: passed[place].access is Access.READ)
    walked: dict[str, list[WalkedDims]] = {axis: [] for axis in of_axes}
    for place in places:
        for access in _accesses(kernel, passed[place].name, of_axes, ints):
            for axis in access.steps:
                walked[axis] += _walked(axis, access, of_axes, place, buffers[place])
    return walked


@dataclasses.dataclass(frozen=True)
class _Access:
    """Where one access of a tensor begins in it, and how far one step of each axis goes."""

    begin: int
    steps: Mapping[str, int]


def _accesses(
    kernel: KernelPlan, pointer: str, sizes: Mapping[str, Size], ints: Sequence[Size]
) -> Iterator[_Access]:
    """The accesses of a tensor of which all steps are numbers."""
    of_ints = dict(zip((one.name for one in kernel.ints), ints, strict=True))
    for position, value in enumerate(kernel.body):
        if not isinstance(value, Load | Store) or value.buffer != pointer:
            continue
        address = kernel.addresses[position]
        begins = [value_of(factors, sizes, of_ints) for factors in address.offset]
        steps = {axis: value_of(factors, sizes, of_ints) for axis, factors in address.axes}
        numbers = {axis: step for axis, step in steps.items() if isinstance(step, int) and step > 0}
        if len(numbers) == len(steps) and all(isinstance(begin, int) for begin in begins):
            yield _Access(sum(begin for begin in begins if isinstance(begin, int)), numbers)


def _walked(
    axis: str, access: _Access, sizes: Mapping[str, Size], place: int, buffer: Buffer
) -> Iterator[WalkedDims]:
    """What one axis walks of a tensor."""
    size, step = sizes[axis], access.steps[axis]
    shape = [one for one in buffer.shape if isinstance(one, int)]
    strides = [one for one in buffer.stride if isinstance(one, int)]
    is_known = buffer.layout_is_known and len(shape) == len(strides) == len(buffer.shape)
    if not is_known or not isinstance(size, int):
        return
    for last, stride in enumerate(strides):
        if shape[last] == 1:
            continue
        split = [
            (first, other)
            for first in _firsts(last, shape, strides)
            for other in _split(axis, access, sizes, stride, math.prod(shape[first : last + 1]))
        ]
        for first, other in split:
            is_outer = access.steps[other] < step
            yield WalkedDims(place, tuple(range(first, last + 1)), other, is_outer=is_outer)
        if stride == step:
            yield from _whole(size, last, shape, strides, place)
            if not split and not _is_shared(axis, access, stride, shape[last]):
                yield from _part(size, last, shape[last], access.begin, stride, place)


def _firsts(last: int, shape: Sequence[int], strides: Sequence[int]) -> Iterator[int]:
    """The dimensions from which on, up to one, a tensor lies without a gap."""
    yield last
    for first in range(last - 1, -1, -1):
        if strides[first] != strides[first + 1] * shape[first + 1]:
            return
        yield first


def _is_shared(axis: str, access: _Access, stride: int, of: int) -> bool:
    """Whether a further axis steps along the same dimension: what this one walks is no part that stands alone."""
    return any(stride < step < stride * of for other, step in access.steps.items() if other != axis)


def _split(axis: str, access: _Access, sizes: Mapping[str, Size], stride: int, of: int) -> Iterator[str]:
    """The axes with each of which an axis walks one dimension, or neighbouring ones."""
    size, step = sizes[axis], access.steps[axis]
    for other, other_step in access.steps.items():
        other_size = sizes[other]
        if other == axis or not isinstance(other_size, int) or not isinstance(size, int):
            continue
        is_inner = other_step < step
        inner, outer, n_inner = (other_step, step, other_size) if is_inner else (step, other_step, size)
        if inner == stride and outer == n_inner * stride and size * other_size == of:
            yield other


def _part(size: int, dim: int, of: int, begin: int, stride: int, place: int) -> Iterator[WalkedDims]:
    """All of a dimension but its first places or its last ones, or one of the parts that it is joined of."""
    n_left_out, n_parts = of - size, of // size
    if 0 < n_left_out < size and begin in (0, n_left_out * stride):
        yield WalkedDims(place, (dim,), n_left_out=n_left_out)
    is_joined = 1 < n_parts <= _MOST_PARTS and n_parts * size == of
    if is_joined and begin % (size * stride) == 0 and begin < of * stride:
        yield WalkedDims(place, (dim,), n_parts=n_parts)


def _whole(
    size: int, last: int, shape: Sequence[int], strides: Sequence[int], place: int
) -> Iterator[WalkedDims]:
    """The dimensions, of which one is the last, that are so long together and lie without a gap."""
    for first in _firsts(last, shape, strides):
        if math.prod(shape[first : last + 1]) == size:
            yield WalkedDims(place, tuple(range(first, last + 1)))
            return


@dataclasses.dataclass(frozen=True)
class FewStrides:
    """So many steps along a dimension of a tensor; along none that are of one element each."""

    times: int
    dim: int | None


def few_strides(value: Size, buffer: Buffer) -> FewStrides | None:
    """The stride of a tensor that a number is, or a few of them; None where none is, or more than one may be meant."""
    steps = _strides(buffer)
    for times in range(1, _MOST_STEPS + 1):
        dims = [dim for dim, stride in steps if stride > 1 and times * stride == value]
        if len(dims) == 1:
            return FewStrides(times, dims[0])
    return None


def steps_to(value: Size, buffer: Buffer) -> tuple[FewStrides, ...]:
    """The few steps along dimensions of a tensor that lead to a place, or lead away from it; none where many do."""
    if not isinstance(value, int):
        return ()
    rest, steps = abs(value), list[FewStrides]()
    for dim, stride in sorted(_strides(buffer), key=lambda one: -one[1]):
        times, rest = divmod(rest, stride)
        size = buffer.shape[dim]
        if times > _MOST_STEPS or (times and (not isinstance(size, int) or times >= size or not dim)):
            return ()  # of another sample begins nothing: a piece that comes later has as many elements by chance
        steps += [FewStrides(times, dim if stride > 1 else None)] if times else []
    return tuple(steps) if not rest and steps and steps[0].dim is not None else ()


def _strides(buffer: Buffer) -> list[tuple[int, int]]:
    """(dimension, stride) of those dimensions of a tensor whose strides differ from all others'."""
    known = [
        (dim, stride)
        for dim, (size, stride) in enumerate(zip(buffer.shape, buffer.stride, strict=True))
        if str(size) != "1" and isinstance(stride, int) and stride > 0
    ]
    strides = [stride for _, stride in known]
    is_told = buffer.layout_is_known
    return [(dim, stride) for dim, stride in known if is_told and strides.count(stride) == 1]
