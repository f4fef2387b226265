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
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sympy

from longhand.lower.ir import Buffer, Extern, Size, View, memory_order
from longhand.schedule.functions.alike_numbers import DifferError, DifferingNumbers, require
from longhand.schedule.functions.alike_releases import places_without_releases
from longhand.schedule.functions.alike_steps import AlikeSteps, SizeSymbol
from longhand.schedule.functions.sizes.near_sizes import (
    span_of,
    stride_of,
    symbols_of,
    tensors_beside,
)
from longhand.schedule.functions.sizes.size_proof import are_proven
from longhand.schedule.functions.sizes.size_sums import comes_out
from longhand.schedule.functions.sizes.size_table import Column, Sites, SizeTable, WordsOf
from longhand.schedule.layers.outside import references
from longhand.schedule.plan import Launch, PlanStep


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
        table = SizeTable(alike, buffers, words_of, variables, taken)
        shared = _SymbolSites(table, DifferingNumbers(variables)).result()
    except DifferError:
        return None
    return shared if are_proven(shared, alike, buffers) else None


class _SymbolSites:
    """Walks the steps of all modules at once.

    Args:
        table: The symbols.
        numbers: Finds numbers that calls of libraries are given and in which modules differ.
    """

    def __init__(self, table: SizeTable, numbers: DifferingNumbers) -> None:
        self._table = table
        self._numbers = numbers
        self._made = [dict[str, Buffer]() for _ in table.alike.sites]
        self._beside = tensors_beside(table.alike.sites[0].steps)
        self._near: frozenset[str] = frozenset()  # the words of sizes of what stands in the step at hand

    def result(self) -> AlikeSteps:
        """What they do, with symbols."""
        alike = self._table.alike
        for column in (*alike.inputs, *(column for _, column in self._table.weights)):
            self._put_buffers(column, is_given=True)
        for column in alike.made:
            self._put_buffers(column, is_given=False)
        each = [list(site.steps) for site in alike.sites]
        places = [places_without_releases(steps) for steps in each]
        for at in zip(*places, strict=True):
            steps = self._step([of[place] for of, place in zip(each, at, strict=True)])
            for of, place, step in zip(each, at, steps, strict=True):
                of[place] = step
        asked, numbers = self._numbers.known, self._numbers.known or alike.numbers
        require(
            bool(self._table.symbols or numbers) and self._table.taken.isdisjoint(word for word, _ in asked)
        )
        sites = tuple(
            dataclasses.replace(site, steps=tuple(steps), buffers=own)
            for site, steps, own in zip(alike.sites, each, self._made, strict=True)
        )
        symbols = (*self._table.symbols, *self._table.fixed)
        return dataclasses.replace(alike, sites=sites, symbols=symbols, numbers=numbers)

    # Buffers.

    def _put_buffers(self, column: Sequence[str], *, is_given: bool) -> None:
        own, rank = self._table.own(column), self._table.rank(column)
        if not own:
            return
        require(all(len(buffer.shape) == rank for buffer in own))
        name = self._table.alike.sites[0].aliases.get(column[0], column[0])
        words = self._table.words_of(name, rank) if rank else ()
        used: list[SizeSymbol] = []
        self._near = self._sizes_of(self._beside.get(column[0], ()))
        dims = [*zip(*(buffer.shape for buffer in own), strict=True)]
        columns: list[list[Size]] = []
        for dim, (sizes, word) in enumerate(zip(dims, words, strict=True)):
            symbol = self._table.of_dims.get((column[0], dim)) if is_given else None
            own_size = [symbol.size] * len(sizes) if symbol is not None else None
            columns.append(own_size or self._dim(sizes, word, used, is_given=is_given))
        if columns == [list(sizes) for sizes in dims]:
            return
        for place, (buffer, of_site) in enumerate(zip(own, self._made, strict=True)):
            shape = tuple(column[place] for column in columns)
            stride = _strides(buffer, shape)
            if stride is None:
                steps = zip(*(one.stride for one in own), strict=True)
                self._near |= symbols_of(
                    [column[0]], {column[0]: dataclasses.replace(buffer, shape=shape)}, self._table.words_of
                )
                stride = tuple(self._dim(sizes, None, [], is_given=True)[place] for sizes in steps)
            of_site[column[place]] = dataclasses.replace(
                buffer, name=column[place], shape=shape, stride=stride
            )

    def _dim(self, sizes: Sites, word: str | None, used: list[SizeSymbol], *, is_given: bool) -> list[Size]:
        """A dimension of a tensor in each module; of one that is given what nobody prints may be another in each."""
        try:
            told = self._table.told(sizes, word, used, self._near, may_ask=not is_given, is_printed=False)
            return [told] * len(sizes)
        except DifferError:
            if not is_given:
                raise
            return list(sizes)

    def _sizes_of(self, names: Iterable[str]) -> frozenset[str]:
        return symbols_of(names, self._made[0], self._table.words_of)

    # Steps.

    def _step(self, steps: Sequence[PlanStep]) -> list[PlanStep]:
        if isinstance(steps[0], Launch | Extern):
            self._near = self._sizes_of(references(steps[0]))
        if all(isinstance(step, Launch) for step in steps):
            launches = [step for step in steps if isinstance(step, Launch)]
            sizes = self._axes(launches)
            ints = self._ints(launches, sizes[0])
            scalars = self._values([step.scalars for step in launches])
            return [
                dataclasses.replace(step, sizes=sizes[at], ints=ints[at], scalars=scalars[at])
                for at, step in enumerate(launches)
            ]
        if all(isinstance(step, Extern) for step in steps):
            calls = self._numbers.apart([step for step in steps if isinstance(step, Extern)])
            self._near |= {one.word for one in self._table.symbols if not one.is_told and one.is_named}
            args = self._values([step.args for step in calls])
            kwargs = self._values([step.kwargs for step in calls])
            return [
                dataclasses.replace(step, args=args[at], kwargs=kwargs[at]) for at, step in enumerate(calls)
            ]
        return list(steps)

    def _axes(self, launches: Sequence[Launch]) -> list[tuple[Size, ...]]:
        """The sizes of a launch's axes, where they can be as dimensions of what it is given: so a shape tells them."""
        require(len({len(step.sizes) for step in launches}) == 1)
        wanted = {of for of in zip(*(step.sizes for step in launches), strict=True) if len(set(of)) > 1}
        runs: dict[Column, Size] = {}
        for names in zip(*(step.buffers for step in reversed(launches)), strict=True):
            for run, size in self._runs(names[::-1], wanted - runs.keys()):
                runs.setdefault(run, size)
        used: list[SizeSymbol] = []
        sizes = [
            runs[column] if column in runs else self._table.told(column, None, used, self._near)
            for column in zip(*(step.sizes for step in launches), strict=True)
        ]
        return [tuple(sizes)] * len(launches)

    def _ints(self, launches: Sequence[Launch], axes: Sequence[Size]) -> list[tuple[Size, ...]]:
        """Distances in what a launch is given, as that tells them, and where it begins in it."""
        require(len({len(step.ints) for step in launches}) == 1)
        used: list[SizeSymbol] = []
        told: list[Size] = []
        for column in zip(*(step.ints for step in launches), strict=True):
            strides = (
                stride_of(column, self._table.own(names), self._made[0].get(names[0]))
                for names in zip(*(step.buffers for step in launches), strict=True)
            )
            own = next((stride for stride in strides if stride is not None), None)
            is_same = len({repr(size) for size in column}) == 1
            told.append(self._distance(column, launches, axes, used) if own is None or is_same else own)
        return [tuple(told)] * len(launches)

    def _distance(
        self, column: Sites, launches: Sequence[Launch], axes: Sequence[Size], used: list[SizeSymbol]
    ) -> Size:
        """A number that no tensor has as its own distance: over the symbols, or what some axes span together."""
        try:
            return self._table.told(column, None, used, self._near, may_ask=False)
        except DifferError:
            spans = span_of(column, [step.sizes for step in launches])
            if spans is not None:
                return math.prod(axes[place] for place in spans)
        return self._table.told(column, None, used, self._near)

    def _runs(self, names: Sequence[str], wanted: Collection[Column]) -> Iterator[tuple[Column, Size]]:
        """Neighbouring dimensions of a tensor: how many elements they are in each module, and over the symbols."""
        own = self._table.own(names)
        new = self._made[0].get(names[0])
        if not own or new is None or not wanted or not self._table.rank(names):
            return
        order = memory_order(own[0])
        symbols = [one for one in (*self._table.symbols, *self._table.fixed) if one.is_named]
        for first in range(len(order)):
            for last in range(first + 1, len(order) + 1):
                dims = order[first:last]
                column = [math.prod(buffer.shape[dim] for dim in dims) for buffer in own]
                sizes = tuple(one for one in column if type(one) is int)
                if sizes in wanted and len(sizes) == len(column):
                    size = math.prod(new.shape[dim] for dim in dims)
                    if comes_out(size, sizes, symbols):
                        yield sizes, size

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
                    [self._table.told(items, word, used, self._near)] * len(items)
                    if all(type(item) is int for item in items)
                    else self._values(items)
                )
                for items, word in zip(zip(*values, strict=True), known, strict=True)
            ]
            return [type(value)(column[at] for column in columns) for at, value in enumerate(values)]
        if all(type(value) is int for value in values):
            return [self._table.told(values, None, [], self._near)] * len(values)
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
                told = self._table.told(column, None, [], self._near, may_ask=False)
                return sympy.Pow(told, sympy.Float(power), evaluate=False)  # the same float, to the last bit
        raise DifferError

    def _views(self, views: Sequence[View]) -> list[View]:
        require(len({len(view.calls) for view in views}) == 1)
        chains = []
        for calls in zip(*(view.calls for view in views), strict=True):
            sizes = calls[0].args[0] if calls[0].args else ()
            n_sizes = len(sizes) if isinstance(sizes, tuple | list) else 0
            words = self._table.words_of(calls[0].origin, n_sizes) if n_sizes and calls[0].origin else ()
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
            told = (self._table.told(sizes, None, used, self._near, may_ask=False) for sizes in columns)
            return [tuple(told)] * len(each)
        except DifferError:
            return [tuple(sizes) for sizes in each]


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
