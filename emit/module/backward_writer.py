"""The function that computes the gradients, in backward.py: as model.py is written, but backwards.

Equal layers are one function, ``block_backward``, called in a loop from the last layer to the first: it is given its
own layer's weights and what the forward pass saved for it, and returns what it hands on and its weights' gradients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence, Set
from itertools import chain

from longhand.capture.graph import BackwardKind, TrainingGraphs
from longhand.emit.layers.class_names import TakenNames, record_name, whose
from longhand.emit.layers.layer_methods import device_inside, sizes_inside, write_method
from longhand.emit.layers.layer_numbers import LayerNumbers, name_numbers
from longhand.emit.layers.layers_in_turn import CallText, LayerText
from longhand.emit.layers.model_loops import LayerClass
from longhand.emit.layers.saved_records import KEPT, Record, fields_for_calls, shape_of, taking_apart
from longhand.emit.layers.shared_backward import share_backward
from longhand.emit.module.gradient_lists import write_gradients
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.model_py import ModelWriter, body_writer
from longhand.emit.module.view_calls import write_view
from longhand.emit.text.expression import number
from longhand.emit.text.python_code import Code, NameCode
from longhand.emit.text.quoting import python_docstring
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import View
from longhand.schedule.named_plan import (
    SAVED,
    LayerCall,
    Loop,
    NamedPlan,
    Reached,
    ReturnedGradients,
    SavedLayers,
    TurnCall,
    has_modules_alike,
    is_by_name,
    is_same,
    list_holding,
    loops_of,
    plain_steps,
)
from longhand.schedule.names.words import identifier, singular, snake_case
from longhand.schedule.plan import buffers_read

_MOST_BEFORE_A_STAR = 255  # names in an assignment: Python compiles no more


@dataclasses.dataclass(frozen=True)
class LayersApart:
    """What the backward pass keeps apart for each layer of a loop.

    Attributes:
        word: The list that holds it, in the order of the layers: ``blocks``.
        own: For each layer, first to last: placeholders of the backward graph.
        record: What the layers save as a record of their own.
        name: The class of what one layer has; empty where it is a tuple without names.
        fields: Its fields.
        owner: Whose it is: the path of a list of layers, or empty.
        function: What reads it, where that is no list's.
    """

    word: str
    own: tuple[tuple[str, ...], ...]
    record: SavedLayers | None = None
    name: str = ""
    fields: tuple[str, ...] = ()
    owner: str = ""
    function: str = ""

    @property
    def n_each(self) -> int:
        """How many tensors a layer has."""
        return len(self.own[0])


class BackwardWriter(ModelWriter):
    """Writes the backward pass as functions.

    Args:
        training: Both graphs.
        backward: The backward pass.
        gradients: What is returned.
        forward: The writer of model.py.
    """

    def __init__(
        self,
        training: TrainingGraphs,
        backward: NamedPlan,
        gradients: ReturnedGradients,
        forward: ModelWriter,
    ) -> None:
        self._gradients = gradients
        self._training = training
        self._forward = forward
        super().__init__(backward)
        self.records = False  # what records both passes is the module's, in model.py
        self._apart = {buffer for layers in backward.names.layers.values() for buffer in layers.own}
        self._read = self._read_outside()
        self.tensors = [
            (node, path) for node, path in self.tensors if node in self._read
        ]  # others are not given
        self.write_call = self._call
        records = (self.names.of_layers(loop).record for loop in loops_of(self.steps))
        self._record_names = {record.class_name for record in records if record is not None}
        layers = [self._layers_of(loop) for loop in loops_of(self.steps)]
        self._functions: list[LayerClass] = []
        # As the Function saves them: records first.
        self.layers = tuple(sorted(layers, key=lambda one: one.record is None))
        self.has_modules_alike = has_modules_alike(self.steps, self.words)
        if self.has_modules_alike:
            self._share()
        self._save_by_name()

    def _layers_of(self, loop: Loop) -> LayersApart:
        """The loop runs from the last layer to the first: its runs, reversed, are in the order of the layers."""
        words = self.names.of_layers(loop)
        record = words.record
        if record is None:
            if SAVED in words.variables.values():
                return LayersApart(words.word, loop.own[::-1])
            name = record_name(loop.class_name, self._record_names)
            self._record_names.add(name)
            fields = tuple(words.variables[node] for node in loop.own[0])
            return LayersApart(words.word, loop.own[::-1], None, name, fields, loop.owner)
        return LayersApart(
            record.word,
            tuple(record.nodes[position] for position in loop.positions[::-1]),
            record,
            record.class_name,
            record.fields,
            record.owner,
        )

    def _save_by_name(self) -> None:
        """What the function reads itself goes by its name in a record, where it is more than a few tensors."""
        gradients = {entry.node for entry in self._training.inputs if entry.kind is BackwardKind.GRADIENT}
        kept = [node for node in self.single() if node not in gradients]
        self.saved_fields: dict[str, str] = {}
        if is_by_name(len(kept), self.variables.values()):
            self.saved_name = record_name(self._forward.name, self._record_names)
            self.saved_fields = {node: self.variables[node] for node in kept}
            self.variables |= {n: Reached.field_of(SAVED, word) for n, word in self.saved_fields.items()}

    def record_of(self, layers: LayersApart) -> Record:
        """The record of what each layer has, or each call of a function."""
        paths = layers.record.paths if layers.record is not None else ("",) * layers.n_each
        columns = zip(*layers.own, strict=True) if layers.record is None else zip(layers.own[0], strict=True)
        buffers, dims = self.plan.buffers, self.dims
        said = [path or shape_of(nodes, buffers, dims) for path, nodes in zip(paths, columns, strict=True)]
        fields = tuple(zip(layers.fields, said, strict=True))
        return Record(layers.name, layers.owner, layers.function, fields, layers.word)

    def saved_record(self) -> Record:
        """The record of what the function reads itself."""
        buffers, dims = self.plan.buffers, self.dims
        fields = tuple((word, shape_of([n], buffers, dims)) for n, word in self.saved_fields.items())
        return Record(self.saved_name, "", snake_case(self.name), fields, SAVED)

    def _share(self) -> None:
        """What several modules' derivatives have in common is a function, given a list of what they read."""
        body = body_writer(self, self._sizes(), self._device_expression())
        gradients = {entry.node for entry in self._training.inputs if entry.kind is BackwardKind.GRADIENT}
        kept = frozenset(self.single()) - gradients
        words = [layers.word for layers in self.layers]
        shared = share_backward(self.steps, body, self.tree, snake_case(self.name), kept, words)
        self.share = shared
        for one in shared.lists:
            name = record_name(one.function, self._record_names)
            self._record_names.add(name)
            fields = fields_for_calls(one, shared.functions)
            own = LayersApart(one.word, one.own, None, name, fields, function=one.function)
            self.layers = (*self.layers, own)
        self._read -= kept - shared.single
        self.tensors = [(node, path) for node, path in self.tensors if node in self._read]

    def unpacking(self, saved: Sequence[str]) -> list[str]:
        """The lines that take apart the list ``saved``: single tensors, then those of the layers.

        Args:
            saved: The words of the single tensors.
        """
        rest = "of_layers" if self.layers else ""
        if self.saved_fields:
            lines = taking_apart(self.saved_name, KEPT, rest)
        elif not self.layers:
            return [f"{', '.join(saved)}{',' * (len(saved) == 1)} = saved", "saved.clear()"] if saved else []
        else:
            lines = [*first_and_rest(saved, "of_layers", "saved"), "saved.clear()"]
        for layers in self.layers:
            is_last, name = layers is self.layers[-1], layers.name
            fields = f"{name}._fields" if layers.record is not None else f"fields({name})"
            n_each = f"len({fields})" if name else str(layers.n_each)
            made = f"{name}(*of_layers[at : at + n_each])" if name else "of_layers[at : at + n_each]"
            end = "len(of_layers)" if is_last else f"{len(layers.own)} * n_each"
            lines += [
                f"n_each = {n_each}",
                f"{layers.word} = [{made} for at in range(0, {end}, n_each)]",
                "del of_layers" if is_last else f"del of_layers[: {end}]",
            ]
        return lines

    def _read_outside(self) -> set[str]:
        """What the function itself reads or returns, whatever its layers read."""
        buffers = {result.buffer for result in self.plan.results if isinstance(result, View)}
        for step in self.steps:
            buffers.update(buffer for plain in plain_steps(step) for buffer in buffers_read(plain))
        return {name for name in buffers if name not in self._apart}

    def single(self) -> list[str]:
        """The placeholders that the function itself reads, in order."""
        return [entry.node for entry in self.graph.inputs if entry.node in self._read]

    def _tensor_arguments(self) -> list[tuple[str, str]]:
        """They go by the words that the forward has for them, not by the graph's."""
        return [(node, self.variables[node]) for node, _ in super()._tensor_arguments()]

    def _unpacked(self, asked: Set[str]) -> list[str]:
        return []

    def _checks(self) -> list[str]:
        return []  # it is given what the forward pass saved

    def _as_given(self, buffer: str) -> str:
        return self.variables[buffer]

    def _device_expression(self) -> str:
        """Of a tensor that stays: a weight or an argument of the user's, the one with the shortest word."""
        single = [name for name in self.single() if name not in self.plan.program.on_cpu]
        sources = {entry.node: entry.source for entry in self._training.inputs}
        staying = [name for name in single if isinstance(sources.get(name), str)] or single[:1]
        if not staying:
            return f'"{self.plan.options.target.device.value}"'
        return f"{min((self.variables[name] for name in staying), key=len)}.device"

    def _loop(self, loop: Loop, body: BodyWriter, taken: TakenNames) -> tuple[LayerClass, list[str]]:
        variables = dict(self.names.of_layers(loop).variables)
        kept = next(one for one in self.layers if set(loop.own[0]) <= {*chain.from_iterable(one.own)})
        if kept.record is None and kept.fields:
            named = zip(loop.own[0], kept.fields, strict=True)
            variables |= {node: Reached.field_of(SAVED, word) for node, word in named}
        run, outputs = loop.repeat.runs[0], loop.repeat.outputs[0]
        handed_on = [place for place in range(len(outputs)) if place not in loop.collected]
        inputs = (*loop.own[0], *loop.repeat.inputs[0], *loop.shared)
        sizes = sizes_inside(inputs, body, variables)
        results: list[Code] = [NameCode(variables[outputs[place]]) for place in handed_on]
        results += [self._gradient(loop, place, variables[outputs[place]], sizes) for place in loop.collected]
        name = f"{snake_case(loop.class_name)}_backward"
        if name in taken and taken[name] != loop.owner:
            name = "_".join([*(identifier(singular(part)) for part in whose(loop.owner, taken[name])), name])
        elif name in taken and loop.is_in_turn:
            name = f"other_{name}"
        while name in taken:
            name = name.replace("_backward", "_layer_backward")
        device = device_inside((*loop.repeat.inputs[0], *loop.own[0], *loop.shared), body, variables)
        numbers = name_numbers(loop, self.plan, self.names, {*variables.values(), *body.variables.values()})
        method = write_method(
            name, "", inputs, run, results, body, variables, device, sizes=sizes, numbers=numbers
        )
        if kept.fields:
            record = kept.record
            nodes = loop.own[0] if record is None else record.nodes[loop.positions[0]]
            fields = {variables[node] for node in nodes}
            rest = tuple(word for word in method.parameters if word not in fields)
            method = dataclasses.replace(method, parameters=(SAVED, *rest))
        known = next((one for one in self._functions if is_same(method, one.methods[0])), None)
        name = name if known is None else known.name
        block = known or LayerClass(
            name, python_docstring(loop.owner), "", "", (), (method,), frozenset(), numbers=numbers
        )
        self._functions.append(block)
        return block, [] if loop.is_in_turn else self._loop_lines(loop, name, handed_on, body, numbers)

    def _call(self, call: LayerCall, block: LayerClass, body: BodyWriter) -> CallText:
        """``d_x, *d_layers[3] = layer_backward(saved_layers.pop(), d_x)``"""
        loop, repeat, variables = call.loop, call.repeat, body.variables
        words = self.names.of_layers(loop)
        word, gradients, record = words.word, words.gradients, words.record
        is_record = record is not None or _has_fields(self.layers, word)
        given = [f"{'' if is_record else '*'}{record.word if record is not None else word}.pop()"]
        given += [variables[buffer] for buffer in (*repeat.inputs[0], *loop.shared)]
        given += [number(values[call.number]) for values in block.numbers.values]
        outputs = repeat.outputs[0]
        targets = [variables[name] for n, name in enumerate(outputs) if n not in loop.collected]
        value = f"{block.name}({', '.join(given)})"

        def write(layer: LayerText) -> tuple[str, ...]:
            collected = [f"*{gradients}[{layer(0)}]"] if loop.collected else []
            return (f"{', '.join([*targets, *collected])} = {value}",)

        says = (*targets, gradients if loop.collected else "", "=", block.name, *given)
        turn = TurnCall(call.position, says, names_layer=bool(loop.collected))
        return CallText(turn, write, (f"{gradients} = {{}}",) if loop.collected else ())

    def _gradient(self, loop: Loop, place: int, variable: str, sizes: SizeWriter) -> Code:
        """What a layer's function returns for a gradient: as the caller gets it, where all layers' come alike."""
        view = self._gradients.in_layers.get(loop.repeat.outputs[0][place])
        if view is None:
            return NameCode(variable)
        return write_view(view, variable, sizes, self.plan.buffers[view.buffer])

    def _result(self, result: object, sizes: SizeWriter, variable: str | None = None) -> str:
        if isinstance(result, View) and result.buffer in self._gradients.in_layers:
            return self.variables[result.buffer] if variable is None else variable
        return super()._result(result, sizes, variable)

    def _loop_lines(
        self, loop: Loop, name: str, handed_on: Sequence[int], body: BodyWriter, numbers: LayerNumbers
    ) -> list[str]:
        variables, words = body.variables, self.names.of_layers(loop)
        last = loop.repeat.outputs[-1]
        lines = []
        given = []
        for place, source in enumerate(loop.carried):
            variable = variables[last[source]]
            given.append(variable)
            if variables[loop.repeat.inputs[0][place]] != variable:
                lines.append(f"{variable} = {variables[loop.repeat.inputs[0][place]]}")
        given += [variables[buffer] for buffer in loop.shared]
        lists = {place: list_holding(variables[last[place]]) for place in loop.gathered}
        lines += [f"{name} = []" for name in lists.values()]
        targets = [words.of_one.get(place) or variables[last[place]] for place in handed_on]
        if loop.collected:
            lines.append(f"{words.gradients} = {{}}")
            targets.append(f"*{words.gradients}[layer]")
        record = words.record
        is_record = record is not None or _has_fields(self.layers, words.word)
        layers = f"{'' if is_record else '*'}{record.word if record is not None else words.word}.pop()"
        call = f"{name}({', '.join([layers, *given, *numbers.words])})"
        n_layers = len(loop.positions)
        is_whole = record is not None and sorted(loop.positions) == list(range(n_layers))
        head = f"range(len({record.word}))" if is_whole and record else _backwards(loop.positions)
        if is_whole and record and loop.positions[0] > loop.positions[-1]:
            head = f"reversed({head})"
        appended = [f"    {name}.append({words.of_one[place]})" for place, name in lists.items()]
        return [*lines, numbers.head("layer", head), f"    {', '.join(targets)} = {call}", *appended]

    def _returned(self, texts: list[str]) -> str:
        """The gradients; those of all layers of a loop together."""
        words = write_gradients(self._gradients.groups, texts)
        return f"{', '.join(words)}{',' * (len(words) == 1)}"


def first_and_rest(first: Sequence[str], rest: str, source: str) -> list[str]:
    """Lines that take a list apart: its first items one by one, the others as a list."""
    if len(first) <= _MOST_BEFORE_A_STAR:
        return [f"{', '.join([*first, f'*{rest}'])} = {source}"]
    return [f"{rest} = {source}[{len(first)}:]", f"{', '.join(first)} = {source}[: {len(first)}]"]


def _has_fields(layers: Sequence[LayersApart], word: str) -> bool:
    return any(one.word == word and one.fields for one in layers)


def _backwards(positions: Sequence[int]) -> str:
    """``reversed(range(12))``"""
    first, last = positions[-1], positions[0]
    if list(positions) == list(range(last, first - 1, -1)):
        return f"reversed(range({last + 1}))" if first == 0 else f"reversed(range({first}, {last + 1}))"
    return f"({', '.join(map(str, positions))})"
