"""The calls of a kernel, and what all of them call alike: a word that only some of them have would lie in the others.

A kernel that rotates queries and keys has no ``query_states``; what has a word in every call keeps it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Protocol

import torch
from torch import fx

from longhand.capture.graph import GradientPart, Provenance
from longhand.lower.ir import Buffer
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.dimensions.dimension_names import DimNamer
from longhand.schedule.names.operation_names import ATTENTION, aten_name, op_word
from longhand.schedule.names.result_names import STATISTIC_WORDS
from longhand.schedule.names.words import GradientWord, undifferentiated, without_counter
from longhand.schedule.plan import Launch

_FOR_ANOTHER_LAYER = ("next_", "previous_")  # whose a value is where layers hand it on


class GivenVariables(Protocol):
    """What stands in the calls of kernels."""

    def given(self, launch: Launch, place: int) -> str:
        """What stands at a place of a call; empty where that is no variable."""


@dataclasses.dataclass(frozen=True, eq=False)
class Caller:
    """One call of a kernel.

    Attributes:
        launch: The call.
        words: The words of the graph whose pass it stands in.
        buffers: The buffers of that pass.
        dims: The words of their dimensions, if there are any.
        variables: What stands in calls, if variables have names yet.
        by_library: Operations of that pass which library calls do: a kernel before them but brings rows in order.
    """

    launch: Launch
    words: BufferNamer
    buffers: Mapping[str, Buffer]
    dims: DimNamer | None = None
    variables: GivenVariables | None = None
    by_library: frozenset[str] = frozenset()

    @property
    def nodes(self) -> list[fx.Node]:
        """What the call computes, in order."""
        nodes = [self.words.nodes[name] for name in self.launch.origins if name in self.words.nodes]
        own = [one for one in nodes if one.name not in self.by_library or op_word(one).word != ATTENTION]
        own = own or nodes
        return [one for one in own if not counts_places(one)] or own

    def path_of(self, place: int) -> str:
        """The path of a weight that it passes, or of what it passes the gradient of; of another value its module's."""
        buffer, words = self.launch.buffers[place], self.words
        entry = words.inputs.get(buffer)
        held = entry.target if entry is not None and not entry.is_given else ""
        return words.paths.get(buffer) or words.weights.get(buffer) or held or words.module_of(buffer)

    @functools.cached_property
    def sources(self) -> tuple[Provenance, ...]:
        """Where what it computes came from."""
        return tuple(self.words.provenance(name) for name in self.launch.origins)

    @functools.cached_property
    def locals(self) -> frozenset[str]:
        """The user's variables for what it computes."""
        return frozenset(without_counter(one.local) for one in self.sources if one.local)

    @functools.cached_property
    def modules(self) -> frozenset[str]:
        """The modules that it is part of, without their places in lists, and their classes."""
        parts = (part for one in self.sources for part in one.module.split(".") if not part.isdigit())
        return frozenset(parts) | {one.module_class for one in self.sources}


_TAKES = frozenset({"index", "gather", "index_select", "embedding"})  # elements, from places that are given


def counts_places(node: fx.Node) -> bool:
    """Whether a node only counts from where elements are taken, ``start + arange(n)``: nobody's sum, nor product."""
    return _is_counted(node) and bool(_readers(node)) and all(map(_takes_from, _readers(node)))


def _is_counted(node: object) -> bool:
    """Whether a value is a whole number made of positions alone."""
    if not isinstance(node, fx.Node):
        return True
    value = node.meta.get("val")
    is_whole = isinstance(value, torch.Tensor) and not value.dtype.is_floating_point
    if node.op != "call_function" or not is_whole or value.dtype is torch.bool:  # type: ignore[union-attr]
        return False
    return aten_name(node) == "arange" or (
        bool(node.all_input_nodes) and all(map(_is_counted, node.all_input_nodes))
    )


