"""The Python face of a C++ kernel over lists of tensors: what it is given, and what it makes of that."""

from __future__ import annotations

import dataclasses

from longhand.schedule.named_plan import KernelNames
from longhand.schedule.names.words import listed
from longhand.schedule.plan import Access, KernelPlan


@dataclasses.dataclass(frozen=True)
class ListFace:
    """What templates/unit/cpp_kernel.py.jinja prints for a kernel over lists.

    Attributes:
        arguments: The function's parameters: lists, tensors, scalars.
        does: Its docstring.
        words: The lists.
        sizes_of: The list whose tensors tell the numbers of elements; None where each is one element.
        size: The word for these numbers.
        given: What the C++ function is called with.
    """

    arguments: tuple[str, ...]
    does: str
    words: tuple[str, ...]
    sizes_of: str | None
    size: str
    given: tuple[str, ...]


def list_arguments(plan: KernelPlan, names: KernelNames) -> tuple[str, ...]:
    """The tensors and lists that the host function takes, in order."""
    words = {**names.pointers, **names.lists}
    return tuple(words[pointer.name] for pointer in plan.pointers if not pointer.scratch)


def whole_list(plan: KernelPlan, names: KernelNames) -> tuple[str, str] | None:
    """(list, tensor) for the first list whose tensors vary along the axis; None without an axis."""
    for pointer in plan.pointers:
        if pointer.many and pointer.dims:
            return names.lists[pointer.name], names.pointers[pointer.name]
    return None


def list_face(plan: KernelPlan, names: KernelNames) -> ListFace | None:
    """The face of a kernel over lists; None for others."""
    if not plan.schedule.is_over_lists:
        return None
    tensors = list_arguments(plan, names)
    scalars = tuple(names.scalars[scalar.position] for scalar in plan.scalars)
    words = tuple(names.lists[pointer.name] for pointer in plan.pointers if pointer.many)
    whole = whole_list(plan, names)
    size = names.axes[plan.axes[0].name].size if plan.axes else ""
    given = []
    for pointer, word in zip(plan.pointers, tensors, strict=True):
        given.append(f"addresses[{words.index(word)}]" if pointer.many else word)
    if given[: len(words)] == [f"addresses[{place}]" for place in range(len(words))]:
        given[: len(words)] = ["*addresses"]
    counted = whole[0] if whole is not None else words[0]
    written = [
        word
        for pointer, word in zip(plan.pointers, tensors, strict=True)
        if pointer.access is not Access.READ
    ]
    return ListFace(
        arguments=(*tensors, *scalars),
        does=f"Updates {listed(written)}: every tensor of the lists in one call.",
        words=words,
        sizes_of=whole[0] if whole is not None else None,
        size=size,
        given=(*given, *([size] if size else []), f"len({counted})", *scalars),
    )
