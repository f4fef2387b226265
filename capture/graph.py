"""The result of capture: one functional ATen graph whose every node knows the user's statement it came from.

`graph` is an ``fx.Graph`` of placeholders, ``call_function`` nodes and one output node. Rules that later rooms rely on:

* Functional: no op mutates an argument. What the model mutates leaves the graph as extra results (`Mutation`).
* Targets are ``torch.ops.aten.*`` overloads (or another namespace's custom op), ``operator.getitem`` on a
  multi-output op, and Python arithmetic on symbolic sizes. Nothing else; in particular no `prim`, no higher-order op.
* Ops that a person would write as one call, and that a library or one of our lowerings does whole, stay whole:
  see `capture/functionalize/decompositions.py`. Everything else is decomposed to core ATen.
* Every node has ``meta["val"]`` (fake tensor, tuple of them, or symbolic number) on the target's device kind as far
  as `device_of` tells, and ``meta["provenance"]`` (`Provenance`).
* Node names are the user's local names where there is one (``scores``), otherwise the op's (``softmax``).
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch import fx

# What the later rooms ask of an operator in the graph that is not ATen's.
from longhand.capture.autograd.eager_derivative import Differentiated as Differentiated
from longhand.capture.autograd.eager_derivative import differentiated as differentiated
from longhand.capture.data_sizes import READS as READS
from longhand.capture.data_sizes import DataSize as DataSize
from longhand.capture.data_sizes import node_depends_on_data as node_depends_on_data
from longhand.capture.functionalize.batch_normalized import batch_normalized_op as batch_normalized_op
from longhand.capture.known.channel_pieces import FEWEST_PIXELS as FEWEST_PIXELS
from longhand.capture.known.channel_pieces import has_channel_pieces as has_channel_pieces
from longhand.capture.known.ranges import is_overwritten as is_overwritten
from longhand.capture.known.ranges import range_of as range_of
from longhand.capture.nan_equality import nan_equals_itself as nan_equals_itself
from longhand.capture.reading.graph_text import call_text, described, spelled
from longhand.capture.reading.list_members import is_view as is_view
from longhand.capture.reading.list_members import list_members as list_members
from longhand.capture.reading.list_members import members_reading as members_reading
from longhand.capture.roles import Role as Role
from longhand.capture.tensor_leaves import tensors_in as tensors_in
from longhand.capture.torch_private import registered_by as registered_by

PADDED_FOR_SPEED = "padded_for_speed"  # in the meta: wider than the user's, which a library takes faster


class GradientPart(enum.Enum):
    """How much of a value's gradient a node of a backward pass is."""

    WHOLE = "whole"
    SUMMAND = "summand"  # one of several that are added up
    UNSCALED = "unscaled"  # all of it but the factor that the loss's own gradient is


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Where a node came from, in the user's words.

    Attributes:
        statement: The user's whole statement on one line, whitespace normalized, without comments:
            ``scores = q @ k.transpose(-2, -1)``. Empty where the source is not to be had.
        qualname: The function that holds it: ``Attention.forward``.
        file: The absolute path of its file.
        line: The line on which the statement begins, from 1.
        local: The name that the statement assigns this node's value to (``scores``), if this node is that value
            (its last op), otherwise None. Of a value that a function returns without having named it
            (``return t.transpose(1, 2)``) the name that the caller's statement assigns it to.
        module: The path of the innermost user-visible nn.Module: ``blocks.0.attn``; empty for the root.
        module_class: That module's class name: ``Attention``, ``LayerNorm``; empty for a plain function.
        around: (path, class name) of the modules that it stands in, outermost first.
        differentiates: In a backward pass: the node of the forward whose derivative the node is part of.
        differentiated: The op of that node: ``gelu``; empty for ops that only move data and for sums of gradients.
        gradient_of: In a backward pass: the node of the forward that the node is the gradient of.
        part: How much of that gradient it is.
        role: What the node is in a derivative that longhand has a rule for.
        remark: Of a node that longhand added: why, in one sentence.
        checkpoint: The number of the checkpointed region that it stands in, whose values are computed again; or 0.
    """

    statement: str = ""
    qualname: str = ""
    file: str = ""
    line: int = 0
    local: str | None = None
    module: str = ""
    module_class: str = ""
    differentiates: str = ""
    differentiated: str = ""
    gradient_of: str = ""
    part: GradientPart = GradientPart.WHOLE
    role: Role | None = None
    remark: str = ""
    checkpoint: int = 0
    around: tuple[tuple[str, str], ...] = ()

    @property
    def is_of_gradient(self) -> bool:
        """Whether it is part of a derivative: in a backward pass all else is the forward pass's, computed again."""
        return bool(self.differentiates or self.gradient_of)

    @classmethod
    def of(cls, node: fx.Node) -> Provenance:
        """Where a node came from; an empty one where nothing tells."""
        provenance: Provenance = node.meta.get("provenance", cls())
        return provenance


