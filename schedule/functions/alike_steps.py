"""Steps of several modules side by side: whether they are the same up to names, and what differs then.

Buffers that are made in the same place are the same one; what comes from outside is a parameter wherever it comes from,
and so is a number that a call of a library is given, where a keyword says what it is. Weights are the same where their
paths below the modules are. Sizes may be others: what tells them is known when they are printed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import sympy

from longhand.lower.ir import Buffer, Extern, Size, View
from longhand.schedule.functions.alike_numbers import DifferError, DifferingNumbers, Number, require
from longhand.schedule.functions.alike_releases import (
    places_without_releases,
    releases_behind,
    united_releases,
)
from longhand.schedule.functions.call_records import SharedCall
from longhand.schedule.layers.outside import made_inside
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.view_names import named_views, view_key
from longhand.schedule.plan import Allocate, Launch, PlanStep, Reuse

Column = tuple[str, ...]  # what each of the modules has in one place


@dataclasses.dataclass(frozen=True)
class SiteSteps:
    """The steps of one module.

    Attributes:
        steps: In order, without releases of what it is given.
        calls: By the place of the first of the steps: which of them are a call already.
        given: The buffers that it takes beside its module.
        weights: By buffer: the path below the module.
        results: What it makes that is read elsewhere.
        saved: What it makes besides that only the backward pass reads.
        aliases: Further names of what it is given, in `steps`: the same tensor for several parameters.
        twins: By the name of a buffer or a node: the one in the first module, whose words it has.
        shapes: Of buffers with sizes that others tell (told_sizes.py).
        buffers: Those with sizes that are symbols (size_symbols.py).
    """

    steps: tuple[PlanStep, ...]
    calls: Mapping[int, SharedCall]
    given: tuple[str, ...]
    weights: Mapping[str, str]
    results: tuple[str, ...]
    saved: tuple[str, ...] = ()
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    twins: Mapping[str, str] = dataclasses.field(default_factory=dict)
    shapes: Mapping[str, tuple[Size, ...]] = dataclasses.field(default_factory=dict)
    buffers: Mapping[str, Buffer] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class SizeSymbol:
    """A size in which modules differ.

    Attributes:
        word: The symbol's name.
        sizes: What it is in each of the modules.
        is_told: Whether a dimension of what the function is given, or of a weight of its module, tells it.
        source: Of what, by name.
        sources: Of all that have it, where that is known.
        is_of_table: Whether that holds whole numbers: what has as many entries is another thing.
        is_named: Whether the word is the user's, or says whose dimension it is.
        meant: The word that it would have, if nothing else had it.
    """

    word: str
    sizes: tuple[int, ...]
    is_told: bool
    source: str = ""
    is_of_table: bool = False
    is_named: bool = True
    meant: str = ""
    sources: frozenset[str] = frozenset()

    @property
    def size(self) -> sympy.Symbol:
        """The symbol."""
        return sympy.Symbol(self.word, integer=True, positive=True)


@dataclasses.dataclass(frozen=True)
class AlikeSteps:
    """What several modules do alike.

    Attributes:
        sites: The steps of each, with one name in them for each parameter and its word for each number that differs.
        inputs: In the order of the first one's: what each module is given for a parameter, by its name in the steps.
        made: What they make, likewise.
        views: The keys of views that have names, likewise.
        numbers: (parameter, what it is in each).
        symbols: Sizes in which they differ, where these stand in the steps.
    """

    sites: tuple[SiteSteps, ...]
    inputs: tuple[Column, ...]
    made: tuple[Column, ...]
    views: tuple[Column, ...]
    numbers: tuple[tuple[str, tuple[Number, ...]], ...]
    symbols: tuple[SizeSymbol, ...] = ()


def alike_steps(
    sites: Sequence[SiteSteps], words: BufferNamer, variables: Mapping[str, str]
) -> AlikeSteps | None:
    """What some modules do alike; None if they do not.

    Args:
        sites: The steps of each.
        words: The captured graph's.
        variables: Of the first one's buffers.
    """
    try:
        return _StepsInStep(sites, words, variables).result()
    except DifferError:
        return None


class _StepsInStep:
    """Walks the steps of all modules at once."""

    def __init__(self, sites: Sequence[SiteSteps], words: BufferNamer, variables: Mapping[str, str]) -> None:
        self._sites = sites
        self._words = words
        self._made = [made_inside(site.steps) for site in sites]
        self._local: list[dict[str, int]] = [{} for _ in sites]  # by buffer: which of `_locals` it is
        self._locals: list[Column] = []
        self._inputs: dict[Column, Column] = {}  # the buffers, and what they are called in the steps
        self._views: dict[Column, None] = {}
        self._aliases: list[dict[str, str]] = [{} for _ in sites]
        self._twins: list[dict[str, str]] = [{} for _ in sites]
        self._numbers = DifferingNumbers(variables)

    def result(self) -> AlikeSteps:
        """All of it."""
        new = [list(site.steps) for site in self._sites]
        calls: list[dict[int, SharedCall]] = [{} for _ in self._sites]
        # When memory is dropped is no difference of what they do: it is one when that is printed.
        places = [places_without_releases(steps) for steps in new]
        require(len(set(map(len, places))) == 1)
        inside = 0  # how many of them a call of another function stands for, up to its end
        spans: list[tuple[int, int]] = []  # of those calls: the first and the last step, by number
        for number, at in enumerate(zip(*places, strict=True)):
            there = [site.calls.get(place) for site, place in zip(self._sites, at, strict=True)]
            if number >= inside and any(there):
                both = [(call, place) for call, place in zip(there, at, strict=True) if call is not None]
                steps = (
                    of[place : place + call.n_steps] for of, (call, place) in zip(new, both, strict=False)
                )
                lengths = {len(places_without_releases(run)) for run in steps}
                require(len(both) == len(at) and len(lengths) == 1)
                inside = number + lengths.pop()
                spans.append((number, inside - 1))
                told = self._call([call for call, _ in both])
                for by_place, place, call in zip(calls, at, told, strict=True):
                    by_place[place] = call
            named = self._step([of[place] for of, place in zip(new, at, strict=True)], number < inside)
            for steps_of, place, step in zip(new, at, named, strict=True):
                steps_of[place] = step
        results, saved = self._handed_back()
        first = self._sites[0].given
        inputs = sorted(self._inputs.items(), key=lambda one: first.index(one[0][0]))
        new, calls = self._with_releases(new, calls, spans)
        sites = (
            dataclasses.replace(
                site,
                steps=tuple(steps),
                calls=at,
                results=tuple(column[place] for column in results),
                saved=tuple(column[place] for column in saved),
                aliases=aliases,
                twins=twins,
            )
            for place, (site, steps, at, aliases, twins) in enumerate(
                zip(self._sites, new, calls, self._aliases, self._twins, strict=True)
            )
        )
        return AlikeSteps(
            tuple(sites),
            tuple(names for _, names in inputs),
            tuple(self._locals),
            tuple(self._views),
            self._numbers.known,
        )

    def _handed_back(self) -> tuple[list[Column], list[Column]]:
        """What each module hands back, and what each keeps besides: handed back by all if it is by any.

        The last block of a stage may hand on what the others only keep for their derivatives: they hand it back, too.
        """
        pairs = list(zip(self._sites, self._local, strict=True))
        require(all(known.keys() >= {*site.results, *site.saved} for site, known in pairs))
        each = [
            ([known[name] for name in site.results], [known[name] for name in site.saved])
            for site, known in pairs
        ]
        handed, kept = each[0]
        if any(one != each[0] for one in each):
            handed = sorted(set[int]().union(*(results for results, _ in each)))
            kept = sorted(set[int]().union(*(saved for _, saved in each)).difference(handed))
            require(all({*results, *saved} == {*handed, *kept} for results, saved in each))
        return [self._locals[one] for one in handed], [self._locals[one] for one in kept]

    def _with_releases(
        self,
        each: Sequence[list[PlanStep]],
        calls: Sequence[dict[int, SharedCall]],
        spans: Sequence[tuple[int, int]],
    ) -> tuple[list[list[PlanStep]], list[dict[int, SharedCall]]]:
        """The steps and the calls among them, with memory dropped where it is in any of the modules."""
        behind = [releases_behind(steps, known) for steps, known in zip(each, calls, strict=True)]
        each, calls = [steps for steps, _ in behind], [known for _, known in behind]
        fixed = frozenset(number for begin, end in spans for number in range(begin, end))
        united = united_releases(each, self._local, fixed)
        moved: list[dict[int, SharedCall]] = []
        for before, after, known in zip(each, united, calls, strict=True):
            old, new = places_without_releases(before), places_without_releases(after)
            n_more = {begin: new[end] - new[begin] - old[end] + old[begin] for begin, end in spans}
            moved.append(
                {
                    new[begin]: dataclasses.replace(call, n_steps=call.n_steps + n_more[begin])
                    for begin, _ in spans
                    if (call := known.get(old[begin])) is not None
                }
            )
        return united, moved

    # Buffers.

    def _are_twins(self, column: Column) -> None:
        for twins, name in zip(self._twins, column, strict=True):
            twins.setdefault(name, column[0])

    def _bind(self, column: Column) -> None:
        require(all(name in made for name, made in zip(column, self._made, strict=True)))
        for known, name in zip(self._local, column, strict=True):
            known[name] = len(self._locals)
        self._locals.append(column)
        self._are_twins(column)

    def _buffer(self, column: Column) -> Column:
        """What buffers in one place are called in the steps."""
        is_made = [name in made for name, made in zip(column, self._made, strict=True)]
        if any(is_made):
            known_as = {known.get(name) for known, name in zip(self._local, column, strict=True)}
            require(all(is_made) and len(known_as) == 1 and None not in known_as)
            return column
        paths = {site.weights.get(name) for site, name in zip(self._sites, column, strict=True)}
        if paths != {None}:
            require(len(paths) == 1)
            self._are_twins(column)
            return column
        require(all(name in site.given for site, name in zip(self._sites, column, strict=True)))
        return self._input(column)

    def _input(self, column: Column) -> Column:
        if column not in self._inputs:
            names = []
            for place, (name, aliases) in enumerate(zip(column, self._aliases, strict=True)):
                is_known = any(other[place] == name for other in self._inputs)
                own = f"{name} as parameter {len(self._inputs)}" if is_known else name
                if is_known:
                    aliases[own] = name
                names.append(own)
            self._inputs[column] = tuple(names)
            for twins, name in zip(self._twins, names, strict=True):
                twins[name] = column[0]
        return self._inputs[column]

    # Steps.

    def _step(self, steps: Sequence[PlanStep], is_inside: bool) -> Sequence[PlanStep]:
        """One step of each, with the names that stand for parameters."""
        require(len({type(step) for step in steps}) == 1)
        match steps[0]:
            case Allocate():
                return self._allocations([step for step in steps if isinstance(step, Allocate)])
            case Reuse():
                reuses = [step for step in steps if isinstance(step, Reuse)]
                require(len({step.in_place for step in reuses}) == 1)
                of = self._buffer(tuple(step.of for step in reuses))
                self._bind(tuple(step.buffer for step in reuses))
                pairs = zip(reuses, of, strict=True)
                return [dataclasses.replace(step, of=name) for step, name in pairs]
            case Launch():
                launches = [step for step in steps if isinstance(step, Launch)]
                require(len({step.kernel for step in launches}) == 1)
                require(not any(step.others for step in launches))
                named = self._buffers([step.buffers for step in launches])
                passed = zip(launches, named, strict=True)
                return [dataclasses.replace(step, buffers=names) for step, names in passed]
            case Extern():
                return self._externs([step for step in steps if isinstance(step, Extern)], is_inside)
        return steps

    def _allocations(self, steps: Sequence[Allocate]) -> list[Allocate]:
        """New tensors, each made like what those of all modules are made like."""
        self._bind(tuple(step.buffer for step in steps))
        named = self._buffers([step.beside for step in steps])
        columns = list(zip(*(step.beside for step in steps), strict=True))
        is_like = [
            all(name in step.like for name, step in zip(column, steps, strict=True)) for column in columns
        ]
        return [
            dataclasses.replace(
                step,
                beside=names,
                like=tuple(name for name, is_one in zip(names, is_like, strict=True) if is_one),
            )
            for step, names in zip(steps, named, strict=True)
        ]

    def _buffers(self, each: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        require(len({len(names) for names in each}) == 1)
        columns = [self._buffer(column) for column in zip(*each, strict=True)]
        return [tuple(column[place] for column in columns) for place in range(len(each))]

    def _externs(self, steps: list[Extern], is_inside: bool) -> list[Extern]:
        first = steps[0]
        for step in steps:
            require((step.target, step.memory_format) == (first.target, first.memory_format))
            require([bool(name) for name in step.outputs] == [bool(name) for name in first.outputs])
        if not is_inside:
            self._name_views(steps)
            steps = self._numbers.apart(steps)
        words = [word for word, _ in steps[0].kwargs if all(word in dict(step.kwargs) for step in steps)]
        require(is_inside or all(len(words) == len(step.kwargs) for step in steps))
        args = self._value([step.args for step in steps])
        kwargs = self._value([tuple(dict(step.kwargs)[word] for word in words) for step in steps])
        mutates = self._buffers([step.mutates for step in steps])
        measured = self._buffers([step.measured for step in steps])
        for column in zip(*(step.outputs for step in steps), strict=True):
            if column[0]:
                self._bind(column)
        return [
            dataclasses.replace(
                step,
                args=args[place],
                kwargs=tuple(zip(words, kwargs[place], strict=True)),
                mutates=mutates[place],
                measured=measured[place],
            )
            for place, step in enumerate(steps)
        ]

    def _value(self, values: Sequence[Any]) -> list[Any]:
        """An argument of each, with the names that stand for parameters."""
        kinds = {View if isinstance(value, View) else type(value) for value in values}
        if View in kinds:
            require(len(kinds) == 1)
            chains = [view.calls for view in values]
            require(len({tuple(call.target for call in calls) for calls in chains}) == 1)
            for calls in zip(*chains, strict=True):
                self._are_twins(tuple(call.origin for call in calls))
            names = self._buffer(tuple(view.buffer for view in values))
            return [dataclasses.replace(view, buffer=name) for view, name in zip(values, names, strict=True)]
        if kinds <= {tuple, list}:
            require(len({len(value) for value in values}) == 1)
            columns = [self._value(items) for items in zip(*values, strict=True)]
            return [type(value)(column[place] for column in columns) for place, value in enumerate(values)]
        return list(values)

    def _name_views(self, steps: Sequence[Extern]) -> None:
        """The views that the user named before a call are the same, too."""
        lines = [named_views(step, self._words) for step in steps]
        require(len({tuple(len(line.keys) for line in of_step) for of_step in lines}) == 1)
        for each in zip(*lines, strict=True):
            for nodes in zip(*(line.keys for line in each), strict=True):
                self._are_twins(nodes)
                keys = (view_key(step, node) for step, node in zip(steps, nodes, strict=True))
                self._views[tuple(keys)] = None
            if each[0].heads:
                self._are_twins(tuple(line.heads for line in each))

    def _call(self, calls: Sequence[SharedCall]) -> list[SharedCall]:
        """A call of another function in each, with the names that stand for parameters."""
        require(len({(call.name, len(call.results)) for call in calls}) == 1)
        tensors = self._buffers([call.tensors for call in calls])
        numbers: list[list[tuple[str, Number]]] = [[] for _ in calls]
        for column in zip(*(call.numbers for call in calls), strict=True):
            keyword, values = column[0][0], [number for _, number in column]
            tells = {call.channels.get(keyword) for call in calls}
            if len(set(map(repr, values))) > 1 and (len(tells) > 1 or None in tells):
                values = [self._numbers.parameter(keyword, values)] * len(values)
            for of_call, number in zip(numbers, values, strict=True):
                of_call.append((keyword, number))
        return [
            dataclasses.replace(call, tensors=given, numbers=tuple(pairs))
            for call, given, pairs in zip(calls, tensors, numbers, strict=True)
        ]
