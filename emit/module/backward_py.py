"""backward.py: the autograd.Function of a unit for training, and the backward pass as a function of its own."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby

from longhand.capture.graph import AliasKind, BackwardInput, BackwardKind, InputKind, TrainingGraphs
from longhand.emit.layers.saved_records import KEPT, Columns, Record, by_name
from longhand.emit.module.backward_writer import BackwardWriter, LayersApart
from longhand.emit.module.layer_columns import column_of
from longhand.emit.module.model_py import ModelWriter
from longhand.emit.module.trained_call import TrainedCall, launched_names
from longhand.emit.unit.templates import render_template, sorted_imports
from longhand.lower.ir import Extern, View
from longhand.schedule.named_plan import (
    SAVED,
    Branch,
    NamedPlan,
    Reached,
    ReturnedGradients,
    SavedLayers,
    entry_of,
    list_holding,
)
from longhand.schedule.names.words import identifier, own_name, snake_case
from longhand.schedule.plan import PlanStep, Repeat, UnitPlan

# So many gradients that are None in a row are counted rather than written; so many others are handed on in runs.
_MANY_NONE = 5
_GRADIENTS = "gradients"


@dataclasses.dataclass(frozen=True)
class BackwardText:
    """What templates/unit/backward.py.jinja prints.

    Attributes:
        function: The autograd.Function.
        model: What it differentiates.
        launch: What runs the forward pass.
        is_module: Whether launch() is a method.
        arguments: Of launch().
        launched: Words for what launch() returns: the user's results, single tensors, lists of tensors.
        results: Words for the user's results.
        views: Those that a library made, which may be views: what leaves the Function as one nobody may write.
        constants: Words of the user's results that have no gradient.
        saved: The single tensors that the forward keeps, as expressions.
        kept: The word of the list of all tensors that the backward function is given.
        own: What that function reads itself, as a record; None where it is a few tensors.
        records: What each layer of a loop saves, as launch() makes it.
        in_columns: The same of further loops, and of the calls of a function.
        layers: Of these: for each field those of all layers.
        unpacking: The lines that take apart what was kept.
        tangents: The words of the results' gradients, of all results; those that have none begin with ``_``.
        read: Those of them that the backward function is given.
        given: The same as it is given them.
        gradients: What backward() returns for each argument and each weight before ``*gradients``.
        rest: What takes the backward function's gradients, where they are not returned as they are; else empty.
        device: The kind of device.
        recording: What holds the recordings of both passes; empty where none are made.
        forward: The function that is recorded of the forward pass.
        flows: Where not every gradient comes from every result: the numbers of those that it comes from, and of how
            many gradients in a row that is so, ``((0, 1), 12)``.
    """

    function: str
    model: str
    launch: str
    is_module: bool
    arguments: tuple[str, ...]
    launched: tuple[str, ...]
    results: tuple[str, ...]
    views: tuple[str, ...]
    constants: tuple[str, ...]
    saved: tuple[str, ...]
    kept: str
    own: Record | None
    records: tuple[Record, ...]
    in_columns: tuple[Record, ...]
    layers: tuple[Columns, ...]
    unpacking: tuple[str, ...]
    tangents: tuple[str, ...]
    read: tuple[str, ...]
    given: tuple[str, ...]
    gradients: tuple[str, ...]
    rest: str
    device: str
    recording: str
    forward: str
    flows: tuple[str, ...]

    @property
    def record_classes(self) -> tuple[Record, ...]:
        """Each class once that launch() makes, for all lists whose layers save it."""
        by_class: dict[str, list[Record]] = {}
        for record in self.records:
            by_class.setdefault(record.name, []).append(record)
        return tuple(
            dataclasses.replace(of[0], owner=" or ".join(dict.fromkeys(one.owner for one in of)))
            for of in by_class.values()
        )

    @property
    def data_classes(self) -> tuple[Record, ...]:
        """The other records, which the Function makes."""
        return self.in_columns + ((self.own,) if self.own is not None else ())


def trained_call(
    training: TrainingGraphs, plan: UnitPlan, backward: UnitPlan, records: tuple[SavedLayers, ...] = ()
) -> TrainedCall:
    """What model.py needs to know of backward.py.

    Args:
        training: Both graphs.
        plan: Of the forward pass.
        backward: Of the backward pass.
        records: What the layers of its loops save.
    """
    kept = (
        len(training.forward.outputs) - training.forward.n_saved
    )  # before: the user's, returned whoever saves them
    in_records = frozenset(place for record in records for place in record.places if place >= kept)
    parameters = [entry.node for entry in training.forward.inputs if entry.kind is InputKind.PARAMETER]
    return TrainedCall(
        function=f"{training.forward.name[:1].upper()}{training.forward.name[1:]}Function",
        launched=tuple(
            place
            for place, result in enumerate(plan.results)
            if isinstance(result, View)
            and place not in in_records
            and training.forward.outputs[place].alias is AliasKind.FRESH
        ),
        records=records,
        allowed=frozenset(training.forward.grad_inputs),
        frozen=tuple(node for node in parameters if node not in training.forward.grad_inputs),
        forward=f"{snake_case(own_name(training.forward.name))}_forward",
        backward=snake_case(own_name(training.backward.name)),
        # A replay has what the recorded call had on the host.
        records_backward=not (backward.program.on_cpu or training.backward.waits_for_data),
    )


def write_backward(
    training: TrainingGraphs, forward: ModelWriter, backward: NamedPlan, gradients: ReturnedGradients
) -> str:
    """The text of backward.py, given the writer of model.py."""
    writer = BackwardWriter(training, backward, gradients, forward)
    text = writer.text()
    text = dataclasses.replace(text, name=snake_case(text.name))
    function = _Function(training, forward, writer, gradients.places).text()
    imports = {*writer.imports, "import torch", "from .runtime import own_types"}
    if function.records:
        imports.add("from typing import NamedTuple")
    counts = any(one.name for one in function.layers) or (function.own is not None and bool(function.records))
    if function.own is not None or counts:
        imports.add(f"from dataclasses import dataclass{', fields' if counts else ''}")
    if not function.is_module:
        imports.add("from . import model")
    if function.flows:
        imports |= {f"from .runtime import {name}" for name in ("looks_of", "or_none", "or_zeros")}
    return render_template(
        "backward.py.jinja", backward=text, function=function, imports=sorted_imports(imports)
    )


class _Function:
    """Words for the autograd.Function."""

    def __init__(
        self,
        training: TrainingGraphs,
        forward: ModelWriter,
        backward: BackwardWriter,
        places: Sequence[int | None],
    ) -> None:
        self.training = training
        self.forward = forward
        self.backward = backward
        self.places = places
        self.graph = training.forward
        self._lengths: dict[str, int] = {}  # of the lists that launch() returns

    def text(self) -> BackwardText:
        assert self.forward.training is not None
        arguments = tuple(self.forward.arguments.leaf_names(self.forward.variables))
        n_results = len(self.graph.outputs) - self.graph.n_saved
        launched, expressions = self._launched(set(arguments), n_results)
        entries = {entry.node: entry for entry in self.training.inputs}
        sources = {node: self._source(entry, expressions) for node, entry in entries.items()}
        kept = [node for node in self.backward.single() if entries[node].kind is not BackwardKind.GRADIENT]
        tangents = {e.source: self._word(e) for e in entries.values() if e.kind is BackwardKind.GRADIENT}
        user = [place for place in self.forward.training.launched if place < n_results]
        n_leading = next((n for n, place in enumerate(self.places) if place is not None), len(self.places))
        is_tail = all(place is not None for place in self.places[n_leading:])
        named = tuple(f"d_{identifier(name)}" for name in self._gradient_names())
        are_many = len(named) > _MANY_NONE
        rest = "" if is_tail else _GRADIENTS if are_many else f"{', '.join(named)}{',' * (len(named) == 1)}"
        spread = self._spread([f"{_GRADIENTS}[{n}]" for n in range(len(named))] if are_many else named)
        read = tuple(tangents[place] for place in user if place in tangents)
        return BackwardText(
            function=self.forward.training.function,
            model=self.forward.name,
            launch=self.forward.launch if self.graph.is_module else "launch",
            is_module=self.graph.is_module,
            arguments=arguments,
            launched=launched,
            results=tuple(expressions[place] for place in user),
            views=tuple(self._views(user, expressions)),
            constants=tuple(
                expressions[place] for place in user if place not in self.training.differentiable
            ),
            saved=by_name([*self.backward.saved_fields.values()], [sources[node] for node in kept]),
            kept=KEPT if self.backward.saved_fields else SAVED,
            own=self.backward.saved_record() if self.backward.saved_fields else None,
            records=tuple(
                self.backward.record_of(layers)
                for layers in self.backward.layers
                if layers.record is not None
            ),
            in_columns=tuple(
                self.backward.record_of(layers)
                for layers in self.backward.layers
                if layers.record is None and layers.fields
            ),
            layers=tuple(
                self._columns(layers, sources) for layers in self.backward.layers if layers.record is None
            ),
            unpacking=tuple(self.backward.unpacking([self._word(entries[node]) for node in kept])),
            tangents=tuple(tangents.get(place, f"_{identifier(expressions[place])}") for place in user),
            read=read,
            given=tuple(f"{word}.contiguous()" for word in read),
            gradients=_counted(("None",) * n_leading if is_tail else _sliced(spread) if are_many else spread),
            rest=rest,
            device=self.forward.plan.options.target.device.value,
            recording=self.forward.recording if self.forward.records else "",
            forward=self.forward.training.forward,
            flows=self._flows([user.index(place) for place in self.training.differentiable if place in user]),
        )

    def _flows(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """See BackwardText.

        Args:
            numbers: Of the differentiable results among those that the Function returns.
        """
        every = [self.training.flows[place] for place in self.places if place is not None]
        if all(len(flow) == len(numbers) for flow in every):
            return ()
        runs = [(sorted(flow), len(list(run))) for flow, run in groupby(every)]
        return tuple(str((tuple(numbers[place] for place in flow), count)) for flow, count in runs)

    def _columns(self, layers: LayersApart, sources: Mapping[str, str]) -> Columns:
        """What the layers of a list read, or the calls of a function: for each field those of all."""
        values = [
            column_of([sources[own[n]] for own in layers.own], self._lengths, self._n_modules)
            for n in range(layers.n_each)
        ]
        return Columns(layers.word, layers.name, by_name(layers.fields, values))

    def _views(self, places: Sequence[int], expressions: Mapping[int, str]) -> Iterator[str]:
        """The results that come from library calls, of those that a word holds."""
        plan = self.forward.plan
        steps: list[PlanStep] = [
            run for step in plan.steps if isinstance(step, Repeat) for run in chain(*step.runs)
        ]
        steps += [step for step in plan.steps if not isinstance(step, Repeat)]
        made = {name for step in steps if isinstance(step, Extern) for name in step.outputs}
        for place in places:
            result = plan.results[place]
            assert isinstance(result, View)
            if result.buffer in made and expressions[place].isidentifier():
                yield expressions[place]

    def _gradient_names(self) -> Iterator[str]:
        for place in self.places:
            if place is not None:
                yield self.training.gradients[place]

    def _spread(self, named: Sequence[str]) -> tuple[str, ...]:
        words = iter(named)
        return tuple("None" if place is None else next(words) for place in self.places)

    def _n_modules(self, modules: Reached) -> int:
        """How many modules the list has that the Function reaches as ``model.blocks``."""
        holder: Branch | None = self.forward.tree.root
        for step in modules.steps[1:]:
            holder = holder.branches.get(str(step).lstrip(".")) if holder is not None else None
        return len(holder.branches) if holder is not None else -1

    def _word(self, entry: BackwardInput) -> str:
        return self.backward.saved_fields.get(entry.node) or self.backward.variables[entry.node]

    def _launched(self, taken: set[str], n_results: int) -> tuple[tuple[str, ...], dict[int, str]]:
        """Words for what launch() returns, and how each tensor of it is reached."""
        assert self.forward.training is not None
        variables = {
            place: self.forward.variables[result.buffer]
            for place, result in enumerate(self.forward.plan.results)
            if isinstance(result, View) and place in self.forward.training.launched
        }
        users = [text for place, text in variables.items() if place < n_results]
        saved = [text for place, text in variables.items() if place >= n_results]
        returned = launched_names(users, saved)
        used = taken | {"ctx"} | {layers.word for layers in self.backward.layers}
        used |= {record.word for record in self.forward.training.records}
        words: dict[str, str] = {}
        for text in dict.fromkeys(returned):
            plain = identifier(list_holding(text).rpartition(".")[2])
            unique, count = plain, 1
            while unique in used:
                unique, count = f"{plain}_{count}", count + 1
            used.add(unique)
            words[text] = unique
        reached = [entry_of(text) for text in set(self.forward.variables.values())]
        entries = Counter(entry[0] for entry in reached if entry is not None)
        self._lengths = {word: entries[text] for text, word in words.items()}
        expressions: dict[int, str] = {}
        for place, text in variables.items():
            expressions[place] = words.get(text) or _entry_of_renamed(text, words)
        records = (record.word for record in self.forward.training.records)
        return (*(words[text] for text in returned), *records), expressions

    def _source(self, entry: BackwardInput, results: dict[int, str]) -> str:
        """How the Function's forward reaches a value that the backward reads."""
        if isinstance(entry.source, int):
            return results.get(entry.source, "")
        expression = self.forward.variables[entry.source]
        kinds = {given.node: given.kind for given in self.graph.inputs}
        if kinds[entry.source] is InputKind.CONSTANT and not self.graph.is_module:
            return f"model.{expression}"  # a function's constants stand at the top of model.py
        if isinstance(expression, Reached) and expression.steps[0] == "self":
            return Reached("model", *expression.steps[1:])
        return expression


