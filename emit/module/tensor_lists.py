"""Lists of tensors in model.py: which arguments of the call are lists, and how a list is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch import fx

from longhand.capture.graph import InputKind
from longhand.emit.module.trees import Parameter
from longhand.emit.names.unit_names import UnitNames
from longhand.lower.ir import memory_order
from longhand.schedule.plan import Access, Allocate, Launch, UnitPlan


@dataclasses.dataclass(frozen=True)
class TensorList:
    """An argument of the call that is a list of tensors, which kernels take as a whole.

    Attributes:
        name: The parameter.
        nodes: Its placeholders, in order.
        dtypes: Of its tensors.
        shapes: Of its tensors.
        is_contiguous: Whether all of them are.
        constant: The word of the module's constant that holds the shapes.
    """

    name: str
    nodes: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    shapes: tuple[tuple[int, ...], ...]
    is_contiguous: bool
    constant: str = ""

    @property
    def is_uniform(self) -> bool:
        """Whether one check covers all of its tensors."""
        return self.is_contiguous and len(set(self.dtypes)) == 1


def find_lists(
    plan: UnitPlan, parameters: Sequence[Parameter], nodes: Mapping[str, fx.Node]
) -> tuple[TensorList, ...]:
    """The arguments that are flat lists of tensors of known sizes, and that some kernel takes tensors of as a list."""
    listed = {
        name
        for step in plan.steps
        if isinstance(step, Launch) and plan.kernels[step.kernel].schedule.is_over_lists
        for name in step.touched
    }
    kinds = {entry.node: entry.kind for entry in plan.program.graph.inputs}
    found: list[TensorList] = []
    constants: dict[tuple[tuple[int, ...], ...], str] = {}
    for parameter in parameters:
        leaves = [leaf for leaf, _ in parameter.leaves if isinstance(leaf, str)]
        paths = [path for _, path in parameter.leaves]
        is_flat = paths == [f"{parameter.name}[{place}]" for place in range(len(paths))]
        if not is_flat or len(leaves) != len(paths) or not listed.intersection(leaves):
            continue
        values = [nodes[leaf].meta["val"] for leaf in leaves]
        if any(kinds[leaf] is not InputKind.ARGUMENT for leaf in leaves) or not all(map(_is_static, values)):
            continue
        shapes = tuple(tuple(value.shape) for value in values)
        word = constants.setdefault(shapes, f"{parameter.name.upper()}_SHAPES" if constants else "SHAPES")
        dtypes = tuple(value.dtype for value in values)
        is_contiguous = all(value.is_contiguous() for value in values)
        found.append(TensorList(parameter.name, tuple(leaves), dtypes, shapes, is_contiguous, word))
    return tuple(found)


def _is_static(value: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in value.shape)


@dataclasses.dataclass(frozen=True)
class MadeList:
    """A list of tensors that a launch makes.

    Attributes:
        name: The variable.
        nodes: The buffers, in order.
        like: The list whose tensors have the same shapes and dtypes; None if the launch reads no such list.
    """

    name: str
    nodes: tuple[str, ...]
    like: tuple[str, ...] | None


def find_made_lists(plan: UnitPlan, names: UnitNames, taken: set[str]) -> tuple[MadeList, ...]:
    """The lists whose tensors are all allocated for one launch, which fills them.

    Args:
        plan: The unit's plan.
        names: Its words.
        taken: Words that stand for something else.
    """
    allocated = {step.buffer for step in plan.steps if isinstance(step, Allocate)}
    found: list[MadeList] = []
    for step in plan.steps:
        if not isinstance(step, Launch) or not plan.kernels[step.kernel].schedule.is_over_lists:
            continue
        kernel = plan.kernels[step.kernel]
        columns = [
            tuple(group.buffers[place] for group in step.groups) for place in range(len(kernel.pointers))
        ]
        for pointer, buffers in zip(kernel.pointers, columns, strict=True):
            if not pointer.many or not allocated.issuperset(buffers) or pointer.access is not Access.WRITE:
                continue
            word = names.kernels[step.kernel].lists[pointer.name]
            while word in taken:
                word = f"new_{word}"
            taken.add(word)
            read = [
                other
                for source, other in zip(kernel.pointers, columns, strict=True)
                if source.many and source.access is not Access.WRITE
            ]
            found.append(
                MadeList(word, buffers, next((r for r in read if _are_alike(plan, buffers, r)), None))
            )
            allocated -= set(buffers)
    return tuple(found)


def _are_alike(plan: UnitPlan, made: Sequence[str], read: Sequence[str]) -> bool:
    """Whether each tensor is as the one in its place: contiguous, of the same shape and dtype."""
    pairs = [(plan.buffers[one], plan.buffers[other]) for one, other in zip(made, read, strict=True)]
    return all(
        (one.dtype, one.shape, one.stride) == (other.dtype, other.shape, other.stride)
        and memory_order(one) == list(range(len(one.shape)))
        for one, other in pairs
    )


def list_text(
    buffers: Sequence[str], variables: Mapping[str, str], lists: Sequence[TensorList | MadeList]
) -> str:
    """The expression for a list of buffers: an argument, a part of one, or its tensors one by one."""
    for one in lists:
        if buffers and buffers[0] in one.nodes:
            start = one.nodes.index(buffers[0])
            end = start + len(buffers)
            if one.nodes[start:end] == tuple(buffers):
                limits = f"{start or ''}:{'' if end == len(one.nodes) else end}"
                return one.name if limits == ":" else f"{one.name}[{limits}]"
    return f"[{', '.join(variables[buffer] for buffer in buffers)}]"


def shape_lines(lists: Sequence[TensorList]) -> list[str]:
    """The constants that hold the shapes: ``SHAPES = [(512, 64), *[(64,), (64, 64)] * 4]``."""
    return [
        f"{word} = {_shapes_text(shapes)}"
        for word, shapes in {one.constant: one.shapes for one in lists}.items()
    ]


def _shapes_text(shapes: Sequence[tuple[int, ...]]) -> str:
    """A list of shapes, what repeats itself once."""
    found = _longest_repeat(shapes)
    if found is None:
        return f"[{', '.join(map(str, shapes))}]"
    start, period, count = found
    end = start + period * count
    parts = [*map(str, shapes[:start]), f"*[{', '.join(map(str, shapes[start : start + period]))}] * {count}"]
    return f"[{', '.join([*parts, *map(str, shapes[end:])])}]"


def _longest_repeat(shapes: Sequence[object]) -> tuple[int, int, int] | None:
    """(start, period, count) of the repetition that spares most; None where it spares less than half a list."""
    best: tuple[int, int, int] | None = None
    spared = len(shapes) // 2
    for period in range(1, len(shapes) // 2 + 1):
        run = 0
        for place in range(len(shapes) - period, -1, -1):
            is_equal = place + period < len(shapes) and shapes[place] == shapes[place + period]
            run = run + 1 if is_equal else 0
            count = run // period + 1
            if count > 1 and (count - 1) * period > spared:
                best, spared = (place, period, count), (count - 1) * period
    return best
