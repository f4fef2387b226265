"""Modules that hold the same but for sizes: a function of these sizes makes the weights of each.

def conv_norm_weights(n_in, n_out, kernel):
    return Weights(conv=Weights(weight=(n_out, n_in, kernel, kernel)), norm=Weights(weight=(n_out,), bias=(n_out,)))

A size that is the same in all of them is a number, one that is always four times another is ``4 * width``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from longhand.capture.graph import InputKind
from longhand.schedule.modules.held import Branch, ModuleSignature, WeightFunction
from longhand.schedule.modules.sizes_alike import (
    held_sizes,
    module_signature,
    size_columns,
    size_names,
    size_text,
    with_sizes,
)
from longhand.schedule.names.module_names import names_of_places
from longhand.schedule.names.words import first_free, further_names, identifier, listed, singular, snake_case

_LEAST_SAVED = 4  # lines that are worth a function
_FRAME = 5  # of it: its head, its docstring, two blank lines, its return
_WIDEST = 80
_MOST_TOLD = 3  # classes in a docstring


def find_weight_functions(
    root: Branch,
    layers: Mapping[str, frozenset[int]],
    class_of: Callable[[str], str],
    variables: Collection[str] = (),
) -> dict[ModuleSignature, WeightFunction]:
    """The functions that are worth their lines, by what they make; those that are called by others come last.

    Args:
        root: The tree of modules.
        layers: By the path of a list: the positions of those of its layers that share a class.
        class_of: The user's class of the module at a path, or empty.
        variables: Names that none may have.
    """
    modules = list(_modules(root, "", layers))
    groups: dict[ModuleSignature, list[tuple[str, Branch]]] = {}
    for path, branch in modules:
        alike = module_signature(branch)
        if alike is not None and not any(owner.startswith(f"{path}.") for owner in layers):
            groups.setdefault(alike, []).append((path, branch))
    largest = sorted(groups, key=lambda alike: -sum(1 for _ in held_sizes(groups[alike][0][1])))
    worth: list[ModuleSignature] = []
    for alike in largest:
        n_lines = _n_lines(groups[alike][0][1])
        n_written = _n_written(root, "", layers, alike, {*worth}, set())
        if n_written * (n_lines - 1) - (n_lines + _FRAME) >= _LEAST_SAVED:
            worth.append(alike)
    named = _named({alike: groups[alike] for alike in worth}, class_of, variables)
    return {alike: _as_function(groups[alike], *named[alike]) for alike in worth}


def _named(
    groups: Mapping[ModuleSignature, Sequence[tuple[str, Branch]]],
    class_of: Callable[[str], str],
    variables: Collection[str],
) -> dict[ModuleSignature, tuple[str, str]]:
    """(name, who holds that: ``ConvNorm holds``) of each; the larger one of two for a class says what it has."""
    named: dict[ModuleSignature, tuple[str, str]] = {}
    plain: dict[str, Branch] = {}
    for alike in sorted(groups, key=lambda alike: sum(1 for _ in held_sizes(groups[alike][0][1]))):
        first = groups[alike][0][1]
        kinds = [kind for path, _ in groups[alike] if (kind := class_of(path))]
        module = max(kinds, key=kinds.count, default="")
        name = snake_case(module) if module else identifier(_word(path for path, _ in groups[alike]))
        known = plain.setdefault(name, first)
        extra = [f"{name}_with_{one}" for one in first.branches if one not in known.branches]
        placed = names_of_places([path for path, _ in groups[alike]])
        names = [name, *extra, *placed, *itertools.islice(further_names(name), 99)]
        taken = {*variables, *(other for other, _ in named.values())}
        ending = "tensors" if f"{name}_weights" in variables else "weights"
        chosen = first_free((f"{one}_{ending}" for one in names), taken)
        has = next((one for one in first.branches if chosen == f"{name}_with_{one}_{ending}"), "")
        held_by = _holders(kinds) if not has else f"{module or name} with {has} holds"
        named[alike] = chosen, held_by or f"{name} holds"
    return named


def _holders(kinds: Sequence[str]) -> str:
    """``InputTransition and LUConv hold``: the classes of modules that hold the same; nothing where none is known."""
    classes = [*dict.fromkeys(kinds)]
    if len(classes) > _MOST_TOLD:
        classes = [max(kinds, key=kinds.count), "others"]
    return f"{listed(classes)} hold{'s' * (len(classes) == 1)}" if classes else ""


def _word(paths: Iterable[str]) -> str:
    """What most of the modules at some paths are called, without their numbers: ``bn`` of bn1, bn2 and downsample.1."""
    words: list[str] = []
    for path in paths:
        parts = path.split(".")
        named = [part for part in parts if not part.isdigit()]
        last = named[-1] if named else "module"
        words.append((singular(last) if parts[-1].isdigit() else last).rstrip("0123456789_") or last)
    return max(words, key=words.count)


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
    wanted: ModuleSignature,
    made: set[ModuleSignature],
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
        alike = module_signature(child)
        if alike is not None and (is_layer or alike in made):
            key = (path, alike) if is_layer else alike
            if key in seen:
                continue
            seen.add(key)
        elif alike == wanted:
            count += 1
        count += _n_written(child, inner, layers, wanted, made, seen)
    return count


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


def _as_function(instances: Sequence[tuple[str, Branch]], name: str, held_by: str) -> WeightFunction:
    columns = size_columns([branch for _, branch in instances])
    words = size_names(columns)
    texts = (size_text(column, words) for _, column in columns)
    parameters = sorted(words.items(), key=lambda one: one[1] != "n_in")
    order = [column for _, column in columns]
    return WeightFunction(
        name,
        held_by,
        tuple(word for _, word in parameters),
        tuple(order.index(column) for column, _ in parameters),
        with_sizes(instances[0][1], iter(texts)),
    )
