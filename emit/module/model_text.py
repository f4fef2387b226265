"""What model.py consists of: what a call is given and returns, its layers' classes, and what its template prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

import torch
import torch.utils._pytree as pytree

from longhand.capture.graph import CapturedGraph, GraphOutput, InputKind
from longhand.emit.layers.class_names import TakenNames
from longhand.emit.layers.layers_in_turn import CallText, as_variants, write_rounds
from longhand.emit.layers.model_loops import LayerClass, write_first_call, write_loop
from longhand.emit.layers.shared_functions import SharedFunction
from longhand.emit.layers.stage_classes import loop_path, share_classes, with_layers_held
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.model_weights import BlockClass, WeightFunctionText, construct_block
from longhand.emit.module.module_tree import ModuleTree
from longhand.emit.module.paragraphs import (
    LineKind,
    Paragraph,
    WrittenParagraph,
    kind_of,
    returned_value,
)
from longhand.emit.module.trained_call import TrainedCall
from longhand.emit.module.trees import MadeList, Parameter, TensorList, build, parameters
from longhand.emit.module.view_calls import argument
from longhand.emit.text.expression import literal_text
from longhand.emit.text.sizes import SizeWriter
from longhand.schedule.named_plan import (
    FirstCall,
    LayerCall,
    Loop,
    ModelStep,
    Reached,
    does_the_same,
    layers_called,
    parameters_in_order,
)
from longhand.schedule.names.words import identifier
from longhand.schedule.plan import UnitPlan


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """model.py and what it needs of the other files.

    Attributes:
        text: The source, not yet formatted.
        exported: The class or function that the unit exports.
        launch: What runs the kernels without the checks.
        records: Whether that is recorded: a call replays it.
        runtime_names: What it imports from runtime.py.
        stored: Values of constants.pt, by name.
    """

    text: str
    exported: str
    launch: str
    records: bool
    runtime_names: frozenset[str]
    stored: Mapping[str, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class ModelText:
    """What templates/model/model.py.jinja prints.

    Attributes:
        title: The first line of the file.
        signature: What comes in and what goes out, a line each.
        imports: Sorted.
        name: The class or function.
        source: The original's importable name.
        is_module: Whether to print a class.
        base: The class's base.
        base_arguments: What its constructor is given.
        members: Lines of ``__init__``.
        parameters: Of forward, with defaults.
        checks: Lines that check what came.
        sizes: Lines that bind sizes to words.
        paragraphs: Of the body.
        launch_arguments: With CUDA graphs or in training: the parameters of launch().
        launch_given: What forward() gives it.
        mutates: The numbers of those that it writes to.
        blocks: Classes of repeated blocks.
        weight_functions: What makes the weights of modules that hold the same but for sizes.
        constants: Lines that bind module-level constants (functions only).
        training: In training: what forward() returns, a call of backward.py's autograd.Function.
        remark: What the docstring of launch() says besides, or empty.
        launch: The method that runs what forward() checked: ``launch``, unless the module has something of that name.
        recording: The attribute that holds the CUDA graphs.
        recorder: What makes it; empty where nothing is recorded.
        functions: What the user wrote once and calls several times.
    """

    title: str
    signature: tuple[str, ...]
    imports: str
    name: str
    source: str
    is_module: bool
    base: str
    base_arguments: str
    members: tuple[str, ...]
    parameters: tuple[str, ...]
    checks: tuple[str, ...]
    sizes: tuple[str, ...]
    paragraphs: tuple[WrittenParagraph, ...]
    launch_arguments: tuple[str, ...] | None
    launch_given: tuple[str, ...]
    mutates: tuple[int, ...]
    blocks: tuple[LayerClass, ...]
    constants: tuple[str, ...]
    training: tuple[str, ...] = ()
    remark: str = ""
    launch: str = "launch"
    weight_functions: tuple[WeightFunctionText, ...] = ()
    recording: str = "_graph"
    recorder: str = ""
    functions: tuple[SharedFunction, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class CallArguments:
    """The arguments of forward().

    Attributes:
        graph: The captured graph.
        parameters: Of forward(), in order.
        leaves: (placeholder, path) of what stands in the arguments: ``("batch_mask", 'batch["mask"]')``.
    """

    graph: CapturedGraph
    parameters: tuple[Parameter, ...]
    leaves: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, graph: CapturedGraph) -> CallArguments:
        """Those of a captured graph."""
        given = parameters(graph)
        leaves = ((leaf, path) for one in given for leaf, path in one.leaves if isinstance(leaf, str))
        return cls(graph, given, tuple(leaves))

    def tensors(self) -> list[tuple[str, str]]:
        """(placeholder, expression that reaches it) of the call's tensors."""
        kinds = {entry.node: entry.kind for entry in self.graph.inputs}
        return [(leaf, path) for leaf, path in self.leaves if kinds.get(leaf) is InputKind.ARGUMENT]

    def given(self) -> tuple[str, ...]:
        """What forward() gives launch(): ``batch["mask"]``."""
        return tuple(path for _, path in self.leaves)

    def leaf_names(self, variables: Mapping[str, str]) -> list[str]:
        """The parameters of launch(): the leaves of the call's arguments, by their words."""
        words = [(variables[leaf], path) for leaf, path in self.leaves]
        return [identifier(path) if isinstance(word, Reached) else word for word, path in words]

    def packed(self, variables: Mapping[str, str], imports: set[str]) -> list[str]:
        """Lines of launch() that put lists together again of which layers take an entry each, and what they import."""
        types: set[tuple[str, str]] = set()
        words = dict(zip((leaf for leaf, _ in self.leaves), self.leaf_names(variables), strict=True))
        lines = []
        for name, spec, leaves in parameters_in_order(self.graph):
            if any(isinstance(leaf, str) and isinstance(variables[leaf], Reached) for leaf in leaves):
                texts = [
                    words[leaf] if isinstance(leaf, str) else literal_text(leaf.value) for leaf in leaves
                ]
                lines.append(f"{name} = {build(spec, iter(texts), types)}")
        imports |= {f"from {module} import {name.partition('.')[0]}" for module, name in types}
        return lines

    def mutated(self) -> tuple[int, ...]:
        """Which of the launch arguments the model writes to."""
        return tuple(place for place, (leaf, _) in enumerate(self.leaves) if leaf in self.graph.written)

    def signature(self, sizes: SizeWriter) -> Iterator[str]:
        """The parameters of forward(), with their defaults where all that follow have one."""
        may_have_default = [
            all(p.has_default for p in self.parameters[i:]) for i in range(len(self.parameters))
        ]
        for parameter, with_default in zip(self.parameters, may_have_default, strict=True):
            default = f"={argument(parameter.default, sizes)}" if with_default else ""
            yield f"{parameter.name}{default}"

    def unpacked(
        self,
        variables: Mapping[str, str],
        lists: Sequence[TensorList],
        read: frozenset[str],
        asked: Set[str],
    ) -> list[str]:
        """Lines that take leaves out of nested arguments: those that are read, asked for sizes, or written alone."""
        in_lists = {node for one in lists for node in one.nodes}
        written = {mutation.input_node for mutation in self.graph.mutations} - in_lists
        return [
            f"{variable} = {path}"
            for leaf, path in self.leaves
            if (variable := variables[leaf]) != path
            and (leaf in read or leaf in written or variable in asked)
        ]