def _readers(node: fx.Node) -> list[tuple[fx.Node, fx.Node]]:
    """What reads a value that is no counting itself, or a view of one, each with what it is given of that."""
    found: list[tuple[fx.Node, fx.Node]] = []
    for user in node.users:
        found += _readers(user) if _is_counted(user) else [(user, node)]
    return found


def _takes_from(reader: tuple[fx.Node, fx.Node]) -> bool:
    user, given = reader
    return aten_name(user) in _TAKES and user.args[0] is not given


@dataclasses.dataclass(frozen=True, eq=False)
class Callers:
    """All calls of a kernel, in order: never none."""

    every: tuple[Caller, ...]

    @property
    def first(self) -> Caller:
        """The call from which the kernel was planned, or one like it."""
        return self.every[0]

    @functools.cached_property
    def told_apart(self) -> tuple[Caller, ...]:
        """Those that may differ in their words: the first, and of those from equal statements one."""
        distinct: dict[object, Caller] = {}
        for caller in self.every:
            # What a function returns is called otherwise at each of its calls: Rh, Rw.
            of_user = caller.modules, caller.locals
            distinct.setdefault((*of_user, *map(_without_place, caller.sources)), caller)
        return tuple(distinct.values())

    def candidates(self, place: int) -> list[str]:
        """The words for what they pass at a place, best first; empty where they share none.

        Where all of them pass a variable of one name, that is the word, or the best one, if the variable ends in it.
        """
        shared = self._shared(place)
        given = {one.variables.given(one.launch, place) if one.variables else "" for one in self.every}
        if "" in given or any(one.launch.buffers[place] in one.words.held for one in self.every):
            return shared  # a weight is what it is to its module
        ends = [word for word in shared if all(ends_in(variable, word) for variable in given)]
        is_one = len(given) == 1 and not undifferentiated(min(given)).startswith(_FOR_ANOTHER_LAYER)
        whole = [*given] if is_one else []
        is_whole_best = shared[:1] != ends[:1] and {*whole} <= {*shared}
        own = [*whole, *ends[:1]] if is_whole_best else [*ends[:1], *whole]
        return list(dict.fromkeys([*own, *shared]))

    def is_exact(self, place: int) -> bool:
        """Whether all of them pass a variable that has the best word itself."""
        best = self.candidates(place)[:1]
        given = {one.variables.given(one.launch, place) for one in self.every if one.variables is not None}
        return [*given] == best

    def _shared(self, place: int) -> list[str]:
        """The words that all of them have for what they pass at a place, best first; empty where they share none.

        What only says by which operation something is made is no word that they share, unless it is the best of each.
        Statistics are that, whose they are: ``mean`` of bn1_mean and shortcut_mean.
        """
        lists: dict[tuple[int, str], list[str]] = {}
        for caller in self.every:
            buffer = caller.launch.buffers[place]
            key = (id(caller.words), buffer)
            if key not in lists:
                lists[key] = list(dict.fromkeys(caller.words.candidates(buffer)))
        word_lists = list(lists.values())
        if len(word_lists) == 1:
            return word_lists[0]
        shared = [word for word in word_lists[0] if all(word in other for other in word_lists[1:])]
        modules = frozenset[str]().union(*(one.modules for one in self.every))
        shared = [word for word in shared if word not in modules]  # what is made there is no module
        best = {words[0] for words in word_lists}
        fillers = {word for one in self.every for word in one.words.fillers(one.launch.buffers[place])}
        nouns = {word.rpartition("_")[2] for word in best}
        of_statistics = nouns if len(nouns) == 1 and nouns <= STATISTIC_WORDS else ()
        return [*(word for word in shared if {word} == best or word not in fillers), *of_statistics]

    def are_gradients(self, place: int) -> bool:
        """Whether what they pass at a place is the gradient of something in all of them."""
        passed = ((one, one.launch.buffers[place]) for one in self.every)
        return all(isinstance(next(one.words.candidates(buffer)), GradientWord) for one, buffer in passed)

    def paths(self, place: int) -> frozenset[str]:
        """The paths of the modules that make, or hold, what they pass at a place."""
        return frozenset(one.path_of(place) for one in self.every)

    def trained(self, place: int) -> str:
        """What modules call the parameters whose gradients all of them pass at a place: ``bias``; else nothing."""
        paths = [one.words.weights.get(one.launch.buffers[place], "") for one in self.every]
        leaves = {path.rpartition(".")[2] for path in paths}
        return leaves.pop() if len(leaves) == 1 else ""

    @functools.cached_property
    def are_derivatives(self) -> bool:
        """Whether all that any of them computes is on the way to a gradient."""
        return all(source.differentiates for one in self.every for source in one.sources)

    def value_of_gradient(self, place: int) -> int | None:
        """The place of what all of them pass the gradient of at a place, if they pass both."""
        places = set[int | None]()
        for one in self.every:
            buffers = one.launch.buffers
            value = differentiated(one.words, buffers[place])
            places.add(buffers.index(value) if value in buffers else None)
        return places.pop() if len(places) == 1 else None

    def have_local(self, local: str) -> bool:
        """Whether all of them compute something that the user has a variable of this name for."""
        return all(without_counter(local) in caller.locals for caller in self.told_apart)

    def have_module(self, name: str) -> bool:
        """Whether all of them are part of a module, or a class of modules, of this name."""
        return all(name in caller.modules for caller in self.told_apart)


