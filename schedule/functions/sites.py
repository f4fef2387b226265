"""The user's modules whose steps may be a function of model.py: what it takes, makes and drops, and may be called."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from longhand.capture.graph import CapturedGraph
from longhand.lower.ir import Extern
from longhand.schedule.functions.alike_calls import CallSite, made_in, plain_sites
from longhand.schedule.functions.alike_releases import own_steps
from longhand.schedule.functions.alike_steps import AlikeSteps, SiteSteps
from longhand.schedule.functions.call_records import CallRecord, SharedCall, with_own_records
from longhand.schedule.layers.model_steps import ModelStep, plain_steps
from longhand.schedule.layers.outside import references
from longhand.schedule.modules.held import Branch
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.reached import entry_of
from longhand.schedule.names.view_names import named_views, view_key
from longhand.schedule.names.words import identifier
from longhand.schedule.plan import Launch, PlanStep, Release, Reuse, UnitStep

_MOST_APART = 4  # results of a function that is given tensors of a record one by one
_MOST_OF_RECORD = 2  # such tensors, of one with more results

Reach = Callable[
    [str, str, str], str
]  # a module's path, a weight's below it, the module's word: ``attn.q_proj.weight``


@dataclasses.dataclass(frozen=True)
class FunctionForm:
    """What the functions of a pass are like.

    Attributes:
        takes_module: Whether they are given the module; or else its tensors, one by one.
        ending: Of their names.
        most_parameters: Beside the module.
        most_kept: Of them, what a forward pass keeps for it; 0 where there is none.
        most_results: What they hand back.
        most_saved: What they keep for a backward pass besides, as a record; 0 where they make none.
    """

    takes_module: bool
    ending: str
    most_parameters: int
    most_kept: int
    most_results: int
    most_saved: int = 0


FORWARD_FORM = FunctionForm(
    takes_module=True, ending="", most_parameters=8, most_kept=0, most_results=4, most_saved=40
)
# A list holds what the forward pass keeps for a module's derivative; a gradient for each of its weights is returned.
BACKWARD_FORM = FunctionForm(
    takes_module=False, ending="_backward", most_parameters=8, most_kept=40, most_results=24
)


@dataclasses.dataclass(frozen=True)
class FunctionBody:
    """One of model.py's functions, before it is printed.

    Attributes:
        steps: What it does.
        variables: The variable of each buffer inside it.
        root: The path of the module whose method it is; empty for the model.
        kept: Buffers that it returns, or that other functions read.
        fixed: Places of steps that are given numbers that differ from layer to layer.
        saved: Buffers that are kept for a backward pass, which may be reached by way of a record.
    """

    steps: Sequence[ModelStep]
    variables: Mapping[str, str]
    root: str = ""
    kept: frozenset[str] = frozenset()
    fixed: frozenset[int] = frozenset()
    saved: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class ModuleSteps:
    """A module's steps, before it is known what others do alike.

    Attributes:
        steps: They, and what they take and make.
        variables: Of the function around them, with the words of what the module holds and of others' tensors.
        dropped: What they drop of what they are given.
        made: What they make.
    """

    steps: SiteSteps
    variables: Mapping[str, str]
    dropped: tuple[str, ...]
    made: frozenset[str]


@dataclasses.dataclass(frozen=True)
class FunctionCandidate:
    """A function that modules are, if their sizes are told alike.

    Attributes:
        alike: What they do.
        sites: Where.
        around: For each module the variables around it.
        words: What the function calls everything in the first module's steps.
        module: What it calls the module that it is given; empty if it is given none.
        reads_shapes: Whether it reads all sizes from tensors: it is one for several sizes.
        record: The class of what it keeps for a backward pass; empty where it makes no record.
    """

    alike: AlikeSteps
    sites: tuple[CallSite, ...]
    around: tuple[Mapping[str, str], ...]
    words: Mapping[str, str]
    module: str
    reads_shapes: bool
    record: str = ""

    @property
    def asked(self) -> tuple[str, ...]:
        """The words of sizes that no tensor tells."""
        return tuple(one.word for one in self.alike.symbols if not one.is_told)

    @property
    def fields(self) -> tuple[str, ...]:
        """Of that record."""
        return tuple(self.words[name] for name in self.kept(0))

    @property
    def holds_records(self) -> bool:
        """Whether records of calls inside of it are fields of its own."""
        return bool(self.record and self._records(0))

    def kept(self, place: int) -> list[str]:
        """What one of the modules keeps for a backward pass, but for what is in records of calls inside of it."""
        held = frozenset[str]().union(*(one.all_buffers for one in self._records(place)))
        return [name for name in self.alike.sites[place].saved if name not in held]

    def records(self, place: int) -> tuple[tuple[str, CallRecord], ...]:
        """(field of its record, the record of a call inside of the function) for one of the modules."""
        fields = (one.variable if one.field in self.fields else one.field for one in self._records(0))
        return tuple(zip(fields, self._records(place), strict=True))

    def _records(self, place: int) -> list[CallRecord]:
        calls = self.alike.sites[place].calls.values()
        return [call.record for call in calls if call.record is not None]


class FunctionSites:
    """Tells what the steps of a module take, make and drop.

    Args:
        bodies: The functions of model.py.
        graph: What was captured.
        words: Its words.
        root: The root of the modules.
        in_lists: Tensors that are reached by way of a list.
        reach: How a weight below a module is reached.
        calls: What is a call already, by the first step of each; more may be added.
        form: Of the functions.
        in_records: By what the forward pass keeps in a record of a module: that module. Its derivative, if it reads
            much of that, is given the record (derivatives.py), and is no function that is given it one by one.
    """

    def __init__(
        self,
        bodies: Sequence[FunctionBody],
        graph: CapturedGraph,
        words: BufferNamer,
        root: Branch,
        in_lists: frozenset[str],
        reach: Reach,
        calls: Mapping[int, SharedCall],
        form: FunctionForm = FORWARD_FORM,
        in_records: Mapping[str, str] | None = None,
    ) -> None:
        self._bodies = bodies
        self._in_records = in_records or {}
        self.form = form
        self._words = words
        self._root = root
        self._reach = reach
        self._calls = calls
        self.weights = {entry.node: entry.target for entry in graph.inputs if not entry.is_given}
        self._placeholders = frozenset(entry.node for entry in graph.inputs)
        self._given_weights = graph.paths  # of a backward pass
        self._told_by_data = {size.node for size in graph.data_sizes}
        self._in_lists = in_lists
        self._read = [_first_and_last(body.steps) for body in bodies]
        self._known: dict[tuple[CallSite, str], ModuleSteps | None] = {}

    def is_free(self, word: str, site: CallSite) -> bool:
        """Whether nothing in the steps of a site is called so."""
        body = self._bodies[site.body]
        steps = plain_sites(body.steps, site)
        named = {name for step in steps for name in references(step)}
        keys = (
            view_key(step, key)
            for step in steps
            if isinstance(step, Extern)
            for line in named_views(step, self._words)
            for key in line.keys
        )
        return all(body.variables.get(name) != word for name in (*named, *keys))

    def are_few(self, alike: AlikeSteps, n_numbers: int) -> bool:
        """Whether what modules do alike has so few results, and parameters with numbers, that it is a function."""
        given, results = alike.inputs, alike.sites[0].results
        kept = 0 if self.form.takes_module else sum(self._placeholders.issuperset(names) for names in given)
        is_short = kept <= self.form.most_kept and len(results) <= self.form.most_results
        return is_short and len(given) - kept + n_numbers <= self.form.most_parameters

    def forget(self) -> None:
        """What was told of sites holds for as long as calls stay the same."""
        self._known.clear()

    def steps_of(self, site: CallSite, word: str) -> ModuleSteps | None:
        """A module's steps, told once for all that it is compared with."""
        if (site, word) not in self._known:
            self._known[site, word] = self._told(site, word)
        return self._known[site, word]

    def _told(self, site: CallSite, word: str) -> ModuleSteps | None:
        """A module's steps as those of a function that is given the module as `word`; None if they are none."""
        body = self._bodies[site.body]
        steps = plain_sites(body.steps, site)
        made = made_in(steps)
        is_reached = self._holds(site.path) or not self.form.takes_module
        told = self._given(site, steps, word) if is_reached else None
        results, saved = self._results(site, steps)
        if told is None or not 0 < len(results) <= self.form.most_results:
            return None
        given, variables, weights = told
        of_record = sum(self._in_records.get(name) == site.path for name in given)
        if len(results) > _MOST_APART and of_record > _MOST_OF_RECORD:
            return None
        own, calls = own_steps(steps, self._calls)
        if _is_one_call(own, calls):  # what the module within it is
            return None
        if len(saved) > self.form.most_saved:
            return None
        held = (call.record.all_buffers for call in calls.values() if call.record is not None)
        if not frozenset[str]().union(*held) <= {*saved}:
            return None
        calls = with_own_records(calls, site.path, body.variables.values())
        released = (name for step in steps if isinstance(step, Release) for name in step.buffers)
        dropped = tuple(name for name in released if name not in made)
        alone = SiteSteps(own, calls, tuple(given), weights, results, saved)
        return ModuleSteps(alone, variables, dropped, made)

    def _holds(self, path: str) -> bool:
        """Whether the tree of modules has one there: one without tensors is none of it."""
        branch = self._root
        for part in path.split("."):
            if part not in branch.branches:
                return False
            branch = branch.branches[part]
        return True

    def _given(
        self, site: CallSite, steps: Sequence[PlanStep], word: str
    ) -> tuple[list[str], dict[str, str], dict[str, str]] | None:
        """The buffers that a function takes beside its module, its variables, and where weights are below the module.

        None if they are none of a function.
        """
        body, made = self._bodies[site.body], made_in(steps)
        variables = dict(body.variables)
        given: list[str] = []
        weights: dict[str, str] = {}
        reached: set[str] = set()
        for name in _in_order_of_use(steps):
            path = self.weights.get(name, "")
            if path.startswith(f"{site.path}."):
                weights[name] = path.removeprefix(f"{site.path}.")
                variables[name] = self._reach(site.path, weights[name], word)
            elif name in made:
                continue
            elif path:  # of another module
                own = identifier(path.rpartition(".")[2])
                if own in (word, *reached) or not self.is_free(own, site):
                    return None
                reached.add(own)
                variables[name] = own
                given.append(name)
            elif not variables.get(name, "").isidentifier() and entry_of(variables.get(name, "")) is None:
                return None
            else:
                given.append(name)
        named = {name for step in steps for name in references(step)}
        is_whole = not named & (self._told_by_data | self._in_lists)
        if not self.form.takes_module:  # gradients first, as layers' derivatives have them, then weights
            given.sort(key=lambda name: (name in self._placeholders, name not in self._given_weights))
        return (given, variables, weights) if is_whole else None

    def _results(self, site: CallSite, steps: Sequence[PlanStep]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What the steps make that is read elsewhere; and of much what only the backward pass reads, by itself."""
        body, read = self._bodies[site.body], self._read[site.body]

        def is_handed_on(name: str) -> bool:
            first, last = read.get(name, (site.start, site.start))
            return first < site.start or last >= site.stop

        names = [name for name in _made_in_order(steps) if name in body.kept or is_handed_on(name)]
        if not self.form.takes_module:  # what others take, and then the gradients of what the module holds
            names.sort(key=body.kept.__contains__)
        saved = [name for name in names if name in body.saved and not is_handed_on(name)]
        if len(names) <= self.form.most_results or not all(
            body.variables[one].isidentifier() for one in saved
        ):
            return tuple(names), ()
        return tuple(name for name in names if name not in saved), tuple(saved)


def _is_one_call(steps: Sequence[PlanStep], calls: Mapping[int, SharedCall]) -> bool:
    """Whether steps are the call of another function and nothing beside it (there is one call at least)."""
    own = [place for place, step in enumerate(steps) if isinstance(step, Launch | Extern)]
    return any(place <= own[0] and own[-1] < place + call.n_steps for place, call in calls.items())


def _first_and_last(steps: Sequence[ModelStep]) -> dict[str, tuple[int, int]]:
    """Of each buffer that steps name, the first and the last place where one does."""
    spans: dict[str, tuple[int, int]] = {}
    for place, step in enumerate(steps):
        for name in _named(step):
            spans[name] = (spans.get(name, (place, place))[0], place)
    return spans


def _named(step: ModelStep) -> list[str]:
    """Every buffer that a step of model.py names."""
    return [name for plain in plain_steps(step) for name in _named_in(plain)]


def _named_in(step: UnitStep) -> list[str]:
    if isinstance(step, PlanStep):
        return [] if isinstance(step, Release) else list(references(step))
    inside = (name for run in step.runs for inner in run for name in _named_in(inner))
    return [*inside, *(name for each in (*step.inputs, *step.outputs) for name in each)]


def _in_order_of_use(steps: Sequence[PlanStep]) -> list[str]:
    """What calls name, and then what only memory is taken from."""
    calls = [step for step in steps if isinstance(step, Launch | Extern)]
    rest = [step for step in steps if isinstance(step, Reuse)]
    return list(dict.fromkeys(name for step in (*calls, *rest) for name in references(step)))


def _made_in_order(steps: Sequence[PlanStep]) -> list[str]:
    made = made_in(steps)
    return [name for name in dict.fromkeys(n for step in steps for n in references(step)) if name in made]
