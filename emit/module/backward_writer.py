"""The function that computes the gradients, in backward.py: as model.py is written, but backwards.

Equal layers are one function, ``block_backward``, called in a loop from the last layer to the first: it is given its
own layer's weights and what the forward pass saved for it, and returns what it hands on and its weights' gradients.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence, Set

from longhand.capture.graph import BackwardKind, TrainingGraphs
from longhand.emit.layers.backward_layers import BackwardLayers, backward_layers
from longhand.emit.layers.backward_loops import backward_loop
from longhand.emit.layers.backward_records import (
    MODEL,
    LayersApart,
    layers_of,
    list_of_modules,
    records_of_layers,
    saved_of_call,
    whole_record,
)
from longhand.emit.layers.call_records import (
    as_fields,
    classes_of_records,
    reached_in_records,
    records_of_calls,
)
from longhand.emit.layers.class_names import TakenNames, function_of_layers, record_name
from longhand.emit.layers.derivative_functions import (
    CollectedGradients,
    DerivativeWriter,
    gradients_with,
    together,
)
from longhand.emit.layers.divided_functions import divided_model
from longhand.emit.layers.function_remarks import with_overwritten
from longhand.emit.layers.layer_methods import device_inside, sizes_inside, write_method
from longhand.emit.layers.layer_numbers import name_numbers_beside
from longhand.emit.layers.layers_in_turn import CallText, LayerText, unread_behind
from longhand.emit.layers.model_loops import LayerClass
from longhand.emit.layers.saved_records import Record, fields_for_calls
from longhand.emit.layers.shared_backward import SharedBackward, share_backward
from longhand.emit.layers.shared_functions import SharedFunction
from longhand.emit.module.gradient_lists import OF_LAYERS, OF_MODULE, write_gradients
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.model_py import ModelWriter, begin, body_writer
from longhand.emit.module.module_tree import expression, member
from longhand.emit.module.view_calls import write_view
from longhand.emit.text.expression import number
from longhand.emit.text.python_code import Code, NameCode
from longhand.emit.text.quoting import python_docstring
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import View
from longhand.schedule.named_plan import (
    SAVED,
    CallRecord,
    GradientsOfLayers,
    Home,
    LayerCall,
    Loop,
    NamedPlan,
    Reached,
    ReturnedGradients,
    TurnCall,
    has_modules_alike,
    is_same,
    keys_of_gradients,
    loops_of,
    paths_of_weights,
    plain_steps,
    statements_of_some,
    unread_weights,
    weights_inside,
    with_fields_dropped_alike,
)
from longhand.schedule.names.words import snake_case
from longhand.schedule.plan import buffers_read


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
        self.gradients = gradients
        self._training = training
        self._forward = forward
        super().__init__(backward)
        self.in_backward = True
        self.home = Home(forward.tree.root)
        self.records = False  # what records both passes is the module's, in model.py
        self._apart = {buffer for layers in backward.names.layers.values() for buffer in layers.own}
        self._read = self._read_outside()
        self.tensors = [
            (node, path) for node, path in self.tensors if node in self._read
        ]  # others are not given
        self.write_call = self._call
        records = (self.names.of_layers(loop).record for loop in loops_of(self.steps))
        self._record_names = {record.class_name for record in records if record is not None}
        self._calls = _records_of(forward)
        self._record_names |= {one.class_name for one in self._calls}
        self._weights = paths_of_weights(self._training, self._forward.graph)
        self._kept = {
            loop.key: layers_of(loop, self.names.of_layers(loop), self._weights, self._record_names)
            for loop in loops_of(self.steps)
        }
        self._functions: list[LayerClass] = []
        self.layers = tuple(one for one in self._kept.values() if one.is_kept)
        self.has_modules_alike = has_modules_alike(self.steps, self.words)
        self._shared = self._share() if self.has_modules_alike else None
        self._save_by_name()
        taken = {f"{snake_case(loop.class_name)}_backward" for loop in loops_of(self.steps)}
        taken |= {one.name for one in (self._shared.functions if self._shared else ())}
        taken |= {snake_case(self.name), *self.variables.values()}
        self._derivatives = DerivativeWriter(self._forward.tree.root, taken)
        self._collected: list[CollectedGradients] = []
        self._of_loops: dict[int, BackwardLayers] = {}
        self.has_modules_alike, self.share = True, self._functions_of

    def _save_by_name(self) -> None:
        """What the function reads goes by its name in a record; weights by their place in the module."""
        gradients = {entry.node for entry in self._training.inputs if entry.kind is BackwardKind.GRADIENT}
        read = [node for node in self.single() if node not in gradients]
        kept = [node for node in read if node not in self._weights]
        self.saved_name = record_name(self._forward.name, self._record_names)
        taken = {*(self.variables[node] for node in kept), *(one.word for one in self.layers)}
        self.of_calls = as_fields(self._calls, self._training, self._forward.plan, kept, taken)
        in_records = {node: one for told in self.of_calls for node, one in told.variables.items()}
        self._in_records = frozenset(in_records)
        self.variables |= in_records
        self.saved_fields = {node: self.variables[node] for node in kept if node not in in_records}
        self.variables |= {n: Reached.field_of(SAVED, word) for n, word in self.saved_fields.items()}
        self.variables |= {
            node: member(expression(self._forward.tree.root, self._weights[node]), MODEL)
            for node in read
            if node in self._weights
        }
        of_layers = (weights_inside(loop, self._weights) for loop in loops_of(self.steps))
        self.reads_model = any(node in self._weights for node in read) or any(of_layers)
        self.names_gradients = bool(self.gradients.groups)  # the Function puts them in the module's order
        self.needs_model = self.reads_model or self.names_gradients
        self.is_saved = bool(kept or self.layers or self.needs_model)
        self.saved_of_call = (
            saved_of_call(self.saved_name, self._training, self.saved_fields, self.layers, self.of_calls)
            if self.is_saved
            else None
        )
        self.unread_weights = unread_weights(read, loops_of(self.steps), self._weights, self._forward.graph)

    def records_of_all(self) -> list[Record]:
        """The records of layers and of calls, and that of the call itself, which holds them."""
        loops = loops_of(self._forward.steps)
        of_all = {loop.repeat.paths[loop.pattern]: loop.owner for loop in loops}
        return [
            *classes_of_records(self.of_calls, self.plan, self.dims, of_all),
            *records_of_layers(self.layers, self.plan, self.dims),
            *([self._own_record()] if self.is_saved else []),
        ]

    def _own_record(self) -> Record:
        function = snake_case(self.name)
        return whole_record(
            self.saved_name, function, self.saved_fields, self.layers, self.of_calls, self.plan, self.dims
        )

    def _share(self) -> SharedBackward:
        """What several modules' derivatives have in common is a function, given a list of what they read."""
        body = body_writer(self, self._sizes(), self._device_expression())
        gradients = {entry.node for entry in self._training.inputs if entry.kind is BackwardKind.GRADIENT}
        kept = frozenset(self.single()) - gradients - self._weights.keys()
        words = [layers.word for layers in self.layers]
        told = as_fields(self._calls, self._training, self._forward.plan, kept, words)
        inside = {node: path for one in told if one.word for node, path in one.paths.items()}
        shared = share_backward(self.steps, body, self.tree, snake_case(self.name), kept, words, inside)
        for one in shared.lists:
            name = record_name(one.function, self._record_names)
            self._record_names.add(name)
            fields = fields_for_calls(one, shared.functions)
            own = LayersApart(one.word, one.own, None, name, fields, function=one.function)
            self.layers = (*self.layers, own)
        self._read -= kept - shared.single
        self.tensors = [(node, path) for node, path in self.tensors if node in self._read]
        return shared

    def _functions_of(self, body: BodyWriter) -> Collection[SharedFunction]:
        """What modules' derivatives have in common, and the parts of the function around them, and of layers."""
        shared = () if self._shared is None else self._shared(body)
        self._derivatives.functions.update({one.name: one for one in shared})
        weights = {node: path for node, path in self._weights.items() if node in self.variables}
        saved = frozenset(self.saved_fields) | self._in_records
        divided = divided_model(self.steps, self.variables, self.gradients, weights, saved, self.plan)
        around, root = set(body.variables.values()), self._forward.tree.root
        for loop in loops_of(self.steps):
            taken = functools.partial(name_numbers_beside, loop, self.plan, self.names, around)
            returned = functools.partial(self._gradient, loop)
            words, kept = self.names.of_layers(loop), self._kept[loop.key]
            self._of_loops[id(loop)] = backward_layers(
                loop, words, kept, self._weights, self.words.weights, root, taken, returned
            )
        own = [divided.function, *(one.divided.function for one in self._of_loops.values())]
        function, *_ = with_fields_dropped_alike(own, self.words, body.calls, self.plan)
        self.steps, divided = tuple(function.steps), dataclasses.replace(divided, function=function)
        self._derivatives.find([divided, *(one.divided for one in self._of_loops.values())], body)
        written = [(one.divided, one.module, body) for one in self._of_loops.values()]
        self._derivatives.name([(divided, MODEL, body), *written])
        self._collected = self._derivatives.divide(divided, MODEL, body)
        return self._derivatives.functions.values()

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
        own = self._of_loops[id(loop)]
        words, kept = self.names.of_layers(loop), self._kept[loop.key]
        variables, layer = own.variables, own.module
        before, weights, made, numbers = own.before, own.weights, own.made, own.numbers
        run, outputs = loop.repeat.runs[0], loop.repeat.outputs[0]
        handed_on = [place for place in range(len(outputs)) if place not in loop.collected]
        inputs = (*made, *loop.repeat.inputs[0], *loop.shared, *weights, *before.weights)
        inner = copy.copy(body)
        inner.of_some = statements_of_some(loop.repeat.runs, 0, body.words)
        collected = self._derivatives.divide(own.divided, layer, inner)
        sizes = sizes_inside(inputs, body, variables)
        results: list[Code] = [NameCode(variables[outputs[place]]) for place in handed_on]
        results += self._gradients_of_layer(loop, variables, sizes, collected)
        name = function_of_layers(loop, taken)
        device = device_inside((*loop.repeat.inputs[0], *loop.own[0], *loop.shared), body, variables)
        method = write_method(
            name,
            before.remark,
            inputs,
            run,
            results,
            inner,
            variables,
            device,
            sizes=sizes,
            numbers=numbers,
            home=Home(self.home.root, loop.owner, is_list=True),
        )
        rest = (word for word in method.parameters if word not in own.fields)
        trained = self._forward.tree.root.at(loop.repeat.paths[0]).n_parameters()
        is_part = loop.is_apart and len(loop.collected) < trained
        first = ((layer,) if weights else ()) + ((SAVED,) if kept.is_kept else ())
        told = with_overwritten([method.remark], method.overwritten)
        method = dataclasses.replace(method, remark=told, parameters=(*first, *before.parameters, *rest))
        known = next((one for one in self._functions if is_same(method, one.methods[0])), None)
        block = known or LayerClass(
            name,
            python_docstring(loop.owner),
            "",
            "",
            (),
            (method,),
            frozenset(),
            numbers=numbers,
            is_part=is_part,
        )
        self._functions.append(block)
        if loop.is_in_turn:
            return block, []
        owner = list_of_modules(loop, self._weights, self._forward.tree)
        return block, backward_loop(
            loop, block.name, handed_on, body.variables, words, kept, owner, numbers, before
        )

    def _call(self, call: LayerCall, block: LayerClass, body: BodyWriter) -> CallText:
        """``d_x, d_layers[3] = layer_backward(model.layers[3], saved.layers.pop(), d_x)``"""
        loop, repeat, variables = call.loop, call.repeat, body.variables
        words = self.names.of_layers(loop)
        gradients, kept, owner = (
            words.gradients,
            self._kept[loop.key],
            list_of_modules(loop, self._weights, self._forward.tree),
        )
        given = [kept.taken] if kept.is_kept else []
        given += [variables[buffer] for buffer in (*repeat.inputs[0], *loop.shared)]
        given += [number(values[call.number]) for values in block.numbers.values]
        outputs = repeat.outputs[0]
        targets = [variables[name] for n, name in enumerate(outputs) if n not in loop.collected]

        def bound(layer: LayerText, names: Sequence[str]) -> tuple[str, ...]:
            module = [f"{owner}[{layer(0)}]"] if owner else []
            value = f"{block.name}({', '.join([*module, *given])})"
            collected = [f"{gradients}[{layer(0)}]"] if loop.collected else []
            return (f"{', '.join([*names, *collected])} = {value}",)

        unread = unread_behind(call, self.steps, self.plan)
        handed_on = [name for n, name in enumerate(outputs) if n not in loop.collected]
        alone = [
            "_" if name in unread and variables[name] not in given else variables[name] for name in handed_on
        ]
        says = (*targets, gradients if loop.collected else "", "=", block.name, owner, *given)
        turn = TurnCall(call.position, says, names_layer=bool(loop.collected or owner))
        is_first = bool(loop.collected) and not (loop.is_apart and call.number)
        first = (f"{gradients} = {{}}",) if is_first else ()
        return CallText(turn, lambda layer: bound(layer, targets), first, lambda layer: bound(layer, alone))

    def _gradients_of_layer(
        self,
        loop: Loop,
        variables: Mapping[str, str],
        sizes: SizeWriter,
        collected: Sequence[CollectedGradients],
    ) -> list[Code]:
        """What a layer's function returns last: its gradients by the paths of its weights inside it."""
        if not loop.collected:
            return []
        outputs, keys = loop.repeat.outputs[0], keys_of_gradients(loop, self.words.weights)
        made = (self._gradient(loop, place, variables[outputs[place]], sizes) for place in loop.collected)
        named = zip((outputs[place] for place in loop.collected), keys, made, strict=True)
        return [gradients_with(tuple(named), loop.repeat.paths[0], collected)]

    def _gradient(self, loop: Loop, place: int, variable: str, sizes: SizeWriter) -> Code:
        """What a layer's function returns for a gradient: as the caller gets it, where all layers' come alike."""
        view = self.gradients.in_layers.get(loop.repeat.outputs[0][place])
        if view is None:
            return NameCode(variable)
        return write_view(view, variable, sizes, self.plan.buffers[view.buffer])

    def _result(self, result: object, sizes: SizeWriter, variable: str | None = None) -> str:
        if isinstance(result, View) and any(result.buffer in one.buffers for one in self._collected):
            return ""  # in a dictionary
        if isinstance(result, View) and result.buffer in self.gradients.in_layers:
            return self.variables[result.buffer] if variable is None else variable
        return super()._result(result, sizes, variable)

    def _returned(self, texts: list[str]) -> str:
        """The gradients of arguments, then those of parameters by name."""
        returned = [texts[place] for place in self.gradients.arguments]
        if self.gradients.groups:
            groups = together(self.gradients.groups, self.plan.results, self._collected)
            returned.append(write_gradients(groups, texts))
            are_layers = any(isinstance(group, GradientsOfLayers) for group in groups)
            self.imports |= {f"from .runtime import {OF_LAYERS}"} if are_layers else set()
            self.imports |= {f"from .runtime import {OF_MODULE}"} if self._derivatives.are_together else set()
        return ", ".join(returned)


def _records_of(forward: ModelWriter) -> list[CallRecord]:
    """What the calls of the forward pass keep; its writer learns how launch() reaches that."""
    forward.begun = begin(forward)
    calls = forward.begun[1].calls
    forward.variables |= reached_in_records(calls)
    return records_of_calls(calls)
