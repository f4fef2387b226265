"""Numbers in which parts of derivatives differ that do the same, and which sizes tell them.

Two stages of a model have the same derivative but for their widths. A function for both reads all sizes from the shapes
of what it is given; numbers that have no size of their own, how far into a tensor a kernel begins or where a slice
ends, are told by such sizes, as they are in functions that modules share (told_sizes.py).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from longhand.lower.ir import Buffer, Size
from longhand.schedule.functions.alike_numbers import Number
from longhand.schedule.functions.alike_releases import own_steps
from longhand.schedule.functions.alike_steps import AlikeSteps, SiteSteps, alike_steps
from longhand.schedule.functions.inner_names import word_of_field
from longhand.schedule.functions.long_functions import LongFunction, ModuleDerivative
from longhand.schedule.functions.sizes.size_symbols import with_size_symbols
from longhand.schedule.functions.sizes.told_sizes import Column, WordsOf, with_told_sizes_and_words
from longhand.schedule.functions.sizes.weight_sizes import told_by_parameters, told_by_weights
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.words import OWN_WORDS
from longhand.schedule.plan import PlanStep, Release

MOST_TRIALS = 4  # until each function is known to be given numbers or not
_MOST_NUMBERS = 2  # that the function for several parts is given

Names = tuple[str, ...]  # what stands in one place of each part
TellingDimension = tuple[str, int]  # what a part is given, and one of its dimensions


@dataclasses.dataclass(frozen=True)
class PartInSymbols:
    """A part of a derivative whose sizes are symbols: the same text for all modules that do the same.

    Attributes:
        steps: By the identity of a step of the function around it: that step.
        buffers: Those with symbols in their sizes.
        symbols: The words of these.
        given: What the part is for each of them that its function may have to be given.
        numbers: (parameter, what it is) of numbers that calls of libraries are given and in which the parts differ.
    """

    steps: Mapping[int, PlanStep]
    buffers: Mapping[str, Buffer]
    symbols: tuple[str, ...]
    given: Mapping[str, int]
    numbers: tuple[tuple[str, Number], ...]

    def may_be_given(self, needed: Sequence[str]) -> bool:
        """Whether the function for several parts may be given some symbols, and the numbers."""
        return len(needed) + len(self.numbers) <= _MOST_NUMBERS and {*needed} <= {*self.given}


@dataclasses.dataclass(frozen=True)
class PartSizes:
    """A part of a derivative as one function does it for several modules.

    Attributes:
        steps: By the identity of a step of the function around it: that step, with numbers that sizes tell.
        shapes: Of buffers with sizes that others tell.
        telling: By the word of such a size: what the part is given that has it, and in which dimension.
        others: By a size in which the modules differ: all that has it, by the word of that dimension.
        in_symbols: The part with such sizes as symbols; None where that is not the same for all of them.
        uneven: What it is given that has more dimensions, or fewer, in another part; how many of the last are alike.
    """

    steps: Mapping[int, PlanStep]
    shapes: Mapping[str, tuple[Size, ...]]
    telling: Mapping[str, TellingDimension]
    others: Mapping[int, Mapping[str, TellingDimension]]
    in_symbols: PartInSymbols | None = None
    uneven: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def tells(self, word: str, size: int | str) -> TellingDimension | None:
        """What tells a size that a function has that word for."""
        if word in self.telling or not isinstance(size, int):
            return self.telling.get(word)
        others = self.others.get(size, {})
        return others.get(word, next(iter(others.values()), None))


NO_SIZES = PartSizes({}, {}, {}, {})


@dataclasses.dataclass(frozen=True)
class _Site:
    """A part, and the function that it is one of."""

    part: ModuleDerivative
    function: LongFunction

    @property
    def plain(self) -> tuple[PlanStep, ...]:
        """What it does, without what its caller drops."""
        steps = self.function.steps[self.part.start : self.part.stop]
        return own_steps([step for step in steps if isinstance(step, PlanStep)], {})[0]

    @property
    def steps(self) -> SiteSteps:
        """What it does, takes and makes."""
        head, function = f"{self.part.root}.", self.function
        paths = {name: function.weights[name] for name in self.part.given if name in function.weights}
        weights = {name: path.removeprefix(head) for name, path in paths.items() if path.startswith(head)}
        given = tuple(name for name in self.part.given if name not in weights)
        results = (*self.part.results, *self.part.gradients)
        return SiteSteps(self.plain, {}, given, weights, results)


def sizes_of_parts(
    functions: Sequence[LongFunction],
    divided: Sequence[Sequence[ModuleDerivative]],
    words: BufferNamer,
    buffers: Mapping[str, Buffer],
    words_of: WordsOf,
) -> dict[int, PartSizes]:
    """By the identity of a part: its sizes, where others do the same.

    Args:
        functions: All of a backward pass.
        divided: The parts of each.
        words: The captured graph's.
        buffers: The plan's, by name.
        words_of: Words for the dimensions of a buffer.
    """
    groups: dict[tuple[object, ...], list[_Site]] = {}
    for function, parts in zip(functions, divided, strict=True):
        for part in (inside for one in parts for inside in one.all_parts):
            groups.setdefault(part.does, []).append(_Site(part, function))
    told: dict[int, PartSizes] = {}
    for group in groups.values():
        left = group
        while len(left) > 1:
            first, *others = left
            alike = [one for one in others if _alike([first, one], words) is not None]
            left = [one for one in others if one not in alike]
            if alike:
                told |= _of_sites([first, *alike], words, buffers, words_of)
    return told


def _alike(sites: Sequence[_Site], words: BufferNamer) -> AlikeSteps | None:
    """What some parts do alike, by their own names."""
    each = [site.steps for site in sites]
    alike = alike_steps(each, words, sites[0].function.variables)
    if alike is None:
        return None
    own = [dataclasses.replace(one, aliases=of.aliases) for one, of in zip(each, alike.sites, strict=True)]
    return dataclasses.replace(alike, sites=tuple(own))


def _of_sites(
    sites: Sequence[_Site], words: BufferNamer, buffers: Mapping[str, Buffer], words_of: WordsOf
) -> Iterator[tuple[int, PartSizes]]:
    """The sizes of parts that do the same."""
    alike = _alike(sites, words)
    if alike is None:
        return
    variables = {name: word for name, word in sites[0].function.variables.items() if word.isidentifier()}
    taken = {word for site in sites for word in site.function.variables.values()} | OWN_WORDS
    held = {name: word.rpartition(".")[2] for name, word in sites[0].function.variables.items()}
    part, fields = sites[0].part, sites[0].function.saved.intersection(sites[0].part.given) & held.keys()
    held |= {name: word_of_field(name, held[name], part, words, OWN_WORDS) for name in fields}
    symbols = with_size_symbols(alike, buffers, words_of, held, taken)
    told, sizes = with_told_sizes_and_words(alike, buffers, words_of, variables, taken)
    telling = {word: one for word, of in sizes.items() if (one := _telling(of, word, alike, buffers))}
    others = list(_differing(alike, buffers, words_of))
    uneven = list(_uneven(alike, buffers))
    for place, site in enumerate(sites):
        new = told.sites[place]
        pairs = zip(site.plain, new.steps, strict=True)
        steps = {id(old): step for old, step in pairs if not isinstance(old, Release)}
        own = {word: (names[place], dim) for word, (names, dim) in telling.items()}
        by_size: dict[int, dict[str, TellingDimension]] = {}
        for of, word, names, dim in others:
            by_size.setdefault(of[place], {}).setdefault(word, (names[place], dim))
        in_symbols = None
        if symbols is not None:
            pairs = zip(site.plain, symbols.sites[place].steps, strict=True)
            in_symbols = PartInSymbols(
                {id(old): step for old, step in pairs if not isinstance(old, Release)},
                symbols.sites[place].buffers,
                tuple(one.word for one in symbols.symbols),
                {one.word: one.sizes[place] for one in symbols.symbols if not one.is_told and one.is_named},
                tuple((word, values[place]) for word, values in symbols.numbers),
            )
        of_part = {names[place]: n_last for names, n_last in uneven}
        yield id(site.part), PartSizes(steps, new.shapes, own, by_size, in_symbols, of_part)


def _uneven(alike: AlikeSteps, buffers: Mapping[str, Buffer]) -> Iterator[tuple[Names, int]]:
    """(what each part is given, how many of its last dimensions are alike) where not all of them have as many."""
    for column in alike.inputs:
        names = _own(column, alike)
        shapes = [buffers[name].shape if name in buffers else () for name in names]
        if len(set(map(len, shapes))) > 1:
            last = itertools.takewhile(
                lambda sizes: len({*map(str, sizes)}) == 1,
                zip(*(shape[::-1] for shape in shapes), strict=False),
            )
            yield names, len([*last])


def _differing(
    alike: AlikeSteps, buffers: Mapping[str, Buffer], words_of: WordsOf
) -> Iterator[tuple[Column, str, Names, int]]:
    """Sizes in which parts differ: what they are, the first one's word, of what each is given, in which dimension."""
    for column in alike.inputs:
        names = _own(column, alike)
        shapes = [buffers[name].shape if name in buffers else () for name in names]
        words = words_of(names[0], len(shapes[0]))
        for dim, sizes in enumerate(zip(*shapes, strict=False)):
            if len(set(sizes)) > 1 and all(isinstance(size, int) for size in sizes):
                yield tuple(sizes), words[dim] or "", names, dim


def _own(column: Names, alike: AlikeSteps) -> Names:
    """What parts are given, by its own names."""
    return tuple(site.aliases.get(name, name) for site, name in zip(alike.sites, column, strict=True))


def _telling(
    sizes: Column, word: str, alike: AlikeSteps, buffers: Mapping[str, Buffer]
) -> tuple[Names, int] | None:
    """What parts are given that is so long, and in which dimension: tensors first, then weights.

    A leading dimension that is the same in all parts comes last: of images it is the batch, which is as large as a
    layer is wide only by chance.
    """
    told = told_by_parameters(sizes, alike.inputs, alike.sites, buffers)
    weight = told_by_weights(sizes, word, alike.sites, buffers)
    for name, dim in told:
        column = next(one for one in alike.inputs if one[0] == name)
        if dim > 0 or len(set(sizes)) > 1 or weight is None:
            return _own(column, alike), dim
    if weight is None:
        return None
    path = alike.sites[0].weights[weight[0]]
    return (
        tuple(next(name for name, one in site.weights.items() if one == path) for site in alike.sites),
        weight[1],
    )
