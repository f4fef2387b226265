"""The user's modules that are called side by side: where in the functions of model.py each does the same steps.

Layers of a list are found in the plan (schedule/layers/repeats.py). What else is written once and called several times,
an attention of which a layer has two, a head for each of three alphabets, is found here, by the class that the user
wrote: the steps of each of its modules that stand together and are nobody else's. A kernel that a module shares with
what stands before or behind it is left out. Whether their steps are the same `alike_steps` tells.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

import torch

from longhand.lower.ir import Extern
from longhand.schedule.functions.computed_again import modules_of_readers
from longhand.schedule.layers.model_steps import ModelStep, plain_steps
from longhand.schedule.layers.outside import made_inside, references
from longhand.schedule.modules.done_parts import DoneSteps
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.plan import Allocate, Launch, PlanStep, Release, Repeat, Reuse

FEWEST_CALLS = 2  # launches and library calls that are worth a function, if it is called often
FEWEST_LAUNCHES = 3  # of one kernel, in a function of its own
_FEWEST_OF_FEW = 3  # of those that are called two or three times
_OFTEN = 4
FEWEST_OF_PART = 5  # calls of a module that is a function though it is called once
_MOST_OF_PART = 40
_SHARE = 0.5  # of what a module does: less has not its name
_SHARE_OF_PART = 0.3  # its docstring says that it is a part
NEARLY_WHOLE = 0.85  # of a block whose last call is fused with what stands behind the last of them
_LONG = 30  # calls of a function that is told in parts
FEWEST_SAVED = 4  # of them that are not written out again
_FEWEST_SAVED_OF_WHOLE = 3  # where the function is all that the user's does
_OFTEN_A_PART = 8  # modules that do a part alike, though it is less than half of what each does
_MOST_TRIMMED = 2  # calls at either end that one module does otherwise
_PLAIN = Launch | Extern | Allocate | Reuse | Release


@dataclasses.dataclass(frozen=True)
class CallSite:
    """One module's steps.

    Attributes:
        body: The function of model.py that they stand in, by number.
        start: The first step.
        stop: The one after the last.
        path: The module's.
        root: The path of the layer, one of many, whose method that function is; empty for the model.
    """

    body: int
    start: int
    stop: int
    path: str
    root: str = ""

    def goes_with(self, other: CallSite) -> bool:
        """Whether the other is somewhere else, or a part of this one."""
        is_apart = self.body != other.body or self.stop <= other.start or other.stop <= self.start
        is_part = self.start <= other.start and other.stop <= self.stop
        is_less = other.stop - other.start < self.stop - self.start
        is_within = other.path.startswith(f"{self.path}.") or (is_less and other.path == self.path)
        return is_apart or (is_part and is_within)


@dataclasses.dataclass(frozen=True)
class CallsAlike:
    """Modules of one class that may do the same.

    Attributes:
        class_name: The user's.
        sites: In order.
        n_calls: Launches and library calls of each.
        share: How many these are of all in which the module takes part, of the module of which they are fewest.
        is_whole: Whether nothing that the modules do is done elsewhere alone: what is done there, too, is not missing.
        is_launch: Whether each is launches of kernels with what one module holds: the class is the last kernel then.
    """

    class_name: str
    sites: tuple[CallSite, ...]
    n_calls: int
    share: float
    is_whole: bool
    is_launch: bool = False

    def and_also(self, other: CallsAlike) -> CallsAlike:
        """The modules of both."""
        return dataclasses.replace(
            self,
            sites=(*self.sites, *other.sites),
            share=min(self.share, other.share),
            is_whole=self.is_whole and other.is_whole,
        )

    @property
    def depth(self) -> int:
        """How deep in the model the deepest of the modules lies."""
        return max(site.path.count(".") for site in self.sites)

    @property
    def n_saved(self) -> int:
        """How many calls are not written out again."""
        return (len(self.sites) - 1) * self.n_calls

    @property
    def is_often(self) -> bool:
        """Whether it is much that many modules do alike, however much else each of them does."""
        return len(self.sites) >= _OFTEN_A_PART and self.n_calls >= FEWEST_OF_PART

    @property
    def is_nearly_whole(self) -> bool:
        """Whether little of its modules is left to be told around each call, or it is much all the same."""
        return self.share >= NEARLY_WHOLE or self.is_often

    @property
    def is_worth(self) -> bool:
        """Whether a function tells it shorter."""
        fewest = FEWEST_SAVED if self.share < 1 else _FEWEST_SAVED_OF_WHOLE
        return self.n_saved >= fewest and (len(self.sites) >= _OFTEN or self.n_calls >= _FEWEST_OF_FEW)


@dataclasses.dataclass(frozen=True)
class _Calls:
    """The launches and library calls of a module that stand together: their places, and what each does."""

    body: int
    path: str
    places: tuple[int, ...]
    tokens: tuple[object, ...]


class ModuleCalls:
    """The calls of the user's modules.

    Args:
        bodies: The steps of each function of model.py.
        words: The captured graph's.
        roots: For each function the path of the module that it is a method of.
        is_backward: Whether they are of a backward pass, which computes some values again.
    """

    def __init__(
        self,
        bodies: Sequence[Sequence[ModelStep]],
        words: BufferNamer,
        roots: Sequence[str],
        *,
        is_backward: bool = False,
    ) -> None:
        self._bodies = bodies
        self._roots = roots
        self._words = words
        self._is_backward = is_backward
        self._kinds: dict[str, str] = {}  # by path: the class of each module that does something
        for node in words.nodes if is_backward else ():
            self._kinds |= words.provenance(node).around
        self._done = DoneSteps([step for steps in bodies for step in steps], words, is_backward=is_backward)
        self._by_class: dict[str, list[_Calls]] = defaultdict(list)
        self._n_touched = Counter(
            path for steps in bodies for step in steps for path in modules_touched(step, words)
        )
        for number, (steps, root) in enumerate(zip(bodies, roots, strict=True)):
            self._collect(number, steps, root)

    def candidates(self, taken: Collection[CallSite]) -> list[CallsAlike]:
        """What modules of one class may have in common: the innermost first, whole ones, then what saves most.

        Args:
            taken: What is a call of something else already; it may stand inside of another call.
        """
        alike: list[CallsAlike] = []
        for class_name, calls in self._by_class.items():
            alike += self._alike(class_name, calls, taken)
        worth = [one for one in alike if one.is_worth and (one.share >= _SHARE or one.is_often)]
        if self._is_backward:
            worth = [one for one in worth if not self._are_layers(one)]
        return sorted(worth, key=_by_worth)

    def _are_layers(self, alike: CallsAlike) -> bool:
        """Whether all modules are layers of lists: what these have in common has functions already."""
        return all(self._is_layer(site.path, alike.class_name) for site in alike.sites)

    def _is_layer(self, path: str, class_name: str) -> bool:
        owner, _, position = path.rpartition(".")
        beside = (kind for other, kind in self._kinds.items() if other.rpartition(".")[0] == owner)
        return position.isdigit() and sum(kind == class_name for kind in beside) > 1

    def parts(self, taken: Collection[CallSite]) -> list[CallsAlike]:
        """Modules that are a good part of a long function: it reads better as calls of them. The largest first."""
        parts = []
        for class_name, calls in self._by_class.items():
            for one in calls if not hasattr(torch.nn, class_name) else ():
                n_around = sum(isinstance(step, Launch | Extern) for step in self._bodies[one.body])
                site = self._site(one, one.places[0], one.places[-1])
                is_part = FEWEST_OF_PART <= len(one.places) <= min(_MOST_OF_PART, n_around // 2)
                if site is not None and n_around > _LONG and is_part and all(map(site.goes_with, taken)):
                    parts.append(self._of_class(class_name, (site,), len(one.places)))
        parts = [one for one in parts if one.share >= _SHARE_OF_PART]
        return sorted(parts, key=lambda one: (-one.n_calls, one.sites[0].body, one.sites[0].start))

    def _collect(self, number: int, steps: Sequence[ModelStep], root: str) -> None:
        """The stretches of calls that stand in one module each, by the class of the module."""
        inside = [self._modules_of(step, root) for step in steps]
        if self._is_backward:
            words = self._words
            for place, reading in modules_of_readers(steps, words, modules_around).items():
                inside[place] = {**(inside[place] or {}), **reading}
        paths = {path: kind for modules in inside for path, kind in (modules or {}).items()}
        for path, kind in paths.items():
            places: list[int] = []
            for place, modules in enumerate([*inside, {}]):
                if modules is None:  # memory, which belongs to the calls around it
                    continue
                if path in modules:
                    places.append(place)
                elif places:
                    self._add(number, path, kind, places, steps)
                    places = []

    def _add(
        self, number: int, path: str, kind: str, places: Sequence[int], steps: Sequence[ModelStep]
    ) -> None:
        if len(places) >= FEWEST_CALLS:
            tokens = tuple(call_token(steps[place]) for place in places)
            self._by_class[kind].append(_Calls(number, path, tuple(places), tokens))

    def _modules_of(self, step: ModelStep, root: str) -> dict[str, str] | None:
        """The modules below `root` that all operations of a call stand in, and their classes; None for memory."""
        if not isinstance(step, Launch | Extern):
            return None if isinstance(step, Allocate | Reuse | Release) else {}
        head = f"{root}." if root else ""
        inside = modules_around(step, self._words)
        return {path: kind for path, kind in inside.items() if path.startswith(head) and path != root}

    def _alike(
        self, class_name: str, calls: Sequence[_Calls], taken: Collection[CallSite]
    ) -> Iterator[CallsAlike]:
        """The groups of equal calls, whole ones and those without what one of them does otherwise at an end."""
        if hasattr(torch.nn, class_name):
            return
        groups: dict[tuple[object, ...], list[tuple[_Calls, int, int]]] = defaultdict(list)
        for one in calls:
            n_calls = len(one.tokens)
            for start in range(min(_MOST_TRIMMED, n_calls - FEWEST_CALLS) + 1):
                for stop in range(max(n_calls - _MOST_TRIMMED, start + FEWEST_CALLS), n_calls + 1):
                    groups[one.tokens[start:stop]].append((one, start, stop))
        for tokens, members in groups.items():
            sites = tuple(
                site
                for one, start, stop in members
                if (site := self._site(one, one.places[start], one.places[stop - 1])) is not None
                and all(map(site.goes_with, taken))
            )
            if len(sites) > 1 and not _overlap(sites):
                yield self._of_class(class_name, sites, len(tokens))

    def _of_class(self, class_name: str, sites: tuple[CallSite, ...], n_calls: int) -> CallsAlike:
        share = min(n_calls / max(self._n_touched[site.path], n_calls) for site in sites)
        return CallsAlike(class_name, sites, n_calls, share, all(map(self._is_whole, sites)))

    def _is_whole(self, site: CallSite) -> bool:
        """Whether calls do all that is done of a module."""
        return self._done.is_whole(site.path, self._bodies[site.body][site.start : site.stop])

    def _site(self, calls: _Calls, first: int, last: int) -> CallSite | None:
        """The calls with the memory that is made for them; None if they are no function by themselves."""
        site = CallSite(calls.body, first, last + 1, calls.path, self._roots[calls.body])
        return call_site(site, self._bodies[calls.body])


def call_site(calls: CallSite, steps: Sequence[ModelStep]) -> CallSite | None:
    """Calls with the memory that is made for them; None if they are no function by themselves.

    Args:
        calls: From the first to the last of them.
        steps: Of the function that they stand in.
    """
    start, stop = calls.start, calls.stop
    while start > 0 and isinstance(steps[start - 1], Allocate | Reuse):
        start -= 1
    while stop < len(steps) and isinstance(steps[stop], Release):
        stop += 1
    inside = [step for step in steps[start:stop] if isinstance(step, _PLAIN)]
    if len(inside) < stop - start:
        return None
    touched = {name for step in inside if isinstance(step, Launch | Extern) for name in references(step)}
    is_filled = all(step.buffer in touched for step in inside if isinstance(step, Allocate | Reuse))
    return dataclasses.replace(calls, start=start, stop=stop) if is_filled else None


def _by_worth(alike: CallsAlike) -> tuple[int | bool, ...]:
    # Of its module: what is left of it is told around each call.
    return (-alike.depth, not alike.is_nearly_whole, -alike.n_saved, -alike.n_calls, alike.sites[0].body)


def has_modules_alike(steps: Sequence[ModelStep], words: BufferNamer) -> bool:
    """Whether any two modules of one class of the user's take part in some steps, or a kernel is launched often."""
    paths: dict[str, set[str]] = defaultdict(set)
    kernels = Counter[str]()
    for plain in (inner for step in steps for inner in plain_steps(step)):
        for step in (inner for run in plain.runs for inner in run) if isinstance(plain, Repeat) else (plain,):
            kernels.update([step.kernel] if isinstance(step, Launch) else ())
            for path, kind in modules_around(step, words).items():
                paths[kind].add(path)
    is_often = any(count >= FEWEST_LAUNCHES for count in kernels.values())
    return is_often or any(len(of) > 1 and not hasattr(torch.nn, kind) for kind, of in paths.items())


