"""Numbers in which modules differ and that sizes at hand tell: ``f[:, n_in : 2 * n_in]`` of all stages alike.

Two stages of a model are the same function but for their widths. Most of these have a word already, or are read from a
shape where they are printed. What kept such functions apart were numbers that had none: where a slice begins and ends,
how far into a tensor a kernel begins, a dimension that several pieces make together. In the same place of each module
such a number is a size of what the function is given, or of a weight, or a few times that and a little more: then the
number is told so, and the text is true of all of them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from longhand.lower.ir import Buffer, Extern, View
from longhand.schedule.functions.alike_steps import AlikeSteps, SiteSteps
from longhand.schedule.functions.alike_releases import places_without_releases
from longhand.schedule.names.words import first_free, further_names, identifier, is_identifier
from longhand.schedule.plan import Launch, PlanStep

Column = tuple[int, ...]  # what a number is in each of the modules
WordsOf = Callable[[str, int], Sequence[str | None]]  # of a buffer's dimensions

_LARGEST_PLAIN = 9  # of a number that no word explains
_MOST_TIMES = 4
_MOST_PLUS = 4  # gates beside the channels, a token beside the patches


class ToldSize(int):
    """A number that a size tells, whose word a function binds.

    Attributes:
        word: Of the size.
        base: What the word stands for.
        times: How often the size is in it.
        plus: What it is more than that.
    """

    word: str
    base: int
    times: int
    plus: int

    def __new__(cls, word: str, base: int, times: int = 1, plus: int = 0) -> ToldSize:
        made = super().__new__(cls, base * times + plus)
        made.word, made.base, made.times, made.plus = word, base, times, plus
        return made


def with_told_sizes(
    alike: AlikeSteps, buffers: Mapping[str, Buffer], words_of: WordsOf, taken: Collection[str]
) -> AlikeSteps:
    """What modules do alike; the numbers in which they differ know which size tells them, if any does.

    Args:
        alike: What they do.
        buffers: The plan's, by name.
        words_of: Words for the dimensions of the first one's buffers.
        taken: Names that no size may have.
    """
    told = _ToldNumbers(alike, buffers, words_of, taken)
    return dataclasses.replace(alike, sites=told.sites())


class _ToldNumbers:
    """Walks the steps of all modules at once."""

    def __init__(
        self,
        alike: AlikeSteps,
        buffers: Mapping[str, Buffer],
        words_of: WordsOf,
        taken: Collection[str],
    ) -> None:
        self._alike = alike
        self._buffers = buffers
        self._taken = {*taken}
        self._words = self._words_at_hand(words_of)
        self._telling = self._sources()
        self._known: dict[Column, tuple[Column, int, int] | None] = {}

    def sites(self) -> tuple[SiteSteps, ...]:
        """The modules' steps."""
        each = [list(site.steps) for site in self._alike.sites]
        places = [places_without_releases(steps) for steps in each]
        for at in zip(*places, strict=True):
            steps = [of[place] for of, place in zip(each, at, strict=True)]
            for of, place, step in zip(each, at, self._step(steps), strict=True):
                of[place] = step
        shapes = self._shapes()
        return tuple(
            dataclasses.replace(site, steps=tuple(steps), shapes=of_site)
            for site, steps, of_site in zip(self._alike.sites, each, shapes, strict=True)
        )

    # What tells numbers.

    def _sources(self) -> dict[Column, str]:
        """By what a size is in each module, if these differ: where it stands, for a word where it has none."""
        sources: dict[Column, str] = {}
        for column in self._alike.inputs:
            for sizes in self._dims(self._names(column)):
                sources.setdefault(sizes, "")
        paths = [{path: name for name, path in site.weights.items()} for site in self._alike.sites]
        for path in paths[0]:
            if all(path in other for other in paths):
                for sizes in self._dims([other[path] for other in paths]):
                    sources.setdefault(sizes, path)
        return {sizes: path for sizes, path in sources.items() if _may_tell(sizes)}

    def _names(self, column: Sequence[str]) -> list[str]:
        """The buffers that are given for a parameter, or made in one place."""
        sites = zip(self._alike.sites, column, strict=True)
        return [site.aliases.get(name, name) for site, name in sites]

    def _dims(self, names: Sequence[str]) -> Iterator[Column]:
        """For each dimension of a buffer what it is in each module, where all are numbers."""
        shapes = [self._buffers[name].shape if name in self._buffers else () for name in names]
        if len({len(shape) for shape in shapes}) == 1:
            for sizes in zip(*shapes, strict=True):
                yield tuple(size if isinstance(size, int) else 0 for size in sizes)

    def _words_at_hand(self, words_of: WordsOf) -> dict[Column, str]:
        """The words that sizes of the first module's tensors have."""
        words: dict[Column, str] = {}
        for column in (*self._alike.made, *self._alike.inputs):
            names = self._names(column)
            dims = list(self._dims(names))
            known = words_of(names[0], len(dims)) if dims else ()
            for sizes, word in zip(dims, known, strict=True):
                if word and type(word) is str and word.isidentifier() and word not in self._taken:
                    words.setdefault(sizes, word)
        return {sizes: word for sizes, word in words.items() if list(words.values()).count(word) == 1}

    def _word(self, sizes: Column) -> str:
        if sizes not in self._words:
            parts = [identifier(part) for part in self._telling[sizes].split(".")[:-1] if not part.isdigit()]
            own = [f"{part}_channels" for part in reversed(parts) if is_identifier(part)]
            taken = {*self._taken, *self._words.values()}
            plain = itertools.chain(own, ["channels"], further_names("channels"))
            self._words[sizes] = first_free(plain, taken)
        return self._words[sizes]

    def _told(self, numbers: Column) -> tuple[Column, int, int] | None:
        """The size that tells some numbers, how often it is in them, and what is left."""
        if numbers not in self._known:
            self._known[numbers] = next(self._telling_of(numbers), None)
        return self._known[numbers]

    def _telling_of(self, numbers: Column) -> Iterator[tuple[Column, int, int]]:
        if numbers in self._telling:
            yield numbers, 1, 0
        for plus in range(_MOST_PLUS + 1):
            for times in range(1, _MOST_TIMES + 1):
                rest = [divmod(number - plus, times) for number in numbers]
                sizes = tuple(size for size, _ in rest)
                if sizes in self._telling and not any(left for _, left in rest):
                    yield sizes, times, plus

    # Steps.

    def _step(self, steps: Sequence[PlanStep]) -> list[PlanStep]:
        if all(isinstance(step, Launch) for step in steps):
            launches = [step for step in steps if isinstance(step, Launch)]
            sizes, ints, scalars = (
                self._values([getattr(step, field) for step in launches])
                for field in ("sizes", "ints", "scalars")
            )
            return [
                dataclasses.replace(step, sizes=sizes[at], ints=ints[at], scalars=scalars[at])
                for at, step in enumerate(launches)
            ]
        if all(isinstance(step, Extern) for step in steps):
            calls = [step for step in steps if isinstance(step, Extern)]
            args = self._values([step.args for step in calls])
            kwargs = self._values([step.kwargs for step in calls])
            return [
                dataclasses.replace(step, args=args[at], kwargs=kwargs[at]) for at, step in enumerate(calls)
            ]
        return list(steps)

    def _values(self, values: Sequence[Any]) -> list[Any]:
        """What stands in one place of each module, numbers told."""
        kinds = {type(value) for value in values}
        if len(kinds) != 1:
            return list(values)
        match values[0]:
            case bool():
                return list(values)
            case int():
                return self._numbers(values)
            case View():
                chains = [view.calls for view in values]
                if len({len(calls) for calls in chains}) == 1:
                    args = self._values([tuple(call.args for call in calls) for calls in chains])
                    return [
                        dataclasses.replace(view, calls=_with_args(view.calls, args[at]))
                        for at, view in enumerate(values)
                    ]
            case tuple() | list():
                if len({len(value) for value in values}) == 1:
                    columns = [self._values(items) for items in zip(*values, strict=True)]
                    return [
                        type(value)(column[place] for column in columns) for place, value in enumerate(values)
                    ]
        return list(values)

    def _numbers(self, numbers: Sequence[int]) -> list[int]:
        if not _may_tell(tuple(numbers)):
            return list(numbers)
        told = self._told(tuple(numbers))
        if told is None:
            return list(numbers)
        sizes, times, plus = told
        return [ToldSize(self._word(sizes), size, times, plus) for size in sizes]

    def _shapes(self) -> list[dict[str, tuple[Any, ...]]]:
        """By buffer: its shape, if a size tells a part of it that it has no word for."""
        shapes: list[dict[str, tuple[Any, ...]]] = [{} for _ in self._alike.sites]
        for column in self._alike.made:
            known = [self._buffers[name].shape for name in column if name in self._buffers]
            if len(known) == len(column):
                for of_site, name, shape in zip(shapes, column, self._values(known), strict=True):
                    if any(isinstance(size, ToldSize) for size in shape):
                        of_site[name] = shape
        return shapes


def _may_tell(sizes: Column) -> bool:
    """Whether a number is another one in some module, and so large that a reader would ask about it."""
    return len(set(sizes)) > 1 and max(sizes) > _LARGEST_PLAIN and min(sizes) > 1


def _with_args(calls: Sequence[Any], args: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(dataclasses.replace(call, args=given) for call, given in zip(calls, args, strict=True))