@dataclasses.dataclass(frozen=True)
class WrittenLayers:
    """All loops of a function.

    Attributes:
        blocks: Each loop with the class (in a backward pass the function) that it calls, in order.
        lines: By the step's place: the lines of a loop, and of the call of the run before it.
    """

    blocks: tuple[tuple[Loop, LayerClass], ...]
    lines: Mapping[int, list[str]]

    @property
    def runtime_names(self) -> frozenset[str]:
        """What the classes need of runtime.py."""
        return frozenset().union(*(block.runtime_names for _, block in self.blocks))


LoopWriter = Callable[[Loop, BodyWriter, TakenNames], tuple[LayerClass, list[str]]]
CallWriter = Callable[[LayerCall, LayerClass, BodyWriter], CallText]


def write_layers(
    steps: Sequence[ModelStep],
    name: str,
    plan: UnitPlan,
    tree: ModuleTree,
    body: BodyWriter,
    write: LoopWriter,
    write_call: CallWriter,
) -> WrittenLayers:
    """Writes every loop among the steps.

    Args:
        steps: Of the function.
        name: Of the graph, which no class may have.
        plan: The unit's plan.
        tree: Its modules.
        body: The writer of the function around the loops.
        write: Writes a loop's class (in a backward pass its function), and its lines; none if layers come in turn.
        write_call: Writes the call of one of several kinds of layers in turn.
    """
    lines: dict[int, list[str]] = {}
    blocks: list[tuple[Loop, LayerClass]] = []
    of_loop: dict[int, LayerClass] = {}
    in_turn: dict[int, list[CallText]] = {}  # by the place of the last of the calls
    for place, step in enumerate(steps):
        if not isinstance(step, Loop | LayerCall):
            continue
        loop = step.loop if isinstance(step, LayerCall) else step
        if id(loop) not in of_loop:
            known = _known_block(loop, blocks, plan)
            if known is None:
                taken = {name: "", **{made.name: other.owner for other, made in blocks}}
                of_loop[id(loop)], lines[place] = write(loop, body, taken)
            else:
                of_loop[id(loop)] = known
                lines[place] = [] if loop.is_in_turn else write_loop(loop, known, tree.root, body)
            blocks.append((loop, of_loop[id(loop)]))
            if loop.n_head:
                lines |= _first_call(steps, place, loop, of_loop[id(loop)], tree, body)
        if isinstance(step, LayerCall):
            lines[place] = []
            group = place - 1 if place - 1 in in_turn else place
            in_turn[place] = [*in_turn.pop(group, []), write_call(step, of_loop[id(loop)], body)]
    for last, calls in in_turn.items():
        lines[last + 1 - len(calls)] = write_rounds(calls)
    variants = as_variants(blocks) if in_turn else blocks
    shared = share_classes(variants, tree) if len(variants) > 1 else variants
    return WrittenLayers(tuple(with_layers_held(shared, tree) if shared else shared), lines)