class InputKind(enum.Enum):
    """What feeds a placeholder."""

    ARGUMENT = "argument"  # a tensor among the call's arguments (flattened)
    SIZE = "size"  # an int among the call's arguments that is symbolic
    PART = "part"  # a slice of an argument along its first dimension: see GraphInput.part
    PARAMETER = "parameter"
    BUFFER = "buffer"  # persistent or not: see GraphInput.persistent
    CONSTANT = (
        "constant"  # a tensor that the code closes over or creates from data; its value is in `constants`
    )


@dataclasses.dataclass(frozen=True)
class GraphInput:
    """One placeholder, in the order of the graph.

    Attributes:
        node: The placeholder's name.
        kind: What feeds it.
        target: The dotted path of a parameter, buffer or constant (``blocks.0.ln_1.weight``); for an argument the
            user's own name for it (``x``, or ``batch_mask`` for a leaf of the argument `batch`); for a part ``x[3]``.
        persistent: False only for buffers that are not in the state_dict.
        is_nonnegative: Whether no element of an argument is below zero in the example call, so that no random one is.
        part: Of a part: the argument's placeholder, and which slice of it.
    """

    node: str
    kind: InputKind
    target: str
    persistent: bool = True
    is_nonnegative: bool = False
    part: tuple[str, int] | None = None

    @property
    def is_given(self) -> bool:
        """Whether the caller gives it with each call."""
        return self.kind in (InputKind.ARGUMENT, InputKind.SIZE, InputKind.PART)


@dataclasses.dataclass(frozen=True)
class Mutation:
    """After the call, the tensor behind `input_node` holds the value of `value_node`."""

    input_node: str
    value_node: str


class AliasKind(enum.Enum):
    """How a result of the call relates to memory that the caller can see already."""

    FRESH = "fresh"
    INPUT = "input"  # a view of (or the very same as) an input: `GraphOutput.base` is that placeholder's name
    OUTPUT = "output"  # a view of an earlier result, or of a base: `GraphOutput.base` is its position among the outputs


@dataclasses.dataclass(frozen=True)
class GraphOutput:
    """One leaf of what the call returns.

    Attributes:
        value: The name of the node that computes it, or a Python constant (None, int, str, ...) wrapped in `Literal`.
        alias: Whether it must share memory with an input or an earlier output, as eager's would.
        base: See AliasKind; None when fresh: then the value is no view of a placeholder or of another result.
        is_detached: Of a view: whether autograd takes it for none (in training of what carries gradients alone).
        is_anew: Of what aliases: whether it is a tensor object of its own, though it may show all of its base.
    """

    value: str | Literal
    alias: AliasKind = AliasKind.FRESH
    base: str | int | None = None
    is_detached: bool = False
    is_anew: bool = False


@dataclasses.dataclass(frozen=True)
@nan_equals_itself
class Literal:
    """A result that is no tensor."""

    value: Any


