"""Modules that hold the same but for sizes: a function of these sizes makes the weights of each.

def conv_norm_weights(n_in, n_out, kernel):
    return Weights(conv=Weights(weight=(n_out, n_in, kernel, kernel)), norm=Weights(weight=(n_out,), bias=(n_out,)))

A size that is the same in all of them is a number, one that is always four times another is ``4 * width``.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from longhand.capture.graph import InputKind
from longhand.emit.module.module_tree import Branch, Likeness, WeightFunction
from longhand.schedule.names.words import first_free, further_words, identifier, snake_case

_LEAST_SAVED = 4  # lines that are worth a function
_FRAME = 5  # of it: its head, its docstring, two blank lines, its return
_WIDEST = 80


@dataclasses.dataclass
class _SizedWeights:
    """A function that makes the weights of modules.

    Attributes:
        name: ``conv_norm_weights``.
        module: What the user calls such a module: ``ConvNorm``.
        parameters: Its parameters.
        places: For each: which of all sizes that a module holds it is, the first one.
        pattern: What it makes, the sizes in its words.
    """

    name: str
    module: str
    parameters: tuple[str, ...]
    places: tuple[int, ...]
    pattern: Branch

    def arguments(self, branch: Branch) -> str:
        """What it is given to make one of the modules."""
        sizes = [one.size for one in _held_sizes(branch)]
        return ", ".join(str(sizes[place]) for place in self.places)


def find_weight_functions(
    root: Branch, layers: Mapping[str, frozenset[int]], class_of: Callable[[str], str]
) -> dict[Likeness, WeightFunction]:
    """The functions that are worth their lines, by what they make; those that are called by others come last.

    Args:
        root: The tree of modules.
        layers: By the path of a list: the positions of those of its layers that share a class.
        class_of: The user's class of the module at a path, or empty.
    """
    modules = list(_modules(root, "", layers))
    groups: dict[Likeness, list[tuple[str, Branch]]] = {}
    for path, branch in modules:
        alike = likeness(branch)
        if alike is not None and not any(owner.startswith(f"{path}.") for owner in layers):
            groups.setdefault(alike, []).append((path, branch))
    largest = sorted(groups, key=lambda alike: -sum(1 for _ in _held_sizes(groups[alike][0][1])))
    worth: list[Likeness] = []
    for alike in largest:
        n_lines = _n_lines(groups[alike][0][1])
        n_written = _n_written(root, "", layers, alike, {*worth}, set())
        if n_written * (n_lines - 1) - (n_lines + _FRAME) >= _LEAST_SAVED:
            worth.append(alike)
    named = _named({alike: groups[alike] for alike in worth}, class_of)
    return {alike: _as_function(groups[alike], *named[alike]) for alike in worth}


def _named(
    groups: Mapping[Likeness, Sequence[tuple[str, Branch]]], class_of: Callable[[str], str]
) -> dict[Likeness, tuple[str, str]]:
    """(name, what the user calls such a module) of each function: of two for one class, the larger says what it has."""
    found: dict[Likeness, tuple[str, str]] = {}
    plain: dict[str, Branch] = {}
    for alike in sorted(groups, key=lambda alike: sum(1 for _ in _held_sizes(groups[alike][0][1]))):
        path, first = groups[alike][0]
        module = next(filter(None, map(class_of, (path for path, _ in groups[alike]))), "")
        name = snake_case(module) if module else identifier(path.rpartition(".")[2])
        known = plain.setdefault(name, first)
        extra = [f"{name}_with_{one}" for one in first.branches if one not in known.branches]
        names = [name, *extra, *itertools.islice(further_words(name), 99)]
        taken = [other for other, _ in found.values()]
        chosen = first_free((f"{one}_weights" for one in names), taken)
        has = next((one for one in first.branches if chosen == f"{name}_with_{one}_weights"), "")
        found[alike] = chosen, f"{module or name}{' with ' * bool(has)}{has}"
    return found


def likeness(branch: Branch) -> Likeness | None:
    """What it has in common with modules that hold the same but for sizes; None if it holds what no function makes."""
    held: list[object] = []
    for name, one in branch.held.items():
        if one.tied_to or one.source or one.strides:
            return None
        held.append((name, one.kind, len(one.shape), one.dtype, one.persistent, one.channels_last))
    below: list[object] = []
    for name, child in branch.branches.items():
        alike = likeness(child)
        if alike is None:
            return None
        below.append((name, alike))
    if not held and not below:
        return None
    return tuple(held), tuple(below)


def _modules(branch: Branch, path: str, layers: Mapping[str, frozenset[int]]) -> Iterator[tuple[str, Branch]]:
    """(path, module) of all that are made by ``Weights(...)``, lists and their layers' own classes left out."""
    for name, child in branch.branches.items():
        inner = f"{path}.{name}" if path else name
        is_layer = int(name) in layers[path] if path in layers and name.isdigit() else False
        if not (child.is_list or child.is_dict or child.is_gap or is_layer):
            yield inner, child
        yield from _modules(child, inner, layers)