def _first_call(
    steps: Sequence[ModelStep], place: int, loop: Loop, block: LayerClass, tree: ModuleTree, body: BodyWriter
) -> dict[int, list[str]]:
    """The lines of the call that the layer before a loop is, by its place."""
    call = max(n for n in range(place) if isinstance(steps[n], FirstCall))
    first = steps[call]
    assert isinstance(first, FirstCall)
    return {call: write_first_call(first, loop, block, tree.root, body)}


def _known_block(loop: Loop, before: Sequence[tuple[Loop, LayerClass]], plan: UnitPlan) -> LayerClass | None:
    """The class of an earlier loop over the same list, if this one does the same."""
    if loop.own or loop.n_head:
        return None
    same = (block for other, block in before if does_the_same(loop, other, plan.buffers))
    return next(same, None)


def classes_of(blocks: Sequence[tuple[Loop, LayerClass]], tree: ModuleTree) -> dict[str, list[BlockClass]]:
    """Which blocks of each list have which class."""
    classes: dict[str, list[BlockClass]] = {}
    for loop, block in blocks:
        first = loop_path(loop)
        made = construct_block(tree, first, block.position)
        classes.setdefault(loop.owner, []).append(
            BlockClass(
                block.name,
                layers_called(loop),
                made,
                block.position,
                block.arguments.get(first, ""),
            )
        )
    return classes


def built(
    spec: pytree.TreeSpec,
    texts: Iterator[str],
    lists: Sequence[MadeList],
    types: set[tuple[str, str]],
    is_bare: bool = False,
) -> str:
    """What the user's call returns, put together from its leaves.

    Args:
        spec: How the leaves hang together.
        texts: Of the leaves.
        lists: Those that the call makes, which go by their words.
        types: Is given (module, name) of the user's classes that the text names.
        is_bare: Whether a tuple is to be without its parentheses.
    """
    entries: dict[tuple[str, ...], str] = {
        tuple(Reached(one.name, place) for place in range(len(one.nodes))): one.name for one in lists
    }
    return build(spec, texts, types, entries, is_bare)


def end_with(paragraphs: list[Paragraph], returned: str, variable: str = "", rest: str = "") -> None:
    """Appends the return statement, or makes the last statement it.

    Args:
        paragraphs: What comes before.
        returned: What is returned.
        variable: Of a single tensor: what holds it.
        rest: What follows the variable: ``.view(batch, seq)``.
    """
    if returned == "None" and paragraphs:
        return
    last = paragraphs[-1].lines[-1] if paragraphs and paragraphs[-1].lines else ""
    value = returned_value(last, [variable]) if variable and returned == f"{variable}{rest}" else None
    if value is not None:
        is_atom = not rest or value.is_atom
        paragraphs[-1].lines[-1] = f"return {value}{rest}" if is_atom else f"return ({value}){rest}"
        return
    if paragraphs and paragraphs[-1].lines and kind_of(last) is not LineKind.RELEASE:
        paragraphs[-1].lines.append(f"return {returned}")
    else:
        paragraphs.append(Paragraph((), [f"return {returned}"]))


def recorder(launch: str, is_module: bool, mutated: tuple[int, ...], training: TrainedCall | None) -> str:
    """What records the call as a CUDA graph, or in training its two passes.

    Args:
        launch: What forward() hands the call to.
        is_module: Whether it is a method.
        mutated: The numbers of the arguments that it writes to.
        training: In training: what backward.py has.
    """
    if training is None:
        return f"CudaGraph({launch}, mutates={mutated})"
    owner = ["self"] if is_module else []
    return f"TrainingGraph({', '.join([training.forward, training.differentiate, *owner, f'mutates={mutated}'])})"


def as_object(text: str, output: GraphOutput, base: str) -> str:
    """A result as the tensor object that eager returns.

    Args:
        text: The view that it is.
        output: What is known of it: without gradients where it has none, and another object than its base.
        base: The variable that the view is taken of.
    """
    if output.is_detached:
        return f"{text}.detach()"
    return f"{text}[...]" if output.is_anew and text == base else text


def mode_lines(training: TrainedCall | None, variables: Mapping[str, str], mode: bool | None) -> list[str]:
    """The lines of ``__init__`` that say what is trained, if the module is; and that it is in evaluation mode."""
    lines = [] if training is None else ["self.requires_grad_()"]
    lines += [f"{variables[node]}.requires_grad_(False)" for node in (training.frozen if training else ())]
    return [*lines, "self.eval()"] if mode is False else lines
