"""Sizes in which modules differ as symbols: what these do is the same then, number by number.

Two stages of a model do the same in other widths. In one place of each stands a number: of all modules together these
are a column. Where a column is a dimension of what the function is given, or of a weight that its module holds, it is
a symbol; every other column is put together of those: a product, a few times one, a sum. What no dimension tells is a
symbol that the function is given. Steps with symbols are the same for all modules, and are printed as those of a unit
for many sizes are. Each column that is put together is computed anew for each module, and must come out as it was:
what cannot be told so is no function of several. A number that is the same in all modules stays what it is, so no
batch of 2 becomes a pair of heads.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import sympy

from longhand.lower.ir import Buffer, Extern, Size, View, memory_order
from longhand.schedule.functions.alike_numbers import KEYWORDS, DifferError, DifferingNumbers, require
from longhand.schedule.functions.alike_releases import places_without_releases
from longhand.schedule.functions.alike_steps import AlikeSteps, SizeSymbol
from longhand.schedule.functions.size_sums import SMALLEST_TELLING, Told, told_by_symbols
from longhand.schedule.names.words import first_free, further_names, identifier, is_identifier
from longhand.schedule.plan import Launch, PlanStep

Column = tuple[int, ...]  # what a number is in each of the modules
Sites = Sequence[Any]  # what stands in one place of each
WordsOf = Callable[[str, int], Sequence[str | None]]  # of the dimensions of a buffer, or of a view

_LARGEST_PLAIN = 9  # of a number that no word explains
_MOST_ASKED = 24  # symbols that nothing tells, most of which are never printed
_DIMS = {  # what a dimension is called that has no word
    1: ("channels",),
    2: ("rows", "channels"),
    3: ("batch", "length", "channels"),
    4: ("batch", "channels", "height", "width"),
}


def with_size_symbols(
    alike: AlikeSteps,
    buffers: Mapping[str, Buffer],
    words_of: WordsOf,
    variables: Mapping[str, str],
    taken: Collection[str],
) -> AlikeSteps | None:
    """What modules do alike, its sizes as symbols; None where they differ in nothing, or in what has none.

    Args:
        alike: What they do.
        buffers: The plan's, by name.
        words_of: Words for the dimensions of the first one's buffers.
        variables: What the function calls these.
        taken: Names that no symbol may have.
    """
    try:
        return _SymbolSites(alike, buffers, words_of, variables, taken).result()
    except DifferError:
        return None


class _SymbolSites:
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
        self._words_of = words_of
        self._variables = variables
        self._taken = {*taken}
        self._symbols: list[SizeSymbol] = []
        self._fixed: list[SizeSymbol] = []  # dimensions with a word that are the same in all modules
        self._known: dict[Column, Told | None] = {}
        self._numbers = DifferingNumbers(variables)
        self._made = [dict[str, Buffer]() for _ in alike.sites]
        self._meant: dict[str, tuple[Size, ...]] = {}  # by word: what the first dimension of that word is
        self._kept: set[str] = set()
        self._of_dims: dict[tuple[str, int], SizeSymbol] = {}  # of what is given
        self._words_met: dict[Column, list[str]] = {}  # what is called so somewhere in the first module

    def result(self) -> AlikeSteps | None:
        """All of it."""
        each = [(column, self._of_tensor(column)) for column in self._alike.inputs]
        for column, words in each:
            self._keep_for_others(column, words)
        for column, words in each:
            self._add_dims(column, words)
        for word, numbers in self._alike.numbers:
            is_size = all(type(number) is int and number > 1 for number in numbers)
            if is_size and word not in KEYWORDS and len(set(numbers)) > 1:  # one that a call inside is given
                self._symbols.append(SizeSymbol(word, tuple(map(int, numbers)), is_told=True))
        weights = [{path: name for name, path in site.weights.items()} for site in self._alike.sites]
        for path in [one for one in weights[0] if all(one in of for of in weights)]:
            column = tuple(of[path] for of in weights)
            self._add_dims(column, [list(_of_weight(path, dim)) for dim in range(self._rank(column))][:2])
        made = self._made
        self._meet_words()
        for sizes, words in self._words_met.items():
            for word in words:
                if self._exact(sizes, word, []) is None and len(self._symbols) < _MOST_ASKED:
                    self._new(sizes, [word], is_told=False)
        for column in (*self._alike.inputs, *zip(*(of.values() for of in _ordered(weights)), strict=True)):
            self._put_buffers(made, column, is_given=True)
        for column in self._alike.made:
            self._put_buffers(made, column, is_given=False)
        each = [list(site.steps) for site in self._alike.sites]
        places = [places_without_releases(steps) for steps in each]
        for at in zip(*places, strict=True):
            steps = self._step([of[place] for of, place in zip(each, at, strict=True)])
            for of, place, step in zip(each, at, steps, strict=True):
                of[place] = step
        numbers = self._numbers.known or self._alike.numbers
        require(bool(self._symbols or numbers) and self._taken.isdisjoint(self._numbers_asked))
        sites = tuple(
            dataclasses.replace(site, steps=tuple(steps), buffers=own)
            for site, steps, own in zip(self._alike.sites, each, made, strict=True)
        )
        return dataclasses.replace(self._alike, sites=sites, symbols=tuple(self._symbols), numbers=numbers)

    @property
    def _numbers_asked(self) -> set[str]:
        return {word for word, _ in self._numbers.known}

    # What is told.

    def _own(self, column: Sequence[str]) -> list[Buffer]:
        """The buffers that are given for a parameter, or made in one place; none where the plan has none."""
        sites = zip(self._alike.sites, column, strict=True)
        names = [site.aliases.get(name, name) for site, name in sites]
        found = [self._buffers[name] for name in names if name in self._buffers]
        return found if len(found) == len(column) else []

    def _rank(self, column: Sequence[str]) -> int:
        ranks = {len(buffer.shape) for buffer in self._own(column)}
        return ranks.pop() if len(ranks) == 1 else 0

    def _of_tensor(self, column: Sequence[str]) -> list[list[str]]:
        """What each dimension of a tensor that the function is given may be called."""
        variable, rank = self._variables.get(column[0], ""), self._rank(column)
        nouns = _DIMS.get(rank, tuple(f"dim_{dim}" for dim in range(rank)))
        words = self._words_of(self._alike.sites[0].aliases.get(column[0], column[0]), rank) if rank else ()
        return [
            [
                *([word] if word and type(word) is str and word.isidentifier() else []),
                *([f"{variable}_{noun}"] if is_identifier(variable) else []),
            ]
            for word, noun in zip(words, nouns, strict=True)
        ]

    def _add_dims(self, column: Sequence[str], words: Sequence[Sequence[str]]) -> None:
        """Symbols for the dimensions of a tensor in which modules differ."""
        own = self._own(column)
        require(not own or len({len(buffer.shape) for buffer in own}) == 1)
        used: list[SizeSymbol] = []
        for dim, sizes in enumerate(zip(*(buffer.shape[: len(words)] for buffer in own), strict=True)):
            if not all(type(size) is int for size in sizes):
                require(len({str(size) for size in sizes}) == 1)
                continue
            if len(set(sizes)) == 1:
                self._fix(sizes, words[dim])
                continue
            symbol = self._exact(sizes, words[dim][0] if words[dim] else None, used)
            if symbol is None or symbol in used:
                is_of_table = not own[0].dtype.is_floating_point
                symbol = self._new(sizes, words[dim], is_told=True, source=column[0], is_of_table=is_of_table)
            used.append(symbol)
            self._of_dims[column[0], dim] = symbol

    def _keep_for_others(self, column: Sequence[str], words: Sequence[Sequence[str]]) -> None:
        """Words that a shape binds to what is the same in all modules are no symbol's."""
        dims = zip(*(buffer.shape for buffer in self._own(column)), strict=True)
        for sizes, known in zip(dims, words, strict=False):
            if known and known[0] not in self._meant:
                self._meant[known[0]] = tuple(sizes)
                self._kept |= {known[0]} if len({str(size) for size in sizes}) == 1 else set()

    def _fix(self, sizes: Column, words: Sequence[str]) -> None:
        """Keeps a dimension that is the same in all modules, and that a shape binds to its word."""
        word = words[0] if words else ""
        is_new = all(word != one.word for one in (*self._fixed, *self._symbols))
        if word and sizes[0] > 1 and is_new and word not in self._taken and not word.endswith(_NOUNS):
            self._fixed.append(SizeSymbol(word, sizes, is_told=True))

    def _new(
        self,
        sizes: Column,
        words: Sequence[str],
        *,
        is_told: bool,
        source: str = "",
        is_of_table: bool = False,
    ) -> SizeSymbol:
        known = {one.word for one in (*self._symbols, *self._fixed)} | self._taken | self._kept
        head = words[0] if words else "size"
        further = itertools.chain(words, further_names(head))
        word = first_free(further, known)
        symbol = SizeSymbol(word, sizes, is_told, source, is_of_table, is_named=bool(words))
        self._symbols.append(symbol)
        return symbol

    def _exact(self, sizes: Column, word: str | None, used: Sequence[SizeSymbol]) -> SizeSymbol | None:
        """The symbol that stands for a column: of several the one of that word, or the first that is not used yet."""
        alike = [one for one in self._symbols if one.sizes == sizes and self._may_be(one, word)]
        named = (one for one in alike if one.word == word)
        free = (one for one in alike if one not in used)
        again = (one for one in alike if one.is_told or not word)
        return next(itertools.chain(named, free, again), None)

    def _may_be(self, symbol: SizeSymbol, word: str | None) -> bool:
        """Whether a symbol may stand where a number has a word of its own, or none: small ones are alike by chance."""
        if word == symbol.word:
            return True
        is_small = min(symbol.sizes) < SMALLEST_TELLING
        if not word or not word.isidentifier():
            return not (is_small and symbol.is_of_table)
        return symbol.is_told and not is_small

    def _told(
        self,
        sizes: Sites,
        word: str | None,
        used: list[SizeSymbol],
        *,
        may_ask: bool = True,
        is_printed: bool = True,
    ) -> Size:
        """What a number of each module is over the symbols."""
        if not all(type(size) is int for size in sizes):
            require(len({repr(size) for size in sizes}) == 1)
            first: Size = sizes[0]
            return first
        column: Column = tuple(sizes)
        if len(set(column)) == 1:
            return column[0]
        symbol = self._exact(column, word, used)
        if symbol is not None:
            used.append(symbol)
            return symbol.size
        if column not in self._known:
            self._known[column] = told_by_symbols(column, self._symbols, self._fixed)
        told = self._known[column]
        if told is not None:
            return told.size
        n_asked = sum(not one.is_told for one in self._symbols)
        require(may_ask and n_asked < _MOST_ASKED)
        words = [word] if word and word.isidentifier() else self._words_met.get(column, [])
        require(bool(words) or not is_printed)
        asked = self._new(column, words, is_told=False)
        used.append(asked)
        return asked.size

    def _meet_words(self) -> None:
        """Keeps what views and new tensors call sizes that no dimension of what is given tells."""
        known = {one.sizes for one in self._symbols}
        for column, words in itertools.chain(self._words_of_views(), self._words_of_made()):
            for sizes, word in zip(column, words, strict=True):
                is_column = all(type(size) is int for size in sizes) and len(set(sizes)) > 1
                if is_column and sizes not in known and word and type(word) is str and word.isidentifier():
                    met = self._words_met.setdefault(tuple(sizes), [])
                    met += [word] if word not in met else []

    def _words_of_made(self) -> Iterator[tuple[Sequence[Sites], Sequence[str | None]]]:
        for column in self._alike.made:
            own, rank = self._own(column), self._rank(column)
            if own and rank:
                yield [*zip(*(one.shape for one in own), strict=True)], self._words_of(column[0], rank)

    def _words_of_views(self) -> Iterator[tuple[Sequence[Sites], Sequence[str | None]]]:
        each = [[step for step in site.steps if isinstance(step, Extern)] for site in self._alike.sites]
        for steps in zip(*each, strict=True):
            for views in zip(*(step.views() for step in steps), strict=True):
                for calls in zip(*(view.calls for view in views), strict=True):
                    sizes = [call.args[0] if call.args else () for call in calls]
                    if calls[0].origin and all(isinstance(one, tuple | list) for one in sizes):
                        columns = [*zip(*sizes, strict=True)]
                        yield columns, self._words_of(calls[0].origin, len(columns))

    # Buffers.

    def _put_buffers(
        self, made: Sequence[dict[str, Buffer]], column: Sequence[str], *, is_given: bool
    ) -> None:
        own, rank = self._own(column), self._rank(column)
        if not own:
            return
        require(all(len(buffer.shape) == rank for buffer in own))
        name = self._alike.sites[0].aliases.get(column[0], column[0])
        words = self._words_of(name, rank) if rank else ()
        used: list[SizeSymbol] = []
        dims = [*zip(*(buffer.shape for buffer in own), strict=True)]
        columns: list[list[Size]] = []
        for dim, (sizes, word) in enumerate(zip(dims, words, strict=True)):
            symbol = self._of_dims.get((column[0], dim)) if is_given else None
            own_size = [symbol.size] * len(sizes) if symbol is not None else None
            columns.append(own_size or self._dim(sizes, word, used, is_given=is_given))
        if columns == [list(sizes) for sizes in dims]:
            return
        for place, (buffer, of_site) in enumerate(zip(own, made, strict=True)):
            shape = tuple(column[place] for column in columns)
            stride = _strides(buffer, shape)
            if stride is None:
                steps = zip(*(one.stride for one in own), strict=True)
                stride = tuple(self._dim(sizes, None, [], is_given=True)[place] for sizes in steps)
            of_site[column[place]] = dataclasses.replace(
                buffer, name=column[place], shape=shape, stride=stride
            )

    def _dim(self, sizes: Sites, word: str | None, used: list[SizeSymbol], *, is_given: bool) -> list[Size]:
        """A dimension of a tensor in each module; of one that is given what nobody prints may be another in each."""
        try:
            return [self._told(sizes, word, used, may_ask=not is_given, is_printed=False)] * len(sizes)
        except DifferError:
            if not is_given:
                raise
            return list(sizes)

    # Steps.

    def _step(self, steps: Sequence[PlanStep]) -> list[PlanStep]:
        if all(isinstance(step, Launch) for step in steps):
            launches = [step for step in steps if isinstance(step, Launch)]
            sizes = self._axes(launches)
            ints, scalars = (
                self._values([getattr(step, field) for step in launches]) for field in ("ints", "scalars")
            )
            return [
                dataclasses.replace(step, sizes=sizes[at], ints=ints[at], scalars=scalars[at])
                for at, step in enumerate(launches)
            ]
        if all(isinstance(step, Extern) for step in steps):
            calls = self._numbers.apart([step for step in steps if isinstance(step, Extern)])
            args = self._values([step.args for step in calls])
            kwargs = self._values([step.kwargs for step in calls])
            return [
                dataclasses.replace(step, args=args[at], kwargs=kwargs[at]) for at, step in enumerate(calls)
            ]
        return list(steps)

    def _axes(self, launches: Sequence[Launch]) -> list[tuple[Size, ...]]:
        """The sizes of a launch's axes, where they can be as dimensions of what it is given: so a shape tells them."""
        require(len({len(step.sizes) for step in launches}) == 1)
        runs: dict[Column, Size] = {}
        for names in zip(*(step.buffers for step in reversed(launches)), strict=True):
            for run, size in self._runs(names[::-1]):
                runs.setdefault(run, size)
        used: list[SizeSymbol] = []
        sizes = [
            runs[column] if column in runs and len(set(column)) > 1 else self._told(column, None, used)
            for column in zip(*(step.sizes for step in launches), strict=True)
        ]
        return [tuple(sizes)] * len(launches)

    def _runs(self, names: Sequence[str]) -> Iterator[tuple[Column, Size]]:
        """Neighbouring dimensions of a tensor: how many elements they are in each module, and over the symbols."""
        own = self._own(names)
        new = self._made[0].get(names[0])
        if not own or new is None or len({len(buffer.shape) for buffer in own}) > 1:
            return
        order = memory_order(own[0])
        for first in range(len(order)):
            for last in range(first + 1, len(order) + 1):
                dims = order[first:last]
                column = [math.prod(buffer.shape[dim] for dim in dims) for buffer in own]
                if all(type(size) is int for size in column):
                    yield tuple(map(int, column)), math.prod(new.shape[dim] for dim in dims)

    def _values(self, values: Sites, words: Sequence[str | None] = ()) -> list[Any]:
        """What stands in one place of each module, numbers as symbols; `words` are those of numbers in a list."""
        if all(isinstance(value, View) for value in values):
            return self._views(values)
        if all(isinstance(value, tuple | list) for value in values):
            require(len({len(value) for value in values}) == 1)
            known = words if len(words) == len(values[0]) else [None] * len(values[0])
            used: list[SizeSymbol] = []
            columns = [
                (
                    [self._told(items, word, used)] * len(items)
                    if all(type(item) is int for item in items)
                    else self._values(items)
                )
                for items, word in zip(zip(*values, strict=True), known, strict=True)
            ]
            return [type(value)(column[at] for column in columns) for at, value in enumerate(values)]
        if all(type(value) is int for value in values):
            return [self._told(values, None, [])] * len(values)
        if all(type(value) is float for value in values) and len(set(values)) > 1:
            return [self._told_root(values)] * len(values)
        require(len({repr(value) for value in values}) == 1)
        return list(values)

    def _told_root(self, values: Sequence[float]) -> Size:
        """What scales scores in each module: ``head_dim**-0.5``."""
        for power in (-0.5, 0.5):
            is_positive = all(0 < value < math.inf for value in values)
            column = tuple(round(value ** (1 / power)) for value in values) if is_positive else ()
            if column and all(
                size and size**power == value for size, value in zip(column, values, strict=True)
            ):
                told = self._told(column, None, [], may_ask=False)
                return sympy.Pow(told, sympy.Float(power), evaluate=False)  # the same float, to the last bit
        raise DifferError

    def _views(self, views: Sequence[View]) -> list[View]:
        require(len({len(view.calls) for view in views}) == 1)
        chains = []
        for calls in zip(*(view.calls for view in views), strict=True):
            sizes = calls[0].args[0] if calls[0].args else ()
            n_sizes = len(sizes) if isinstance(sizes, tuple | list) else 0
            words = self._words_of(calls[0].origin, n_sizes) if n_sizes and calls[0].origin else ()
            args = [self._values(given, words) for given in zip(*(call.args for call in calls), strict=True)]
            chains.append(
                [
                    dataclasses.replace(call, args=tuple(one[at] for one in args))
                    for at, call in enumerate(calls)
                ]
            )
        used: list[SizeSymbol] = []
        shape = self._lenient([view.shape for view in views], used)
        stride = self._lenient([view.stride for view in views], [])
        return [
            dataclasses.replace(
                view, shape=shape[at], stride=stride[at], calls=tuple(chain[at] for chain in chains)
            )
            for at, view in enumerate(views)
        ]

    def _lenient(self, each: Sequence[Sequence[Size]], used: list[SizeSymbol]) -> list[tuple[Size, ...]]:
        """Sizes that nobody prints: as symbols where these tell them."""
        try:
            columns = zip(*each, strict=True)
            return [tuple(self._told(sizes, None, used, may_ask=False) for sizes in columns)] * len(each)
        except DifferError:
            return [tuple(sizes) for sizes in each]


