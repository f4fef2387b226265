"""Modules that hold the same but for sizes: what they have in common, and words for the sizes in which they differ.

A size that is the same in all of them is a number, one that is always four times another is ``4 * width``.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from longhand.schedule.modules.held import Branch, ModuleSignature
from longhand.schedule.names.words import first_free, further_names, identifier


def module_signature(branch: Branch) -> ModuleSignature | None:
    """What it has in common with modules that hold the same but for sizes; None if it holds what no function makes."""
    held: list[object] = []
    for name, one in branch.held.items():
        if one.tied_to or one.source or one.strides:
            return None
        held.append((name, one.kind, len(one.shape), one.dtype, one.persistent, one.channels_last))
    below: list[object] = []
    for name, child in branch.branches.items():
        alike = module_signature(child)
        if alike is None:
            return None
        below.append((name, alike))
    if not held and not below:
        return None
    return tuple(held), tuple(below)


@dataclasses.dataclass(frozen=True)
class HeldSize:
    """One size of a tensor.

    Attributes:
        size: The number, or the words for it.
        module: The name of the module that holds the tensor, empty where that is the outermost.
        tensor: Its name.
        dim: Which of its dimensions.
        n_dims: How many it has.
    """

    size: int | str
    module: str
    tensor: str
    dim: int
    n_dims: int


def held_sizes(branch: Branch, module: str = "") -> Iterator[HeldSize]:
    """The sizes of all tensors that a module holds, in the order of its signature."""
    for name, held in branch.held.items():
        for dim, size in enumerate(held.shape):
            yield HeldSize(size, module, name, dim, len(held.shape))
    for name, child in branch.branches.items():
        yield from held_sizes(child, name)


Column = tuple[int, ...]  # one size in all modules


def size_columns(branches: Sequence[Branch]) -> list[tuple[HeldSize, Column]]:
    """Each size, and how large it is in all modules."""
    rows = zip(*map(held_sizes, branches), strict=True)
    return [(row[0], tuple(int(one.size) for one in row)) for row in rows]


def size_names(columns: Sequence[tuple[HeldSize, Column]]) -> dict[Column, str]:
    """The parameters: sizes that differ, and are no multiple of another one."""
    differing = {column: None for _, column in columns if len(set(column)) > 1}
    kernels = {column for one, column in columns if one.dim > 1}
    bases = [
        one
        for one in differing
        if not any(_multiple(one, other) for other in differing if other not in kernels)
    ]
    is_image = any(one.n_dims > 2 for one, _ in columns)
    names: dict[Column, str] = {}
    for column in bases:
        uses = [one for one, other in columns if other == column]
        matrices = [one for one in uses if one.n_dims > 1]
        first = (matrices or uses)[0]
        dims = {min(one.dim, 2) for one in matrices if one.tensor == "weight"}
        word = "channels" if is_image else "dim"
        if dims == {2}:
            word = "kernel"
        elif len(bases) > 1 and dims:
            word = "width" if len(dims) > 1 else ("n_out", "n_in")[dims.pop()]
        elif matrices and not dims:
            word = ("n_rows", "n_cols")[min(first.dim, 1)]
        module = identifier(first.module or first.tensor)
        choices = (word, f"{module}_{word.removeprefix('n_')}", f"{identifier(first.tensor)}_{word}")
        names[column] = first_free(itertools.chain(choices, further_names(word)), {*names.values()})
    return names


def _multiple(column: Column, base: Column) -> int:
    """How many times a size is another one in all modules; 0 if that is no number, or one."""
    times = column[0] // base[0] if base[0] else 0
    return (
        times
        if times > 1 and all(one == times * other for one, other in zip(column, base, strict=True))
        else 0
    )


def size_text(column: Column, words: Mapping[Column, str]) -> int | str:
    """A size that the words tell: a number, a word or its multiple; empty if none does."""
    if len(set(column)) == 1:
        return column[0]
    if column in words:
        return words[column]
    base = next((one for one in words if _multiple(column, one) and words[one] != "kernel"), None)
    return f"{_multiple(column, base)} * {words[base]}" if base is not None else ""


def with_sizes(branch: Branch, sizes: Iterator[int | str]) -> Branch:
    """The module with other sizes, given in the order of its signature."""
    held = {
        name: dataclasses.replace(one, shape=tuple(itertools.islice(sizes, len(one.shape))))
        for name, one in branch.held.items()
    }
    return Branch(held, {name: with_sizes(child, sizes) for name, child in branch.branches.items()})
