"""What model.py consists of, as its template prints it, and what a call of it is given."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import torch

from longhand.capture.graph import CapturedGraph, InputKind
from longhand.emit.layers.model_loops import Block
from longhand.emit.module.tensor_lists import TensorList
from longhand.emit.module.trees import Parameter, parameters
from longhand.emit.module.view_calls import argument
from longhand.emit.text.sizes import SizeWriter


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
        paragraphs: (quotes, lines) of the body.
        launch_arguments: With CUDA graphs or in training: the parameters of launch().
        launch_given: What forward() gives it.
        mutates: The numbers of those that it writes to.
        blocks: Classes of repeated blocks.
        constants: Lines that bind module-level constants (functions only).
        training: In training: what forward() returns, a call of backward.py's autograd.Function.
        remark: What the docstring of launch() says besides, or empty.
        launch: The method that runs what forward() checked: ``launch``, unless the module has something of that name.
        recording: The attribute that holds the CUDA graphs.
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
    paragraphs: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    launch_arguments: tuple[str, ...] | None
    launch_given: tuple[str, ...]
    mutates: tuple[int, ...]
    blocks: tuple[Block, ...]
    constants: tuple[str, ...]
    training: tuple[str, ...] = ()
    remark: str = ""
    launch: str = "launch"
    recording: str = "_graph"


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
        found = parameters(graph)
        leaves = ((leaf, path) for one in found for leaf, path in one.leaves if isinstance(leaf, str))
        return cls(graph, found, tuple(leaves))

    def tensors(self) -> list[tuple[str, str]]:
        """(placeholder, expression that reaches it) of the call's tensors."""
        kinds = {entry.node: entry.kind for entry in self.graph.inputs}
        return [(leaf, path) for leaf, path in self.leaves if kinds.get(leaf) is InputKind.ARGUMENT]

    def given(self) -> tuple[str, ...]:
        """What forward() gives launch(): ``batch["mask"]``."""
        return tuple(path for _, path in self.leaves)

    def leaf_words(self, variables: Mapping[str, str]) -> list[str]:
        """The parameters of launch(): the leaves of the call's arguments, by their words."""
        return [variables[leaf] for leaf, _ in self.leaves]

    def mutated(self) -> tuple[int, ...]:
        """Which of the launch arguments the model writes to."""
        written = {mutation.input_node for mutation in self.graph.mutations}
        return tuple(place for place, (leaf, _) in enumerate(self.leaves) if leaf in written)

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
        sizes: Sequence[str],
    ) -> list[str]:
        """Lines that take leaves out of nested arguments: those that are read, by `sizes` too, or written alone."""
        in_lists = {node for one in lists for node in one.nodes}
        written = {mutation.input_node for mutation in self.graph.mutations} - in_lists
        return [
            f"{variable} = {path}"
            for leaf, path in self.leaves
            if (variable := variables[leaf]) != path
            and (leaf in read or leaf in written or any(f"{variable}.shape" in one for one in sizes))
        ]
