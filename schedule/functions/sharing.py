"""What the user wrote once and calls several times: a function of model.py, called for each of the modules.

alike_calls.py says which modules may do the same, alike_steps.py which do, up to sizes, and inner_names.py what the
function calls everything. That is a function if whatever says one module's sizes says the others', too: calls take
their place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from longhand.lower.ir import Buffer
from longhand.schedule.functions.alike_calls import CallsAlike, CallSite, ModuleCalls
from longhand.schedule.functions.alike_numbers import told_by_channels
from longhand.schedule.functions.alike_steps import alike_steps
from longhand.schedule.functions.call_records import (
    CallRecord,
    SharedCall,
    class_of_record,
    records_inside,
    variable_of_record,
)
from longhand.schedule.functions.inner_names import (
    FunctionNames,
    variables_of,
    words_for_module,
)
from longhand.schedule.functions.one_function import OneFunction, size_told
from longhand.schedule.functions.repeated_launches import (
    LaunchWords,
    words_for_holder,
    words_of_launch,
)
from longhand.schedule.functions.sites import FunctionBody, FunctionCandidate, FunctionSites, ModuleSteps
from longhand.schedule.functions.sizes.size_proof import are_given_the_same
from longhand.schedule.functions.sizes.size_symbols import with_size_symbols
from longhand.schedule.functions.sizes.told_sizes import WordsOf, with_told_sizes
from longhand.schedule.layers.written_functions import WrittenFunction, as_one
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.words import OWN_WORDS

MOST_OF_PART = 6  # parameters of a function that is called once
MOST_TRIES = 40
MOST_NUMBERS = 3
MOST_ASKED = 2  # of them, sizes that no tensor of several tells
# What a shared function calls, or may: runtime.py's conv2d is not the module that such a function is given.
NO_MODULE = ""  # what a function calls the module where it is given none
_CALLED = OWN_WORDS - {"block", "layer"}


# The function as it is written for each of the modules, one after the other.
WriteFunctions = Callable[[FunctionCandidate], Iterator[WrittenFunction]]


def _as_read(one: OneFunction) -> tuple[int, int, int]:
    """What is called once comes last, and in the order of the calls."""
    site, *others = one.alike.sites
    return (0, 0, 0) if others else (1, site.body, site.start)


def _paths_of_modules(words: BufferNamer) -> frozenset[str]:
    """Those in which anything is computed."""
    return frozenset(path for node in words.nodes for path, _ in words.provenance(node).around)


class FunctionSharing:
    """Finds the functions.

    Args:
        bodies: The functions of model.py.
        sites: What the steps of their modules take, make and drop; knows `calls`.
        words: The captured graph's.
        kernels: The words of kernels, by the plan's key.
        calls: What is a call already, by the first step of each: more are added.
        write: Writes a function down for each of its modules, which are one if it is the same for all.
        buffers: The plan's, by name.
        words_of: Words for the dimensions of a buffer.
        launches: What launches may be functions, but for those in a call of something else already.
    """

    def __init__(
        self,
        bodies: Sequence[FunctionBody],
        sites: FunctionSites,
        words: BufferNamer,
        kernels: Mapping[str, LaunchWords],
        calls: dict[int, SharedCall],
        write: WriteFunctions,
        buffers: Mapping[str, Buffer],
        words_of: WordsOf,
        launches: Callable[[Collection[CallSite]], list[CallsAlike]],
    ) -> None:
        self._of_launches = launches
        self._bodies = bodies
        self._sites = sites
        self._form = sites.form
        self._words = words
        self._words_of_kernels = kernels
        self._names = FunctionNames(kernels, sites.form.ending)
        self._calls = calls
        self._write = write
        self._buffers = buffers
        self._words_of = words_of
        self._used: set[str] = set()
        self._paths = _paths_of_modules(words)
        self.functions: list[OneFunction] = []

    def find(self, names: Sequence[str]) -> None:
        """Fills `functions`, and the calls, which are by the first step of each.

        Args:
            names: Those that no function may have.
        """
        module_calls = ModuleCalls(
            [body.steps for body in self._bodies],
            self._words,
            [body.root for body in self._bodies],
            is_backward=not self._form.takes_module,
        )
        bodies = enumerate(self._bodies)
        taken = {CallSite(number, place, place, "") for number, body in bodies for place in body.fixed}
        refused: set[tuple[CallSite, ...]] = set()
        # In any function of the file a variable of that name would hide it.
        used = {*names, *OWN_WORDS, *(word for body in self._bodies for word in body.variables.values())}
        self._used = used
        # Parts of a derivative that are called once are found in what is left (derivatives.py).
        parts = (module_calls.parts,) if self._form.takes_module else ()
        for candidates in (self._of_launches, module_calls.candidates, *parts):
            for _ in range(MOST_TRIES):
                left = (one for one in candidates(taken) if one.sites not in refused)
                best = next(left, None)
                if best is None:
                    break
                refused.add(best.sites)
                taken.update(self._share(best, used))
        self.functions.sort(key=_as_read)

    def _share(self, alike: CallsAlike, used: set[str]) -> tuple[CallSite, ...]:
        """Makes modules of one class one function, if they are; or those that do what the first one does."""
        self._sites.forget()
        functions = {*(function.name for function in self.functions), *_CALLED}
        of_site = words_for_holder(alike.class_name, [site.path for site in alike.sites])
        wanted = of_site if alike.is_launch else words_for_module(alike)
        words = (one for one in wanted if one not in functions)
        free = (one for one in words if all(self._sites.is_free(one, site) for site in alike.sites))
        word = next(free) if self._form.takes_module else NO_MODULE
        one = self._as_before(alike) or self._largest(alike, word)
        if one is None:
            return ()
        word = one.candidate.module or NO_MODULE
        sites, steps = one.candidate.sites, one.candidate.alike.sites
        name = self._named(one, word, used)
        used |= {name, word} - {NO_MODULE}
        each = [self._sites.steps_of(site, word) for site in sites]
        for place, (site, told) in enumerate(zip(sites, each, strict=True)):
            assert told is not None
            given = [column[place] for column in one.candidate.alike.inputs]
            call = SharedCall(
                site.stop - site.start,
                name,
                site.path if self._form.takes_module else "",
                tuple(steps[place].aliases.get(buffer, buffer) for buffer in given),
                one.numbers[place],
                steps[place].results,
                told.dropped,
                told.made,
                told_by_channels(one.numbers[place], steps[place].steps, given),
                record=self._record(name, one.candidate, place, used),
                inner=records_inside(steps[place].calls.values(), site.path),
                is_launch=alike.is_launch,
            )
            self._forget_records(site)
            self._calls[id(self._bodies[site.body].steps[site.start])] = call
        return sites

    def _forget_records(self, site: CallSite) -> None:
        """Of calls inside a function: it keeps what they hold."""
        for step in self._bodies[site.body].steps[site.start : site.stop]:
            if (call := self._calls.get(id(step))) is not None:
                self._calls[id(step)] = dataclasses.replace(call, record=None, inner=())

    def _record(self, name: str, called: FunctionCandidate, place: int, used: set[str]) -> CallRecord | None:
        """What a call of a function keeps for a backward pass."""
        if not called.record:
            return None
        site = called.sites[place]
        written = next(one.candidate for one in self.functions if one.name == name)
        variable = variable_of_record(site.path.removeprefix(f"{site.root}."), used, self._paths)
        used |= {variable, written.record}
        records = (
            (field, of) for (field, _), (_, of) in zip(written.records(0), called.records(place), strict=True)
        )
        saved = tuple(called.kept(place))
        return CallRecord(
            variable, site.path, written.record, written.fields, saved, site.root, tuple(records)
        )

    def _as_before(self, alike: CallsAlike) -> OneFunction | None:
        """Modules of a class that do what an earlier function does: with that one's word for the module."""
        for known in self.functions if self._form.takes_module else ():
            word = known.candidate.module
            if known.alike.class_name != alike.class_name:
                continue
            if all(self._sites.is_free(word, site) for site in alike.sites):
                one = self._largest(alike, word)
                if one is not None and self._is_same(known, one):
                    return one
        return None

    def _named(self, one: OneFunction, word: str, used: set[str]) -> str:
        """The name of the function, which is a new one if no earlier one does the same."""
        for place, known in enumerate(self.functions):
            if known.alike.class_name == one.alike.class_name and self._is_same(known, one):
                also = (*known.also, one.candidate)
                both = known.alike.and_also(one.alike)
                self.functions[place] = dataclasses.replace(known, alike=both, also=also)
                return known.name
        name = self._names.of(one.alike, one.candidate.alike.sites[0], word, {*used, word})
        self.functions.append(dataclasses.replace(one, name=name))
        return name

    def _is_same(self, known: OneFunction, one: OneFunction) -> bool:
        """Whether an earlier function does for other modules what it does for its own."""
        of_known, of_one = known.candidate, one.candidate
        if of_known.alike.symbols or of_one.alike.symbols:
            return False
        sites = [of_known.alike.sites[0], of_one.alike.sites[0]]
        alike = alike_steps(sites, self._words, of_known.around[0])
        # A number in which they differ would be a parameter that the earlier function has not.
        if alike is None or alike.numbers:
            return False
        if [column[0] for column in alike.inputs] != [column[0] for column in of_known.alike.inputs]:
            return False
        if [column[1] for column in alike.inputs] != [column[0] for column in of_one.alike.inputs]:
            return False
        if not (known.says_the_sizes_of(one) and are_given_the_same(*sites)):
            return False
        both = dataclasses.replace(
            of_known,
            alike=alike,
            sites=(of_known.sites[0], of_one.sites[0]),
            around=(of_known.around[0], of_one.around[0]),
        )
        return of_known.reads_shapes == of_one.reads_shapes and as_one(self._write(both)) is not None

    def _largest(self, alike: CallsAlike, word: str) -> OneFunction | None:
        """Modules of a class that are one function: all of them, or else those that do what one of them does."""
        if len(alike.sites) == 1:
            one = self._as_one(alike, word, reads_shapes=False)
            # A record that holds others is more to read, and pays for several calls.
            is_plain = one is None or not one.candidate.holds_records
            return one if one is not None and is_plain and one.n_parameters <= MOST_OF_PART else None
        one = self._of_all(alike, word)
        # Of launches, what modules do alike would differ by it.
        if one is not None or len(alike.sites) == 2 or alike.is_launch:
            return one
        for place, first in enumerate(alike.sites):
            same = (
                other
                for other in alike.sites[place + 1 :]
                if self._of_all(dataclasses.replace(alike, sites=(first, other)), word) is not None
            )
            group = dataclasses.replace(alike, sites=(first, *same))
            one = self._of_all(group, word) if len(group.sites) > 1 and group.is_worth else None
            if one is not None:
                return one
        return None

    def _of_all(self, alike: CallsAlike, word: str) -> OneFunction | None:
        """The one function that modules are: of one size, or that reads all sizes from tensors."""
        stated = self._as_one(alike, word, reads_shapes=False)
        if stated is not None and not any(stated.numbers):
            return stated
        read = self._as_one(alike, word, reads_shapes=True)
        told = [one for one in (stated, read) if one is not None]
        # Derivatives that are given much, tensor by tensor, read worse than parts that are given records.
        may_have_symbols = self._form.takes_module and alike.is_nearly_whole
        if may_have_symbols and (not told or all(any(one.numbers) for one in told)):
            told += filter(None, [self._as_one(alike, word, reads_shapes=False, has_symbols=True)])
        return min(told, key=lambda one: one.n_parameters, default=None)

    def _as_one(
        self, alike: CallsAlike, word: str, reads_shapes: bool, has_symbols: bool = False
    ) -> OneFunction | None:
        """The one function that modules are, with the words of the first one; None if they are none."""
        each = [self._sites.steps_of(site, word) for site in alike.sites]
        sites = [one for one in each if one is not None]
        if len(sites) < len(each):
            return None
        candidate = self._candidate(alike, word, sites, reads_shapes, has_symbols)
        methods = as_one(self._write(candidate), candidate.asked) if candidate is not None else None
        return self._with_sizes(alike, candidate, methods) if candidate is not None and methods else None

    def _with_sizes(
        self, alike: CallsAlike, candidate: FunctionCandidate, methods: Sequence[WrittenFunction]
    ) -> OneFunction | None:
        """The function; sizes that differ from module to module, and that nothing at hand tells, become parameters."""
        stated, needed = [method.stated for method in methods], methods[0].needed
        asked = {one.word: one.sizes for one in candidate.alike.symbols if one.word in needed}
        told: dict[str, int | str | None] = {}
        for word in stated[0]:
            told[word] = size_told(
                candidate, word, [one[word] for one in stated], told.values(), self._buffers, self._words_of
            )
        numbers = tuple(
            (
                *((word, values[place]) for word, values in candidate.alike.numbers),
                *((word, size) for word, size in one.items() if told[word] is None),
                *((word, asked[word][place]) for word in needed),
            )
            for place, one in enumerate(stated)
        )
        known = {word: size for word, size in told.items() if size is not None}
        parameters = tuple(one for one in methods[0].parameters if one not in needed)
        function = OneFunction(candidate, parameters, numbers, known, alike)
        is_short = len(numbers[0]) <= MOST_NUMBERS and len(needed) <= MOST_ASKED
        is_short = is_short and all(one.is_named for one in candidate.alike.symbols if one.word in needed)
        is_short = is_short and self._sites.are_few(candidate.alike, len(numbers[0]))
        return function if is_short else None

    def _candidate(
        self,
        alike: CallsAlike,
        word: str,
        sites: Sequence[ModuleSteps],
        reads_shapes: bool,
        has_symbols: bool,
    ) -> FunctionCandidate | None:
        """What modules do alike, in the first one's words; None where these do not go together."""
        shared = alike_steps([one.steps for one in sites], self._words, sites[0].variables)
        if shared is None or not self._sites.are_few(shared, len(shared.numbers)):
            return None
        around = tuple(one.variables for one in sites)
        words = (
            words_of_launch(shared.sites[0], self._words_of_kernels)
            if alike.is_launch
            else variables_of(shared, around, self._words, word, [site.path for site in alike.sites])
        )
        told = [
            *([word] if self._form.takes_module else ()),
            *(number for number, _ in shared.numbers),
            *(words[column[0]] for column in shared.inputs),
        ]
        given = {column[0] for column in shared.inputs}
        locals_of_it = {one for name, one in words.items() if name not in given}
        n_first = len(told) - len(shared.inputs)
        if len(set(told)) < len(told) or not locals_of_it.isdisjoint(told[:n_first]):
            return None
        variables = (name for one in (*around, words) for name in one.values())
        taken = {*variables, *told, *OWN_WORDS}
        if has_symbols:
            in_symbols = with_size_symbols(shared, self._buffers, self._words_of, words, taken)
            if in_symbols is None:
                return None
            shared = in_symbols
        else:
            shared = with_told_sizes(shared, self._buffers, self._words_of, words, taken)
        record = (
            class_of_record(alike.class_name, alike.sites[0].path, self._used)
            if shared.sites[0].saved
            else ""
        )
        return FunctionCandidate(shared, alike.sites, around, words, word, reads_shapes, record)
