"""model.py: an nn.Module (or a function) that reads like eager code written by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence, Set

from longhand.capture.graph import CapturedGraph, InputKind, Literal
from longhand.emit.layers.call_functions import with_call_functions
from longhand.emit.layers.class_names import TakenNames
from longhand.emit.layers.file_settings import FileSettings
from longhand.emit.layers.layers_in_turn import write_layer_call
from longhand.emit.layers.model_loops import LayerClass, records_outside_loops, write_block, write_loop
from longhand.emit.layers.shared_functions import SharedFunction, share_modules
from longhand.emit.module.body_parts import Needs
from longhand.emit.module.call_checks import (
    CallChecks,
    as_size,
    may_require_grad,
    remark_on_gradients,
    signature_lines,
    title,
)
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.model_text import (
    CallArguments,
    CallWriter,
    ModelFile,
    ModelText,
    as_object,
    built,
    classes_of,
    end_with,
    mode_lines,
    recorder,
    write_layers,
)
from longhand.emit.module.model_weights import constants_of_function, construct, write_weight_functions
from longhand.emit.module.module_place import ModulePlace
from longhand.emit.module.module_tree import ModuleTree, member
from longhand.emit.module.paragraphs import Paragraph, drop_unread
from longhand.emit.module.trained_call import TrainedCall
from longhand.emit.module.trained_results import launch_results, trained_lines
from longhand.emit.module.trees import (
    MadeList,
    TensorList,
    find_lists,
    find_made_lists,
    shape_lines,
)
from longhand.emit.module.view_calls import argument, write_view
from longhand.emit.text.quoting import python_docstring
from longhand.emit.text.sizes import SizeWriter, bind_sizes
from longhand.emit.unit.templates import render_template, sorted_imports
from longhand.lower.ir import View
from longhand.options import Device
from longhand.schedule.named_plan import (
    Home,
    Loop,
    ModelStep,
    NamedPlan,
    Reached,
    has_modules_alike,
    is_plain_variable,
    prove_words_hold,
    symbol_names,
)
from longhand.schedule.names.words import identifier, own_name

Begun = tuple[SizeWriter, BodyWriter, Collection[SharedFunction]]
_OTHERWISE_TEXT = "launch_kernels recording run_kernels recorded_kernels all_kernels kernels_recorded"
_OTHERWISE = tuple(_OTHERWISE_TEXT.split())


def write_model(named: NamedPlan) -> ModelFile:
    """The text of the model.py of a unit without training."""
    return ModelWriter(named).write()


class ModelWriter:
    """Writes model.py, and the parts of backward.py that are like it.

    Args:
        named: What it runs, in which words; in training the forward pass.
        training: In training: how forward() calls the autograd.Function.
    """

    def __init__(self, named: NamedPlan, training: TrainedCall | None = None) -> None:
        plan, names, words = named.plan, named.names, named.words
        self.training = training
        self.write_call: CallWriter = lambda call, block, body: write_layer_call(
            call, block, self.tree.root, body, self.steps
        )
        self.plan, self.in_backward = plan, False
        self.graph: CapturedGraph = plan.program.graph
        self.name = own_name(self.graph.name)
        self.names, self.words = names, words
        self.dims = named.dims
        self.steps: tuple[ModelStep, ...] = names.steps
        self.tree = ModuleTree.of(named.modules, self.graph)
        self.home = Home(self.tree.root)
        self.share: Callable[[BodyWriter], Collection[SharedFunction]]  # layers may add theirs
        saved = [record.class_name for record in training.records] if training is not None else []
        self.share = lambda body: share_modules(self.steps, body, self.tree, [self.name, *saved])
        self.has_modules_alike = self.graph.is_module and has_modules_alike(self.steps, words)
        held = {*self.tree.root.held, *self.tree.root.branches}
        self.launch = next(word for word in ("launch", *_OTHERWISE) if word not in held)
        self.recording = next(word for word in ("_graph", *_OTHERWISE) if word not in held)
        self.arguments = CallArguments.of(self.graph)
        self.parameters = self.arguments.parameters
        self.lists: tuple[TensorList, ...] = find_lists(plan, self.parameters, words.nodes)
        taken = {*names.buffers.values(), *(parameter.name for parameter in self.parameters)}
        self.made_lists = find_made_lists(plan, names, taken)
        self.variables = self._variables()
        self.begun: Begun | None = None
        self.tensors = self._tensor_arguments()
        self.elsewhere: Mapping[str, int] = {}  # sizes that another file of the unit has constants of
        has_tensors = bool(self.steps) or any(one.kind is not InputKind.SIZE for one in self.graph.inputs)
        self.imports: set[str] = {"import torch"} if has_tensors else set()
        self.runtime: set[str] = set()
        self.is_cpu = plan.options.target.device is Device.CPU
        self.records = (
            not self.is_cpu
            and plan.options.mode.records_cuda_graphs
            and (training.records_backward if training else not self.graph.n_saved)
            and not self.graph.given  # a backward pass
            and not (self.lists or self.made_lists)  # a table of addresses is none of a recording's inputs
            # a replay has what the recorded call had
            and not (plan.program.on_cpu or self.graph.waits_for_data)
        )

    def _variables(self) -> dict[str, str]:
        """The variable of each buffer; what the module holds by its path, constants of functions by their word."""
        variables = dict(self.names.buffers)
        for node, path in self.tree.expressions.items():
            is_held = self.graph.is_module
            variables[node] = member(path) if is_held else identifier(path.replace(".", "_")).upper()
        lists: tuple[TensorList | MadeList, ...] = (*self.lists, *self.made_lists)
        for one in lists:
            variables |= {node: Reached(one.name, place) for place, node in enumerate(one.nodes)}
        return variables

    def _tensor_arguments(self) -> list[tuple[str, str]]:
        """(placeholder, expression that reaches it) of the call's tensors."""
        return self.arguments.tensors()

    def write(self) -> ModelFile:
        """The text of model.py."""
        told = dataclasses.replace(self.text(), imports=sorted_imports(self.imports))
        return ModelFile(
            render_template("model.py.jinja", model=told),
            self.name,
            self.launch,
            self.records and not self.training,
            frozenset(self.runtime),
            self.tree.stored,
        )

    def text(self) -> ModelText:
        """What the template prints, but for the imports, which are in `imports`."""
        sizes, body, functions = self.begun or begin(self)
        layers = write_layers(self.steps, self.name, self.plan, self.tree, body, self._loop, self.write_call)
        self.runtime |= layers.runtime_names
        taken = {self.name, *self.variables.values(), *(one.name for one in self.parameters)}
        blocks = [block for _, block in layers.blocks]
        settings = FileSettings.of(self.names.numbers, taken, functions, blocks, self.elsewhere)
        self.constants, sizes.constant = settings.sizes, settings.constant
        paragraphs = body.write(self.steps, layers.lines)
        paragraphs += records_outside_loops(self.steps, self.variables) if self.training else []
        self._finish(paragraphs, sizes)
        drop_unread(paragraphs, (sizes.symbols[str(one.symbol)] for one in self.graph.data_sizes), sizes.used)
        text = self._text(paragraphs, sizes, layers.blocks, functions, settings)
        text = with_call_functions(text, settings) if settings.are_operators_repeated else text
        self.imports |= _imports_of(body.needs)
        self.runtime |= {"empty"} if body.needs.empty else set()
        if self.training is not None:
            self.imports |= {f"from .backward import {name}" for name in self.training.classes}
            self.runtime |= self.training.runtime_names
            if self.records:
                passes = (self.training.forward, self.training.differentiate)
                self.imports |= {f"from .backward import {name}" for name in passes}
        self.runtime |= body.needs.runtime
        self.imports |= {f"from .runtime import {name}" for name in self.runtime}
        return text

    def _loop(self, loop: Loop, body: BodyWriter, taken: TakenNames) -> tuple[LayerClass, list[str]]:
        """The class of a repeated block, and the lines of the loop."""
        block = write_block(loop, body, self.tree, taken)
        return block, [] if loop.is_in_turn else write_loop(loop, block, self.tree.root, body)

    def _sizes(self, may_state: bool = True) -> SizeWriter:
        """The writer of sizes, with words from the shapes of the call's tensors."""
        taken = set(self.variables.values()) | {parameter.name for parameter in self.parameters}
        tensors = []
        for node, _ in self.tensors:
            shape = tuple(as_size(size) for size in self.words.nodes[node].meta["val"].shape)
            if is_plain_variable(self.variables[node]):
                tensors.append((self.variables[node], self.dims.of(node, len(shape)), shape))
        symbols, given = symbol_names(self.graph, taken, tensors)
        return bind_sizes(self.dims, symbols, tensors, taken, given, may_state)

    # What came in.

    def _checks(self) -> list[str]:
        checks = CallChecks(
            self.graph,
            self.words.nodes,
            self.parameters,
            self.tensors,
            self.plan.options.target.device.value,
            self._plain(),
            may_require_grad(self.plan, self.training),
            self.lists,
            self.plan.program.on_cpu,
        )
        lines = checks.lines()
        self.runtime |= checks.runtime
        if self.training is not None and self.training.frozen:
            self.runtime.add("check_frozen")
            given = ", ".join(f"{node}={self.variables[node]}" for node in self.training.frozen)
            lines.append(f"check_frozen({given})")
        return lines

    def _plain(self) -> SizeWriter:
        return SizeWriter(self.dims, {}, {})

    def _finish(self, paragraphs: list[Paragraph], sizes: SizeWriter) -> None:
        """Appends the return statement, or makes the last statement it."""
        places = self.training.named if self.training is not None else range(len(self.plan.results))
        prove_words_hold(self.plan, self.variables, self.names.steps, places)
        if self.training is not None:
            results, given = self.plan.results, self.variables
            named = {
                one: given[one] if isinstance(one, str) else self._object(results[one], sizes, one)
                for one in self.training.named
            }
            lines = launch_results(self.training, self.plan, given, self.tree.root, named)
            paragraphs.append(Paragraph((), lines))
            return
        texts = [self._object(result, sizes, place) for place, result in enumerate(self.plan.results)]
        variable, rest = "", ""
        if len(texts) == 1 and isinstance(result := self.plan.results[0], View):
            variable = self._as_given(result.buffer)
            rest = self._object(result, sizes, 0, variable="")
        end_with(paragraphs, self._returned(texts), variable, rest)

    def _returned(self, texts: list[str]) -> str:
        """What forward() returns."""
        return self._built(texts, is_bare=len(texts) > 1)

    def _built(self, texts: list[str], is_bare: bool = False) -> str:
        """What the user's call returns, put together from its leaves; bare: a tuple without its parentheses."""
        types: set[tuple[str, str]] = set()
        returned = built(self.graph.out_spec, iter(texts), self.made_lists, types, is_bare)
        self.imports |= {f"from {module} import {name.partition('.')[0]}" for module, name in types}
        return returned

    def _trained(self) -> tuple[str, ...]:
        """The lines of forward() in training."""
        if self.training is None:
            return ()
        owner, weights = (["self"], ["*self.parameters()"]) if self.graph.is_module else ([], [])
        if any(one.kind is InputKind.PARAMETER for one in self.graph.inputs):
            self.runtime.add("parameters_of")
            weights = ["*parameters_of(self)"]
        given = ", ".join([*owner, *self.arguments.given(), *weights])
        call = f"{self.training.function}.apply({given})"
        paths = dict(self.tensors)
        return trained_lines(call, self.plan, self.variables, paths, self._plain(), self._built)

    def _as_given(self, buffer: str) -> str:
        """A buffer as the results mention it: an argument of forward() by its path, ``batch["mask"]``."""
        given = {} if self.has_launch else dict(self.tensors)
        return given.get(buffer, self.variables[buffer])

    def _object(self, result: object, sizes: SizeWriter, place: int, variable: str | None = None) -> str:
        """A result as the tensor object that eager returns."""
        text, base = self._result(result, sizes, variable), variable
        if base is None and isinstance(result, View):
            base = self._as_given(result.buffer)
        return text if base is None else as_object(text, self.graph.outputs[place], base)

    def _result(self, result: object, sizes: SizeWriter, variable: str | None = None) -> str:
        """A result as an expression; `variable` is what holds it, if not what it is called."""
        if isinstance(result, View):
            base = self._as_given(result.buffer) if variable is None else variable
            return str(write_view(result, base, sizes, self.plan.buffers[result.buffer]))
        return str(argument(result.value if isinstance(result, Literal) else result, sizes))

    # The file.

    def _device_expression(self) -> str:
        there = (leaf for leaf, _ in self.tensors if leaf not in self.plan.program.on_cpu)
        if leaf := next(there, None):
            return f"{self._as_given(leaf)}.device"
        return f'"{self.plan.options.target.device.value}"'

    def _text(
        self,
        paragraphs: Sequence[Paragraph],
        sizes: SizeWriter,
        blocks: Sequence[tuple[Loop, LayerClass]],
        functions: Collection[SharedFunction],
        settings: FileSettings,
    ) -> ModelText:
        checks = self._checks()
        bound = sizes.bound().lines()
        unpacked = self._unpacked(sizes.tensors_asked)
        base, base_arguments, members, constants = "nn.Module", "", [], []
        if self.graph.is_module:
            made = construct(self.tree, classes_of(blocks, self.tree))
            base, base_arguments, members = made.base, made.base_arguments, made.members
            constants = ["constants = load_constants()"] if self.tree.stored else []
            self.runtime |= made.runtime_names | {"load_constants"} if constants else made.runtime_names
            members = [*members, *mode_lines(self.training, self.variables, self.graph.mode)]
            if made.uses_nn or any(block.uses_nn for _, block in blocks):
                self.imports.add("from torch import nn")
        else:
            constants = [
                *shape_lines(self.lists),
                *constants_of_function(self.tree, self.variables, self.plan.options.target.device.value),
            ]
            self.runtime |= {"load_constants"} if self.tree.stored else set()
        recorded_by = ""
        if self.records:
            self.runtime.add("CudaGraph" if self.training is None else "TrainingGraph")
            launch = f"self.{self.launch}" if self.graph.is_module else "launch"
            recorded_by = recorder(launch, self.graph.is_module, self.arguments.mutated(), self.training)
        if recorded_by and self.graph.is_module:
            members = [*members, f"self.{self.recording} = {recorded_by}"]
        shared = tuple(map(settings.function, functions))  # in the order of the file
        classes = tuple(map(settings.layer_class, {block.name: block for _, block in blocks}.values()))
        written = settings.body(paragraphs)
        return ModelText(
            title="\n".join(map(python_docstring, title(self.plan, self.plan.options.train).split("\n"))),
            signature=tuple(
                map(
                    python_docstring,
                    signature_lines(
                        self.plan, self.dims, self.tensors, self._sizes(may_state=False), self.lists
                    ),
                )
            ),
            imports="",
            name=self.name,
            source=python_docstring(self.graph.source),
            is_module=self.graph.is_module,
            base=base,
            base_arguments=base_arguments,
            members=tuple(members),
            parameters=tuple(self.arguments.signature(self._plain())),
            checks=tuple(checks),
            sizes=(*unpacked, *bound),
            paragraphs=written,
            launch_arguments=tuple(self.arguments.leaf_names(self.variables)) if self.has_launch else None,
            launch_given=self.arguments.given(),
            mutates=self.arguments.mutated(),
            blocks=classes,
            constants=(*constants, *settings.lines(sizes.used)),
            training=self._trained(),
            remark=remark_on_gradients(self.plan.results, self.words, self.training is not None),
            launch=self.launch,
            weight_functions=tuple(write_weight_functions(self.tree, self.runtime, self.imports)),
            recording=self.recording,
            recorder=recorded_by,
            functions=shared,
        )

    def _unpacked(self, asked: Set[str]) -> list[str]:
        """Lines that take leaves out of nested arguments: those that are read, asked for sizes, or written alone."""
        if self.has_launch:  # which is given the leaves
            return self.arguments.packed(self.variables, self.imports)
        read = frozenset(leaf for leaf, _ in self.arguments.leaves if self.words.nodes[leaf].users)
        return self.arguments.unpacked(self.variables, self.lists, read, asked)

    @property
    def has_launch(self) -> bool:
        """Whether forward() hands on what it is given: to a recording, or to the autograd.Function."""
        return self.records or self.training is not None


def begin(writer: ModelWriter) -> Begun:
    """The writers of the outermost function, and what modules share: in training it is asked for what calls keep."""
    body = body_writer(writer, writer._sizes(), writer._device_expression())
    return body.sizes, body, writer.share(body) if writer.has_modules_alike else ()


def _imports_of(needs: Needs) -> set[str]:
    """The lines that import what statements name."""
    imports = {f"import {name}  # noqa: F401, its operators" for name in needs.registering}
    imports |= {"import torch.nn.functional as F"} if needs.functional else set()
    return imports | ({"from . import kernels"} if needs.kernels else set())


def body_writer(writer: ModelWriter, sizes: SizeWriter, device: str) -> BodyWriter:
    """What writes the statements of a file's outermost function, which binds the words of sizes."""
    lists: list[TensorList | MadeList] = [*writer.lists, *writer.made_lists]
    body = BodyWriter(writer.plan, writer.names, writer.words, writer.variables, sizes, device, lists)
    body.whose, body.home, body.in_backward = ModulePlace(writer.tree.root), writer.home, writer.in_backward
    return body