def ends_in(variable: str, word: str) -> bool:
    """Whether a variable is a word with its place before it: ``layer_0_query_states``, ``d_layer_0_query_states``."""
    if isinstance(variable, GradientWord) != isinstance(word, GradientWord):
        return False
    return f"_{undifferentiated(variable)}".endswith(f"_{undifferentiated(word)}")


def differentiated(words: BufferNamer, buffer: str) -> str:
    """What a buffer is the gradient of, or a copy of that gradient, if the backward pass is given it; or empty."""
    made = words.origins.derived(buffer)
    return words.differentiated.get(made.of if made is not None and made.how.is_layout else buffer, "")


class SharedNames:
    """The words that the values of a kernel may have: what the first call says where all the others do, too.

    Args:
        callers: The kernel's.
    """

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._first = callers.first.words

    @property
    def nodes(self) -> Mapping[str, fx.Node]:
        """The first call's graph."""
        return self._first.nodes

    def provenance(self, origin: str) -> Provenance:
        """Where a value came from; its variable and the module only if they are every call's."""
        provenance = self._first.provenance(origin)
        local = provenance.local if provenance.local and self._callers.have_local(provenance.local) else None
        module = ".".join(part for part in provenance.module.split(".") if self._callers.have_module(part))
        return dataclasses.replace(provenance, local=local, module=module)

    def summand(self, origin: str) -> str | None:
        """The word for a part of a gradient, ``d_x_from_q_proj``, if every call has it."""
        firsts = {
            next(one.words.candidates(name))
            for one in self._callers.told_apart
            for name in _summands(one) or [origin]
            if name in one.words.nodes
        }
        own = next(self._first.candidates(origin))
        return own if len(self._callers.told_apart) == 1 or firsts == {own} else None

    def gradient(self, origin: str) -> str | None:
        """``d_gated``, of a value that is a whole gradient, if the calls of the kernel are alike."""
        source = self._first.provenance(origin)
        if not source.gradient_of or source.part is not GradientPart.WHOLE:
            return None
        word = next(self._first.candidates(origin), None)
        is_one = len(self._callers.told_apart) == 1 and isinstance(word, GradientWord)
        return word if is_one else None

    def adds_bias(self, origin: str) -> bool:
        """Whether a value adds a vector that the module holds."""
        return self._first.adds_bias(origin)


def _without_place(source: Provenance) -> tuple[str, ...]:
    """What a source says beside which of a list's modules it stands in."""
    return source.qualname, source.statement, source.differentiated, source.part.value


def _summands(caller: Caller) -> list[str]:
    return [
        name
        for name, source in zip(caller.launch.origins, caller.sources, strict=True)
        if source.part is GradientPart.SUMMAND
    ]