def _n_written(
    branch: Branch,
    path: str,
    layers: Mapping[str, frozenset[int]],
    wanted: Likeness,
    made: set[Likeness],
    seen: set[object],
) -> int:
    """How often model.py would write such a module out: what a function or a class makes is written once."""
    count = 0
    before: object = None
    for name, child in branch.branches.items():
        inner = f"{path}.{name}" if path else name
        is_again, before = branch.is_list and child == before, child
        if is_again:
            continue
        is_layer = path in layers and name.isdigit() and int(name) in layers[path]
        alike = likeness(child)
        if alike is not None and (is_layer or alike in made):
            key = (path, alike) if is_layer else alike
            if key in seen:
                continue
            seen.add(key)
        elif alike == wanted:
            count += 1
        count += _n_written(child, inner, layers, wanted, made, seen)
    return count


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


def _held_sizes(branch: Branch, module: str = "") -> Iterator[HeldSize]:
    """The sizes of all tensors that a module holds, in the order of its likeness."""
    for name, held in branch.held.items():
        for dim, size in enumerate(held.shape):
            yield HeldSize(size, module, name, dim, len(held.shape))
    for name, child in branch.branches.items():
        yield from _held_sizes(child, name)


def _n_lines(branch: Branch) -> int:
    """About how many lines it takes to write a module out."""
    return (
        1
        if _width(branch) <= _WIDEST
        else 2 + len(branch.held) + sum(map(_n_lines, branch.branches.values()))
    )


def _width(branch: Branch) -> int:
    held = (
        len(name) + 5 + 5 * len(one.shape) + (0 if one.kind is InputKind.PARAMETER else len("buffer()"))
        for name, one in branch.held.items()
    )
    return len("Weights()") + sum(held) + sum(len(n) + 3 + _width(one) for n, one in branch.branches.items())


def _as_function(instances: Sequence[tuple[str, Branch]], name: str, module: str) -> WeightFunction:
    columns = size_columns([branch for _, branch in instances])
    words = size_words(columns)
    texts = (size_text(column, words) for _, column in columns)
    parameters = sorted(words.items(), key=lambda one: one[1] != "n_in")
    order = [column for _, column in columns]
    return _SizedWeights(
        name,
        module,
        tuple(word for _, word in parameters),
        tuple(order.index(column) for column, _ in parameters),
        with_sizes(instances[0][1], iter(texts)),
    )


Column = tuple[int, ...]  # one size in all modules


def size_columns(branches: Sequence[Branch]) -> list[tuple[HeldSize, Column]]:
    """Each size, and how large it is in all modules."""
    rows = zip(*map(_held_sizes, branches), strict=True)
    return [(row[0], tuple(int(one.size) for one in row)) for row in rows]


def size_words(columns: Sequence[tuple[HeldSize, Column]]) -> dict[Column, str]:
    """The parameters: sizes that differ, and are no multiple of another one."""
    differing = {column: None for _, column in columns if len(set(column)) > 1}
    kernels = {column for one, column in columns if one.dim > 1}
    bases = [
        one
        for one in differing
        if not any(_multiple(one, other) for other in differing if other not in kernels)
    ]
    is_image = any(one.n_dims > 2 for one, _ in columns)
    found: dict[Column, str] = {}
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
        found[column] = first_free(itertools.chain(choices, further_words(word)), {*found.values()})
    return found


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
    """The module with other sizes, given in the order of its likeness."""
    held = {
        name: dataclasses.replace(one, shape=tuple(itertools.islice(sizes, len(one.shape))))
        for name, one in branch.held.items()
    }
    return Branch(held, {name: with_sizes(child, sizes) for name, child in branch.branches.items()})