@dataclasses.dataclass(frozen=True)
class SymbolicSize:
    """A size that may differ from call to call.

    Attributes:
        symbol: The SymPy symbol (positive integer) that stands in every ``meta["val"]`` shape.
        name: A word for it, from the user's own code or mark: ``batch``, ``seq``.
        input_node: The placeholder that tells its value at run time.
        dim: The dimension of that placeholder; None if the placeholder is itself the int.
        example: The value at capture.
        minimum: Smallest value that the graph is right for (at least 2 unless asked otherwise).
        maximum: Largest, or None.
        scale: With `offset`: the dimension is ``scale * symbol + offset``, where no dimension is the symbol itself.
        offset: See `scale`.
    """

    symbol: sympy.Symbol
    name: str
    input_node: str
    dim: int | None
    example: int
    minimum: int = 2
    maximum: int | None = None
    scale: int = 1
    offset: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class CapturedGraph:
    """One captured call of a module or function.

    Attributes:
        name: The class or function captured: ``Attention``, ``add_layer_norm``.
        source: Its importable name for headers: ``examples.attention.Attention``.
        is_module: Whether it was an nn.Module (it then has parameters, a state_dict and sub-modules).
        graph: The functional ATen graph; see the module's docstring.
        inputs: One for each placeholder, in order.
        mutations: What the call writes into its inputs, parameters or buffers, in order. `graph`'s output node lists
            the results that are no Literal, then these values.
        outputs: The leaves of what the call returns, in order.
        signature: The user's parameter names of forward (or of the function), in order, self left out.
        in_spec: The tree of ``(args, kwargs)`` whose tensor leaves are the ARGUMENT inputs, in order. Keyword
            arguments are in the order of `signature`, whatever the caller's.
        argument_leaves: For each leaf of `in_spec`: the placeholder's name, or a Literal that was specialized on.
        out_spec: The tree of the result whose leaves are `outputs`.
        constants: The values of CONSTANT inputs and of buffers that are not in the state_dict, by target.
        tied: Groups of parameter or buffer paths that share one tensor; `inputs` has the first of each.
        shared_storage: Groups of placeholders whose tensors overlap in memory without being the same (the call must
            be given inputs that do not, or run in eager).
        symbols: The symbolic sizes.
        data_sizes: The sizes that depend on data. Nodes that have to do with them are no kernels.
        conditions: What else must hold of the symbols where the graph is to be right: ``Eq(Mod(s0, 4), 0)``.
        grad_inputs: Placeholders whose tensor required grad at capture.
        rewritten: Placeholders that the caller writes into after the call: the backward pass cannot read them.
        n_bases: In training: how many `outputs` after the results are no results, but what results are views of.
        n_saved: How many of the last `outputs` the backward pass reads. `out_spec` has neither these nor bases.
        facts: What the graph relies on besides its tensors, for people: ``blocks.*.attn: n_heads = 4``. Only
            longhand's own capture tells them.
        mode: Whether the module was in training mode, where it computes otherwise in the other mode; else None.
        paths: In a backward graph: the dotted path of the parameter or buffer that a placeholder stands for, or that
            a result is the gradient of, by the node's name.
        given: In a backward graph: the placeholders of what the forward pass computed.
        of_module: In a backward graph: whether the forward pass is a module's, which holds the weights of `paths`.
    """

    name: str
    source: str
    is_module: bool
    graph: fx.Graph
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    signature: tuple[str, ...]
    in_spec: pytree.TreeSpec
    argument_leaves: tuple[str | Literal, ...]
    out_spec: pytree.TreeSpec
    mutations: tuple[Mutation, ...] = ()
    constants: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    tied: tuple[tuple[str, ...], ...] = ()
    shared_storage: tuple[tuple[str, ...], ...] = ()
    symbols: tuple[SymbolicSize, ...] = ()
    data_sizes: tuple[DataSize, ...] = ()
    conditions: tuple[sympy.Basic, ...] = ()
    grad_inputs: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    n_bases: int = 0
    n_saved: int = 0
    facts: tuple[str, ...] = ()
    mode: bool | None = None
    paths: dict[str, str] = dataclasses.field(default_factory=dict)
    given: tuple[str, ...] = ()
    of_module: bool = False

    @property
    def examples(self) -> dict[sympy.Symbol, int]:
        """A value for each symbol: what a size was at capture."""
        given = {size.symbol: size.example for size in self.symbols}
        return given | {size.symbol: size.example for size in self.data_sizes}

    @property
    def waits_for_data(self) -> bool:
        """Whether the host reads what the call computes: how many elements there are, or a number to return."""
        reads = (node.target in READS for node in self.graph.nodes)
        return bool(self.data_sizes) or any(reads)

    @property
    def n_results(self) -> int:
        """How many of the first `outputs` the call returns."""
        return len(self.outputs) - self.n_bases - self.n_saved

    @property
    def written(self) -> frozenset[str]:
        """Placeholders that the call writes into, and arguments that it writes a part of."""
        written = {mutation.input_node for mutation in self.mutations}
        wholes = (entry.part[0] for entry in self.inputs if entry.part is not None and entry.node in written)
        return frozenset({*written, *wholes})

    @property
    def overwritten(self) -> frozenset[str]:
        """Placeholders whose value is another one after the call."""
        return frozenset([*(mutation.input_node for mutation in self.mutations), *self.rewritten])

    def __str__(self) -> str:
        """The graph as runnable Python: a function of the placeholders that returns the results, then what is written.

        Each statement of the user's is quoted above the calls that it became.
        """
        values = {node.name: node.meta.get("val") for node in self.graph.nodes}
        lines = ["import operator", "", "import torch", "from torch import device, inf, nan", "", ""]
        lines += [f"# {self.source}", "def forward("]
        for entry in self.inputs:
            told = f"{entry.kind.value} {entry.target}: {described(values[entry.node])}"
            lines.append(f"    {entry.node},  # {told}")
        lines.append("):")
        quoted = ""
        for node in self.graph.nodes:
            if node.op == "placeholder":
                continue
            origin = Provenance.of(node)
            if origin.statement and origin.statement != quoted:
                quoted = origin.statement
                lines += ["", f"    # {origin.qualname}    {quoted}"]
            if node.op == "output":
                lines += ["", f"    return {spelled(node.args[0])}"]
            else:
                lines.append(f"    {node.name} = {call_text(node)}  # {described(node.meta.get('val'))}")
        lines += ["", ""]
        for position, output in enumerate(self.outputs):
            shown = output.value.value if isinstance(output.value, Literal) else output.value
            shares = (
                ""
                if output.alias is AliasKind.FRESH
                else f", shares memory with {output.alias.value} {output.base}"
            )
            lines.append(f"# result {position}: {shown}{shares}")
        for mutation in self.mutations:
            lines.append(f"# after the call, {mutation.input_node} holds {mutation.value_node}")
        return "\n".join(lines) + "\n"