def _entry_of_renamed(text: str, words: Mapping[str, str]) -> Reached:
    """An entry of a list that launch() returns, by the list's word."""
    assert isinstance(text, Reached)
    word, *steps = text.steps
    return Reached(words[str(word)], *steps)


def _sliced(gradients: Sequence[str]) -> list[str]:
    """``*gradients[:4], None, *gradients[4:]``: what stands between arguments and parameters that have none."""
    runs = [(is_none, list(run)) for is_none, run in groupby(gradients, key="None".__eq__)]
    n_all, begin, parts = sum(len(run) for is_none, run in runs if not is_none), 0, list[str]()
    for is_none, run in runs:
        end = begin + len(run) * (not is_none)
        span = f"{begin or ''}:{end if end < n_all else ''}"
        one = run if is_none or len(run) == 1 else [f"*{_GRADIENTS}[{span}]"]
        parts, begin = [*parts, *one], end
    return parts


def _counted(gradients: Sequence[str]) -> tuple[str, ...]:
    """``*[None] * 38`` for arguments and parameters that have no gradients, where these are many in a row."""
    parts: list[str] = []
    for word, run in groupby(gradients):
        words = list(run)
        is_counted = word == "None" and len(words) > _MANY_NONE
        parts += [f"*[None] * {len(words)}"] if is_counted else words
    return tuple(parts)
