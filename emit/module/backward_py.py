"""backward.py: the autograd.Function of a unit for training, and the backward pass as a function of its own."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from itertools import groupby

from longhand.capture.graph import AliasKind, BackwardInput, BackwardKind, InputKind, TrainingGraphs
from longhand.emit.layers.backward_records import MODEL
from longhand.emit.layers.saved_records import Record
from longhand.emit.module.backward_writer import BackwardWriter
from longhand.emit.module.model_py import ModelWriter
from longhand.emit.module.model_text import ModelText
from longhand.emit.module.paragraphs import LineKind, kind_of, statements_of
from longhand.emit.module.trained_call import TrainedCall
from longhand.emit.text.python_code import words_in
from longhand.emit.unit.templates import render_template, sorted_imports
from longhand.lower.ir import View
from longhand.schedule.named_plan import (
    SAVED,
    Reached,
    SavedLayers,
    list_holding,
    parameter_order,
)
from longhand.schedule.names.words import identifier, own_name, snake_case
from longhand.schedule.plan import UnitPlan

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
        results: Words for the user's results.
        constants: Words of the user's results that have no gradient.
        saved: The class of the record that launch() returns after the results; empty where nothing is kept.
        records: All classes of records.
        drops_saved: Whether the backward function drops parts of it.
        module: The word of the module where backward() needs it; else empty.
        unread: How the names of the weights end that it does not read.
        tangents: The words of the results' gradients, of all results; those that have none begin with ``_``.
        read: Those of them that the backward function is given.
        given: The same as it is given them.
        computed: Words for what the backward function returns.
        returned: What backward() returns for each argument and each weight, of these.
        reads_model: Whether the backward function reads weights of the module.
        device: The kind of device.
        recording: What holds the recordings of both passes; empty where none are made.
        forward: The function that is recorded of the forward pass.
        differentiate: That of the backward pass.
        flows: Where not every gradient comes from every result: the numbers of those that it comes from, and of how
            many gradients in a row that is so, ``((0, 1), 12)``.
    """

    function: str
    model: str
    launch: str
    is_module: bool
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    constants: tuple[str, ...]
    saved: str
    records: tuple[Record, ...]
    drops_saved: bool
    module: str
    unread: tuple[str, ...]
    tangents: tuple[str, ...]
    read: tuple[str, ...]
    given: tuple[str, ...]
    computed: tuple[str, ...]
    returned: tuple[str, ...]
    reads_model: bool
    device: str
    recording: str
    forward: str
    differentiate: str
    flows: tuple[str, ...]

    @property
    def unread_modules(self) -> bool:
        """Whether some of these are whole modules, of whose weights they are the beginning."""
        return any(one.endswith(".") for one in self.unread)

    @property
    def kept(self) -> tuple[str, ...]:
        """What the backward function is given before the gradients."""
        return ((self.module,) if self.reads_model else ()) + ((SAVED,) if self.saved else ())

    @property
    def watched(self) -> tuple[str, ...]:
        """What autograd keeps for it."""
        return (SAVED, *((self.module,) if self.module else ()), *(("UNREAD",) if self.unread else ()))


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
    parameters = [entry.node for entry in training.forward.inputs if entry.kind is InputKind.PARAMETER]
    return TrainedCall(
        function=f"{training.forward.name[:1].upper()}{training.forward.name[1:]}Function",
        launched=tuple(
            place
            for place, result in enumerate(plan.results)
            if isinstance(result, View)
            and place < kept
            and training.forward.outputs[place].alias is AliasKind.FRESH
        ),
        records=records,
        allowed=frozenset(training.forward.grad_inputs),
        frozen=tuple(node for node in parameters if node not in training.forward.grad_inputs),
        forward=f"{snake_case(own_name(training.forward.name))}_forward",
        differentiate=f"{snake_case(own_name(training.forward.name))}_gradients",
        # A replay has what the recorded call had on the host.
        records_backward=not (backward.program.on_cpu or training.backward.waits_for_data),
    )


