"""Layers of several lists that do the same in other widths: one class, whose constructor is given what differs.

Functions of layers take their sizes from the shapes of their arguments: those of two stages often are the same. Their
modules then differ in nothing but the sizes of what they hold. A size that no shape tells is an attribute.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from longhand.schedule.modules.held import Branch
from longhand.schedule.modules.sizes_alike import (
    Column,
    module_signature,
    size_columns,
    size_names,
    size_text,
    with_sizes,
)
from longhand.schedule.names.words import first_free, further_names

_MOST_NUMBERS = 3  # that are attributes of a layer, where some are what calls are given


@dataclasses.dataclass(frozen=True)
class StageLayers:
    """The layers of one loop: all of a list, or those of a part of it that have one width.

    Attributes:
        owner: The path of the list.
        module: What the first of them holds.
        methods: The names of their functions.
        numbers: What these are given of the numbers in which layers differ.
        work: What each of them does, whatever its words for sizes stand for.
        first: The place of the first of them in the list.
    """

    owner: str
    module: Branch
    methods: tuple[str, ...]
    numbers: tuple[str, ...]
    work: tuple[object, ...] = ()
    first: int = 0

    @property
    def path(self) -> str:
        """The first of the layers."""
        return f"{self.owner}.{self.first}"

    def may_be(self, other: StageLayers) -> bool:
        """Whether they differ in nothing but sizes."""
        if self.path == other.path or self.methods != other.methods or self.numbers != other.numbers:
            return False
        if self.work != other.work:
            return False
        held = module_signature(self.module)
        return held is not None and held == module_signature(other.module)


def stages_alike(stages: Mapping[str, StageLayers]) -> list[list[str]]:
    """The lists whose layers are one class, by the names that their classes would have: groups of two or more.

    Args:
        stages: Lists whose layers may share a class.
    """
    groups: list[list[str]] = []
    for name, stage in stages.items():
        alike = (group for group in groups if stage.may_be(stages[group[0]]))
        group = next(alike, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return [group for group in groups if len(group) > 1]


@dataclasses.dataclass(frozen=True)
class StageClass:
    """The class of the layers of several lists.

    Attributes:
        module: What a layer holds, its sizes in the constructor's words.
        parameters: What the constructor is given of the sizes that differ.
        arguments: By the path of the first of some layers: what their constructor is given.
        attributes: By name: the size that is kept for the functions, in the constructor's words.
        told: For each function, by the word that it has for a size: the attribute that holds it.
        given: By the word of what calls are given: the attribute that holds it.
    """

    module: Branch
    parameters: tuple[str, ...]
    arguments: Mapping[str, tuple[int, ...]]
    attributes: Mapping[str, str]
    told: tuple[Mapping[str, str], ...]
    given: Mapping[str, str]


def are_many(n_numbers: int, n_sizes: int) -> bool:
    """Whether a class for several lists would be given so much that several classes read better.

    Args:
        n_numbers: What calls in its functions are given, and in which layers differ.
        n_sizes: Sizes in which these differ, and that no tensor tells.
    """
    return n_numbers > 0 and n_numbers + n_sizes > _MOST_NUMBERS


def class_of_stages(
    stages: Sequence[StageLayers],
    stated: Sequence[Sequence[Mapping[str, int | str]]],
    numbers: Mapping[str, Column] = MappingProxyType({}),
) -> StageClass:
    """The class.

    Args:
        stages: The lists.
        stated: For each function, and in it for each list: the sizes that no tensor tells, by the function's words.
        numbers: By word: what calls in the functions are given for each list, and in which these differ.
    """
    modules = [stage.module for stage in stages]
    columns = size_columns(modules)
    words = size_names(columns)
    held = {*modules[0].held, *modules[0].branches}
    kept: dict[str, str] = {}
    told: list[dict[str, str]] = [{} for _ in stated]
    for of_function, of_lists in zip(told, stated, strict=True):
        for word in of_lists[0]:
            column = tuple(int(sizes[word]) for sizes in of_lists)
            if len(set(column)) > 1:
                size = str(_told(column, word, words))
                # Another function may have the word for another size.
                used = {one for one, kept_size in kept.items() if kept_size != size}
                attribute = first_free(
                    (word, *(f"{word}_{end}" for end in ("size", "here")), *_further(word, len(kept))),
                    {*held, *used},
                )
                kept[attribute] = size
                of_function[word] = attribute
    given: dict[str, str] = {}
    others: list[tuple[str, Column]] = []
    for word, column in numbers.items():
        attribute = first_free((word, *(f"{word}_{end}" for end in ("number", "here"))), {*held, *kept})
        kept[attribute] = first_free((attribute, *_further(attribute, len(words))), {*words.values()})
        given[word] = attribute
        others.append((kept[attribute], column))
    module = with_sizes(modules[0], (size_text(column, words) for _, column in columns))
    order = [*sorted(((word, column) for column, word in words.items()), key=lambda one: one[0] != "n_in")]
    order += others
    return StageClass(
        module,
        tuple(word for word, _ in order),
        {stage.path: tuple(column[place] for _, column in order) for place, stage in enumerate(stages)},
        kept,
        tuple(told),
        given,
    )


def _told(column: Column, word: str, words: dict[Column, str]) -> int | str:
    """A size over the constructor's parameters, of which it becomes one if none tells it."""
    text = size_text(column, words)
    if not text:
        text = words[column] = first_free((word, *_further(word, len(words))), {*words.values()})
    return text


def _further(word: str, count: int) -> list[str]:
    more = further_names(word)
    return [next(more) for _ in range(count + 1)]