_NOUNS = tuple(f"_{noun}" for noun in ("rows", "channels", "batch", "length", "height", "width"))


def _ordered(weights: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The weights that all modules read, by path, in the order of the first one's."""
    paths = [path for path in weights[0] if all(path in of for of in weights)]
    return [{path: of[path] for path in paths} for of in weights]


def _strides(buffer: Buffer, shape: Sequence[Size]) -> tuple[Size, ...] | None:
    """The strides of a dense buffer of another shape; None where it is none."""
    expected: Size = 1
    plain, steps = 1, [*buffer.stride]
    for dim in reversed(memory_order(buffer)):
        if buffer.shape[dim] == 1:
            continue
        if buffer.stride[dim] != plain:
            return None
        steps[dim] = expected
        expected, plain = expected * shape[dim], plain * buffer.shape[dim]
    return tuple(steps)


def _of_weight(path: str, dim: int) -> Iterator[str]:
    """What one dimension of a weight may be called: ``conv_channels`` of what comes out of it, ``conv_in`` before."""
    names = path.split(".") if path.split(".")[-1] not in ("weight", "bias") else path.split(".")[:-1]
    parts = [identifier(part) for part in names if not part.isdigit()]
    noun = {0: "channels", 1: "in"}.get(dim, "kernel")
    yield from (f"{part}_{noun}" for part in reversed(parts) if is_identifier(part))