def modules_around(step: PlanStep, words: BufferNamer) -> dict[str, str]:
    """The modules that all operations of a call stand in, and their classes."""
    if not isinstance(step, Launch | Extern):
        return {}
    common: dict[str, str] | None = None
    for origin in step.origins if isinstance(step, Launch) else (step.origin,):
        around = dict(words.provenance(origin).around) if origin else {}
        common = around if common is None else {p: c for p, c in common.items() if p in around}
    return common or {}


def modules_touched(step: ModelStep, words: BufferNamer) -> set[str]:
    """The modules that any operation of a call stands in."""
    if not isinstance(step, Launch | Extern):
        return set()
    origins = step.origins if isinstance(step, Launch) else (step.origin,)
    return {path for origin in origins if origin for path, _ in words.provenance(origin).around}


def plain_sites(steps: Sequence[ModelStep], site: CallSite) -> list[PlanStep]:
    """The steps of a site."""
    return [step for step in steps[site.start : site.stop] if isinstance(step, _PLAIN)]


def made_in(steps: Sequence[PlanStep]) -> frozenset[str]:
    """The buffers that begin in some steps."""
    return frozenset(made_inside(steps))


def _overlap(sites: Sequence[CallSite]) -> bool:
    places = [(site.body, place) for site in sites for place in range(site.start, site.stop)]
    return len(set(places)) < len(places)


def call_token(step: ModelStep) -> object:
    """What a call does, whatever the sizes."""
    if isinstance(step, Launch):
        return step.kernel
    assert isinstance(step, Extern)
    return str(step.target), len(step.outputs), len(step.mutates)