class BackwardKind(enum.Enum):
    """What feeds a placeholder of a backward pass."""

    INPUT = "input"  # an input of the forward: an argument, a weight
    RESULT = "result"  # a result of the forward
    SAVED = "saved"  # a value that the forward hands over
    GRADIENT = "gradient"  # the gradient of a result


@dataclasses.dataclass(frozen=True)
class BackwardInput:
    """One placeholder of a backward pass.

    Attributes:
        node: Its name in the backward graph.
        kind: What feeds it.
        source: With INPUT the forward's placeholder; otherwise the position among the forward's `outputs`.
    """

    node: str
    kind: BackwardKind
    source: str | int


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingGraphs:
    """A captured call, differentiated.

    Attributes:
        forward: The call; its last `n_saved` outputs are for the backward.
        backward: A function of `inputs` that returns the gradients.
        inputs: What feeds the backward's placeholders, in order.
        gradients: The forward's placeholders whose gradients the backward returns, in order.
        differentiable: Positions of the forward's outputs that gradients come for.
        report: What is saved and what is computed again, in words and bytes.
        flows: For each of `gradients`: the places in `differentiable` of the results that it comes from.
    """

    forward: CapturedGraph
    backward: CapturedGraph
    inputs: tuple[BackwardInput, ...]
    gradients: tuple[str, ...]
    differentiable: tuple[int, ...]
    report: str
    flows: tuple[frozenset[int], ...]
