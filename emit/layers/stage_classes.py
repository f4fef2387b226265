"""Layers of several lists that do the same in other widths: one class, whose constructor is given what differs.

Functions of layers take their sizes from the shapes of their arguments: those of two stages often are the same text.
Their modules then differ in nothing but the sizes of what they hold. A size that no shape tells is an attribute.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.emit.layers.layer_methods import Method
from longhand.emit.layers.model_loops import LayerClass
from longhand.emit.module.model_weights import construct_branch
from longhand.emit.module.module_tree import ModuleTree
from longhand.emit.text.quoting import python_docstring
from longhand.schedule.named_plan import (
    Branch,
    Column,
    Loop,
    module_signature,
    size_columns,
    size_text,
    size_words,
    with_sizes,
)
from longhand.schedule.names.words import first_free, further_words, listed

_MOST_LISTED = 3  # lists that a docstring tells one by one


def share_classes(
    blocks: Sequence[tuple[Loop, LayerClass]], tree: ModuleTree
) -> list[tuple[Loop, LayerClass]]:
    """The classes of layers, those of several lists that are the same text as one.

    Args:
        blocks: Each loop, and the class of its layers; of a backward pass their function.
        tree: The modules.
    """
    first = {block.name: loop for loop, block in reversed(blocks)}
    classes = {block.name: block for _, block in blocks}
    bases = {block.base for block in classes.values()}
    groups: list[list[str]] = []
    for name, block in classes.items():
        is_alone = not block.base or block.is_variant or name in bases or block.position
        alike = [
            group
            for group in groups
            if not is_alone and _is_alike(block, first[name], classes[group[0]], first[group[0]], tree)
        ]
        if alike:
            alike[0].append(name)
        elif not is_alone:
            groups.append([name])
    shared: dict[str, LayerClass] = {}
    for group in groups:
        if len(group) > 1:
            made = _shared([classes[name] for name in group], [first[name] for name in group], tree)
            shared |= dict.fromkeys(group, made)
    return [(loop, shared.get(block.name, block)) for loop, block in blocks]


def _is_alike(block: LayerClass, loop: Loop, other: LayerClass, first: Loop, tree: ModuleTree) -> bool:
    """Whether two classes differ in nothing but sizes."""
    if loop.owner == first.owner or len(block.methods) != len(other.methods):
        return False
    if block.numbers.words != other.numbers.words:
        return False
    pairs = zip(block.methods, other.methods, strict=True)
    if not all(one.name == two.name and one.does_what(two) for one, two in pairs):
        return False
    held = module_signature(_module(loop, tree))
    return held is not None and held == module_signature(_module(first, tree))


def _module(loop: Loop, tree: ModuleTree) -> Branch:
    return tree.root.at(f"{loop.owner}.{loop.positions[0]}")


def _shared(blocks: Sequence[LayerClass], loops: Sequence[Loop], tree: ModuleTree) -> LayerClass:
    """The class of layers in several lists."""
    modules = [_module(loop, tree) for loop in loops]
    columns = size_columns(modules)
    words = size_words(columns)
    held = {*modules[0].held, *modules[0].branches}
    kept: dict[str, str] = {}  # by attribute: what it is made of
    stated: dict[str, str] = {}  # by the word of a size: the attribute that holds it
    for methods in zip(*(block.methods for block in blocks), strict=True):
        for word in methods[0].bound.stated:
            column = tuple(int(method.bound.stated[word]) for method in methods)
            if len(set(column)) > 1:
                attribute = first_free((word, *(f"{word}_{end}" for end in ("size", "here"))), held)
                kept[attribute] = str(_told(column, word, words))
                stated[word] = f"self.{attribute}"
    made = construct_branch(with_sizes(modules[0], (size_text(column, words) for _, column in columns)), tree)
    order = sorted(words.items(), key=lambda one: one[1] != "n_in")
    return dataclasses.replace(
        blocks[0],
        owner=python_docstring(_owners([loop.owner for loop in loops])),
        base=made.base,
        base_arguments=made.base_arguments,
        members=tuple(made.members),
        methods=tuple(_with_attributes(method, stated) for method in blocks[0].methods),
        runtime_names=blocks[0].runtime_names | made.runtime_names,
        uses_nn=made.uses_nn,
        parameters=tuple(word for _, word in order),
        attributes=tuple(f"self.{name} = {text}" for name, text in kept.items()),
        arguments={
            loop.owner: ", ".join(str(column[place]) for column, _ in order)
            for place, loop in enumerate(loops)
        },
    )


def _told(column: Column, word: str, words: dict[Column, str]) -> int | str:
    """A size over the constructor's parameters, of which it becomes one if none tells it."""
    text = size_text(column, words)
    if not text:
        text = words[column] = first_free((word, *_further(word, len(words))), {*words.values()})
    return text


def _further(word: str, count: int) -> list[str]:
    more = further_words(word)
    return [next(more) for _ in range(count + 1)]


def _with_attributes(method: Method, stated: Mapping[str, str]) -> Method:
    known = {word: stated.get(word, size) for word, size in method.bound.stated.items()}
    return dataclasses.replace(method, bound=dataclasses.replace(method.bound, stated=known))


def _owners(owners: Sequence[str]) -> str:
    """``stages.0.blocks and stages.1.blocks``; of many the first and the last."""
    return listed(owners) if len(owners) <= _MOST_LISTED else f"{owners[0]} to {owners[-1]}"
