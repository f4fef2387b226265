"""Numbers in which modules differ and that sizes at hand tell: ``f[:, n_in : 2 * n_in]`` of all stages alike.

Two stages of a model are the same function but for their widths. Most of these have a word already, or are read from a
shape where they are printed. What kept such functions apart were numbers that had none: where a slice begins and ends,
how far into a tensor a kernel begins, a dimension that several pieces make together. In the same place of each module
such a number is a size of what the function is given, or of a weight, or a few times that and a little more, or the sum
of two: then the number is told so, and the text is true of all of them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from longhand.lower.ir import Buffer, Extern, View
from longhand.schedule.functions.alike_releases import places_without_releases
from longhand.schedule.functions.alike_steps import AlikeSteps, SiteSteps
from longhand.schedule.names.words import first_free, further_names, identifier, is_identifier
from longhand.schedule.plan import Launch, PlanStep

Column = tuple[int, ...]  # what a number is in each of the modules
WordsOf = Callable[[str, int], Sequence[str | None]]  # of a buffer's dimensions

_LARGEST_PLAIN = 9  # of a number that no word explains
_MOST_TIMES = 4
_MOST_PIECES = 8  # of one size, behind another
_MOST_PLUS = 4  # gates beside the channels, a token beside the patches


class ToldSize(int):
    """A number that sizes tell, whose words a function binds: ``2 * n_in + 1``, ``n_in + growth``.

    Attributes:
        terms: (how often, word of a size, what that stands for).
        plus: What it is more than these.
    """

    terms: tuple[tuple[int, str, int], ...]
    plus: int

    def __new__(cls, terms: Sequence[tuple[int, str, int]], plus: int = 0) -> ToldSize:
        made = super().__new__(cls, sum(times * base for times, _, base in terms) + plus)
        made.terms, made.plus = tuple(terms), plus
        return made


class ToldBlocks(int):
    """An offset of so many blocks, lines or images, that sizes tell.

    Attributes:
        block: How many elements a block has.
        n_blocks: How many they are.
    """

    block: int
    n_blocks: ToldSize

    def __new__(cls, block: int, n_blocks: ToldSize) -> ToldBlocks:
        made = super().__new__(cls, block * n_blocks)
        made.block, made.n_blocks = block, n_blocks
        return made


@dataclasses.dataclass(frozen=True)
class _SumOfSizes:
    """How sizes tell some numbers: (how often, the size), and what is left."""

    terms: tuple[tuple[int, Column], ...]
    plus: int = 0


def with_told_sizes(
    alike: AlikeSteps,
    buffers: Mapping[str, Buffer],
    words_of: WordsOf,
    variables: Mapping[str, str],
    taken: Collection[str],
) -> AlikeSteps:
    """What modules do alike; the numbers in which they differ know which size tells them, if any does.

    Args:
        alike: What they do.
        buffers: The plan's, by name.
        words_of: Words for the dimensions of the first one's buffers.
        variables: What the function calls these.
        taken: Names that no size may have.
    """
    return with_told_sizes_and_words(alike, buffers, words_of, variables, taken)[0]


def with_told_sizes_and_words(
    alike: AlikeSteps,
    buffers: Mapping[str, Buffer],
    words_of: WordsOf,
    variables: Mapping[str, str],
    taken: Collection[str],
) -> tuple[AlikeSteps, dict[str, Column]]:
    """The same, and by the word of each size what it is in each of the modules."""
    told = _ToldNumbers(alike, buffers, words_of, variables, taken)
    with_sizes = dataclasses.replace(alike, sites=told.sites())
    return with_sizes, told.words


class _ToldNumbers:
    """Walks the steps of all modules at once."""

    def __init__(
        self,
        alike: AlikeSteps,
        buffers: Mapping[str, Buffer],
        words_of: WordsOf,
        variables: Mapping[str, str],
        taken: Collection[str],
    ) -> None:
        self._alike = alike
        self._buffers = buffers
        self._variables = variables
        self._taken = {*taken}
        self._other_words: set[str] = set()
        self._words = self._words_at_hand(words_of)
        self._of_weights: dict[Column, str] = {}  # words for sizes that are a batch's only by chance
        self._batches = self._leading() - self._inner()
        self._telling = self._sources()
        self._known: dict[Column, _SumOfSizes | None] = {}

    @property
    def words(self) -> dict[str, Column]:
        """By the word of a size: what it is in each of the modules."""
        return {word: sizes for words in (self._words, self._of_weights) for sizes, word in words.items()}

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

    def _sources(self) -> dict[Column, tuple[str, ...]]:
        """By what a size is in each module: what it may be called where it has no word."""
        sources: dict[Column, tuple[str, ...]] = {}
        for column in self._alike.inputs:
            for sizes in self._dims(self._names(column)):
                variable = self._variables.get(column[0], "")
                if sizes not in self._batches:
                    sources.setdefault(sizes, (f"{variable}_channels",) if is_identifier(variable) else ())
        paths = [{path: name for name, path in site.weights.items()} for site in self._alike.sites]
        for path in paths[0]:
            if all(path in other for other in paths):
                for dim, sizes in enumerate(self._dims([other[path] for other in paths])):
                    sources.setdefault(sizes, tuple(_words_for(path, dim)))
        return {sizes: words for sizes, words in sources.items() if min(sizes) > _LARGEST_PLAIN}

    def _leading(self) -> set[Column]:
        """How many images or rows the modules are given: as many in each. They are no part of another dimension."""
        firsts = [next(self._dims(self._names(column)), ()) for column in self._alike.inputs]
        return {sizes for sizes in firsts if len(set(sizes)) == 1}

    def _inner(self) -> set[Column]:
        """The other dimensions of what they are given."""
        return {sizes for column in self._alike.inputs for sizes in list(self._dims(self._names(column)))[1:]}

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
        meant: dict[str, set[Column]] = {}
        for column in (*self._alike.made, *self._alike.inputs):
            names = self._names(column)
            dims = list(self._dims(names))
            known = words_of(names[0], len(dims)) if dims else ()
            for sizes, word in zip(dims, known, strict=True):
                meant.setdefault(word or "", set()).add(sizes)
                if word and type(word) is str and word.isidentifier() and word not in self._taken:
                    words.setdefault(sizes, word)
        self._other_words = set(meant)
        return {sizes: word for sizes, word in words.items() if len(meant[word]) == 1}

    def _word(self, sizes: Column) -> str:
        words = self._of_weights if sizes in self._batches else self._words
        if sizes not in words:
            taken = {*self._taken, *self._other_words, *self._words.values(), *self._of_weights.values()}
            further = itertools.chain(["channels"], further_names("channels"))
            words[sizes] = first_free(itertools.chain(self._telling[sizes], further), taken)
        return words[sizes]

    def _told(self, numbers: Column) -> _SumOfSizes | None:
        """The sizes that tell some numbers."""
        if numbers not in self._known:
            self._known[numbers] = next(self._sums(numbers), None) if _may_tell(numbers) else None
        return self._known[numbers]

    def _sums(self, numbers: Column) -> Iterator[_SumOfSizes]:
        """The plainest first."""
        if numbers in self._telling:
            yield _SumOfSizes(((1, numbers),))
        for plus in range(_MOST_PLUS + 1):
            for times in range(1, _MOST_TIMES + 1):
                rest = [divmod(number - plus, times) for number in numbers]
                sizes = tuple(size for size, _ in rest)
                if sizes in self._telling and not any(left for _, left in rest):
                    yield _SumOfSizes(((times, sizes),), plus)
        for times in range(1, _MOST_PIECES + 1):
            for more in self._telling:
                sizes = tuple(number - times * size for number, size in zip(numbers, more, strict=True))
                is_plain = times > 1 or len(set(sizes)) > 1  # what is as much in all modules comes last
                if sizes in self._telling and sizes != more and is_plain:
                    yield _SumOfSizes(((1, sizes), (times, more)))

    # Steps.

    def _step(self, steps: Sequence[PlanStep]) -> list[PlanStep]:
        if all(isinstance(step, Launch) for step in steps):
            launches = [step for step in steps if isinstance(step, Launch)]
            sizes, scalars = (
                self._values([getattr(step, field) for step in launches]) for field in ("sizes", "scalars")
            )
            ints = self._ints(launches)
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
        told = self._told(tuple(numbers))
        return list(numbers) if told is None else list(self._with_words(told))

    def _with_words(self, told: _SumOfSizes) -> Iterator[ToldSize]:
        for place in range(len(self._alike.sites)):
            terms = [(times, self._word(sizes), sizes[place]) for times, sizes in told.terms]
            yield ToldSize(terms, told.plus)

    def _ints(self, launches: Sequence[Launch]) -> list[tuple[Any, ...]]:
        """Offsets and strides of calls of one kernel; offsets also as so many blocks of an axis."""
        whole = self._values([step.ints for step in launches])
        for at in range(len(whole[0])) if len({len(ints) for ints in whole}) == 1 else ():
            numbers = tuple(ints[at] for ints in whole)
            if _are_products(
                plain := [step.ints[at] for step in launches], [step.sizes for step in launches]
            ):
                whole = [
                    (*ints[:at], number, *ints[at + 1 :]) for ints, number in zip(whole, plain, strict=True)
                ]
            elif all(type(number) is int for number in numbers) and _may_tell(numbers):
                in_blocks = next(self._in_blocks(numbers, [step.sizes for step in launches]), None)
                for place, number in enumerate(in_blocks or ()):
                    whole[place] = (*whole[place][:at], number, *whole[place][at + 1 :])
        return whole

    def _in_blocks(self, numbers: Column, sizes: Sequence[Sequence[Any]]) -> Iterator[list[ToldBlocks]]:
        for blocks in zip(*(of[::-1] for of in sizes), strict=False):
            if all(isinstance(block, int) and block > 1 for block in blocks):
                pairs = [divmod(number, block) for number, block in zip(numbers, blocks, strict=True)]
                told = self._told(tuple(count for count, _ in pairs))
                if told is not None and not any(rest for _, rest in pairs):
                    counts = self._with_words(told)
                    yield [ToldBlocks(int(block), count) for block, count in zip(blocks, counts, strict=True)]

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


def _are_products(numbers: Sequence[Any], sizes: Sequence[Sequence[Any]]) -> bool:
    """Whether numbers are the product of the same sizes of the launches: those say it, whatever else is as much."""
    if len({len(of) for of in sizes}) != 1 or not all(type(n) is int for of in (numbers, *sizes) for n in of):
        return False
    places = range(
        1, len(sizes[0])
    )  # a step along an axis spans what is inside of it: never the outermost one
    subsets = (
        some for length in range(2, len(places) + 1) for some in itertools.combinations(places, length)
    )
    return any(
        all(
            number == math.prod(of[place] for place in some)
            for number, of in zip(numbers, sizes, strict=True)
        )
        for some in subsets
    )


def _may_tell(sizes: Column) -> bool:
    """Whether a number is another one in some module, and so large that a reader would ask about it."""
    return len(set(sizes)) > 1 and max(sizes) > _LARGEST_PLAIN and min(sizes) > 1


def _with_args(calls: Sequence[Any], args: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(dataclasses.replace(call, args=given) for call, given in zip(calls, args, strict=True))


def _words_for(path: str, dim: int) -> Iterator[str]:
    """What one dimension of a weight may be called: ``conv_channels`` of what comes out of it, ``conv_in`` before."""
    parts = [identifier(part) for part in path.split(".")[:-1] if not part.isdigit()]
    noun = "in" if dim == 1 else "channels"
    yield from (f"{part}_{noun}" for part in reversed(parts) if is_identifier(part))