def write_backward(training: TrainingGraphs, forward: ModelWriter, backward: BackwardWriter) -> str:
    """The text of backward.py.

    Args:
        training: Both graphs.
        forward: The writer of model.py.
        backward: The writer of the functions that compute the gradients.
    """
    text = backward.text()
    text = dataclasses.replace(text, name=snake_case(text.name))
    function = _Function(training, forward, backward, text).text()
    imports = {*backward.imports, "import torch", "from .runtime import own_types"}
    if function.saved:
        imports.add("from dataclasses import dataclass")
        names = (
            ("kept_on_list", "kept_from_list")
            if function.recording
            else ("keep_for_backward", "kept_for_backward")
        )
        imports |= {f"from .runtime import {name}" for name in names}
    if backward.names_gradients:
        imports.add("from .runtime import of_parameters")
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
        differentiate: ModelText,
    ) -> None:
        self.differentiate = differentiate
        self.training = training
        self.forward = forward
        self.backward = backward
        self.places = backward.gradients.places
        self.graph = training.forward

    def text(self) -> BackwardText:
        assert self.forward.training is not None
        arguments = tuple(self.forward.arguments.leaf_names(self.forward.variables))
        entries = {entry.node: entry for entry in self.training.inputs}
        expressions = self._words({*arguments})
        tangents = {e.source: self._word(e) for e in entries.values() if e.kind is BackwardKind.GRADIENT}
        user = self.forward.training.launched
        read = tuple(tangents[place] for place in user if place in tangents)
        return BackwardText(
            function=self.forward.training.function,
            model=self.forward.name,
            launch=self.forward.launch if self.graph.is_module else "launch",
            is_module=self.graph.is_module,
            arguments=arguments,
            results=tuple(dict.fromkeys(expressions[place] for place in user)),
            constants=tuple(
                expressions[place] for place in user if place not in self.training.differentiable
            ),
            saved=self.backward.saved_name if self.backward.is_saved else "",
            records=tuple(self.backward.records_of_all()),
            drops_saved=bool(self.backward.layers) or _drops_saved(self.differentiate),
            module=MODEL if self.backward.needs_model else "",
            unread=self.backward.unread_weights if self.backward.needs_model else (),
            tangents=tuple(tangents.get(place, f"_{identifier(expressions[place])}") for place in user),
            read=read,
            given=tuple(f"{word}.contiguous()" for word in read),
            computed=tuple(self._computed()),
            returned=_counted(self._returned(), n_apart=int(self.graph.is_module)),
            reads_model=self.backward.reads_model,
            device=self.forward.plan.options.target.device.value,
            recording=self.forward.recording if self.forward.records else "",
            forward=self.forward.training.forward,
            differentiate=self.forward.training.differentiate,
            flows=self._flows([user.index(place) for place in self.training.differentiable if place in user]),
        )

    def _flows(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """See BackwardText.

        Args:
            numbers: Of the differentiable results among those that the Function returns.
        """
        places = self.places[1:] if self.graph.is_module else self.places
        every = [self.training.flows[place] if place is not None else () for place in places]
        if all(len(flow) in (0, len(numbers)) for flow in every):
            return ()
        runs = [(sorted(flow), len(list(run))) for flow, run in groupby(every)]
        return tuple(str((tuple(numbers[place] for place in flow), count)) for flow, count in runs)

    def _computed(self) -> Iterator[str]:
        """Words for the gradients of arguments; those of parameters are a dictionary."""
        for place in self.backward.gradients.arguments:
            yield f"d_{identifier(self.training.gradients[place])}"
        if self.backward.names_gradients:
            yield _GRADIENTS

    def _returned(self) -> list[str]:
        """What each argument of the Function has: the module none, and parameters what is called after them."""
        words = iter(self._computed())
        n_parameters = len(parameter_order(self.graph)) if self.graph.is_module else 0
        of_call = self.places[: len(self.places) - n_parameters]
        returned = ["None" if place is None else next(words) for place in of_call]
        if self.backward.names_gradients:
            return [*returned, f"*of_parameters({MODEL}, {_GRADIENTS})"]
        return [*returned, *("None" for _ in range(n_parameters))]

    def _word(self, entry: BackwardInput) -> str:
        return self.backward.saved_fields.get(entry.node) or self.backward.variables[entry.node]

    def _words(self, taken: set[str]) -> dict[int, str]:
        """Words for the results that launch() returns, by their places: one for each of them that is another."""
        assert self.forward.training is not None
        used = taken | {"ctx", SAVED, MODEL}
        words: dict[str, str] = {}
        expressions: dict[int, str] = {}
        for place in self.forward.training.launched:
            result = self.forward.plan.results[place]
            assert isinstance(result, View)
            text = self.forward.variables[result.buffer]
            if text not in words:
                plain = identifier(list_holding(text).rpartition(".")[2])
                words[text], count = plain, 1
                while words[text] in used:
                    words[text], count = f"{plain}_{count}", count + 1
                used.add(words[text])
            expressions[place] = words[text]
        return expressions


def _drops_saved(text: ModelText) -> bool:
    """Whether any function drops fields of the record."""
    methods = (method for block in text.blocks for method in block.methods)
    inside = (*(one.paragraphs for one in text.functions), *(one.paragraphs for one in methods))
    paragraphs = itertools.chain(text.paragraphs, *inside)
    lines = (line for one in paragraphs for line in one.lines if kind_of(line) is LineKind.RELEASE)
    said = (one.value for one in statements_of(lines) if one.value is not None)
    dropped = (word for value in said for word in words_in(value))
    return any(isinstance(word, Reached) and word.steps[0] == SAVED for word in dropped)


def _counted(gradients: Sequence[str], n_apart: int) -> tuple[str, ...]:
    """``*[None] * 38`` for arguments and parameters that have no gradients, where these are many in a row.

    Args:
        gradients: A word for each argument of the Function.
        n_apart: How many at first stay by themselves: the module's, which is told beside the others'.
    """
    parts = list(gradients[:n_apart])
    for word, run in groupby(gradients[n_apart:]):
        words = list(run)
        is_counted = word == "None" and len(words) > _MANY_NONE
        parts += [f"*[None] * {len(words)}"] if is_counted else words
    return tuple(parts)
