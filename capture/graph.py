"""The result of capture: one functional ATen graph whose every node knows the user's statement it came from.

`graph` is an ``fx.Graph`` of placeholders, ``call_function`` nodes and one output node. Rules that later rooms rely on:

* Functional: no op mutates an argument. What the model mutates leaves the graph as extra results (`Mutation`).
* Targets are ``torch.ops.aten.*`` overloads (or another namespace's custom op), ``operator.getitem`` on a
  multi-output op, and Python arithmetic on symbolic sizes. Nothing else; in particular no `prim`, no higher-order op.
* Ops that a person would write as one call, and that a library or one of our lowerings does whole, stay whole:
  see `capture/decompositions.py`. Everything else is decomposed to core ATen.
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
            (the last op of the statement), otherwise None.
        module: The path of the innermost user-visible nn.Module: ``blocks.0.attn``; empty for the root.
        module_class: That module's class name: ``Attention``, ``LayerNorm``; empty for a plain function.
    """

    statement: str = ""
    qualname: str = ""
    file: str = ""
    line: int = 0
    local: str | None = None
    module: str = ""
    module_class: str = ""


class InputKind(enum.Enum):
    """What feeds a placeholder."""

    ARGUMENT = "argument"  # a tensor among the call's arguments (flattened)
    SIZE = "size"  # an int among the call's arguments that is symbolic
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
            user's own name for it (``x``, or ``batch_mask`` for a leaf of the argument `batch`).
        persistent: False only for buffers that are not in the state_dict.
    """

    node: str
    kind: InputKind
    target: str
    persistent: bool = True


@dataclasses.dataclass(frozen=True)
class Mutation:
    """After the call, the tensor behind `input_node` holds the value of `value_node`."""

    input_node: str
    value_node: str


class AliasKind(enum.Enum):
    """How a result of the call relates to memory that the caller can see already."""

    FRESH = "fresh"
    INPUT = "input"  # a view of (or the very same as) an input: `GraphOutput.base` is that placeholder's name
    OUTPUT = "output"  # a view of an earlier result: `GraphOutput.base` is its position among the outputs


@dataclasses.dataclass(frozen=True)
class GraphOutput:
    """One leaf of what the call returns.

    Attributes:
        value: The name of the node that computes it, or a Python constant (None, int, str, ...) wrapped in `Literal`.
        alias: Whether it must share memory with an input or an earlier output, as eager's would.
        base: See AliasKind; None when fresh. With INPUT and a `value` that is that placeholder, it is the same object.
    """

    value: str | Literal
    alias: AliasKind = AliasKind.FRESH
    base: str | int | None = None


@dataclasses.dataclass(frozen=True)
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
    """

    symbol: sympy.Symbol
    name: str
    input_node: str
    dim: int | None
    example: int
    minimum: int = 2
    maximum: int | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class CapturedGraph:
    """One captured call of a module or function.

    Attributes:
        name: The class or function captured: ``Attention``, ``add_layer_norm``.
        source: Its importable name for headers: ``examples.attention.Attention``.
        is_module: Whether it was an nn.Module (it then has parameters, a state_dict and sub-modules).
        graph: The functional ATen graph; see the module's docstring.
        inputs: One for each placeholder, in order.
        mutations: What the call writes into its inputs, parameters or buffers, in order.
        outputs: The leaves of what the call returns, in order.
        signature: The user's parameter names of forward (or of the function), in order, self left out.
        in_spec: The tree of ``(args, kwargs)`` whose tensor leaves are the ARGUMENT inputs, in order.
        argument_leaves: For each leaf of `in_spec`: the placeholder's name, or a Literal that was specialized on.
        out_spec: The tree of the result whose leaves are `outputs`.
        constants: The values of CONSTANT inputs and of buffers that are not in the state_dict, by target.
        tied: Groups of parameter or buffer paths that share one tensor; each group's first path is the one
            that `inputs` uses.
        shared_storage: Groups of placeholders whose tensors overlap in memory without being the same (the call must
            be given inputs that do not, or run in eager).
        symbols: The symbolic sizes.
        grad_inputs: Placeholders whose tensor required grad at capture.
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
    grad_inputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The graph as runnable Python, each statement quoted above the nodes that it became."""
        lines = [f"# {self.source}", ""]
        for entry in self.inputs:
            lines.append(f"# {entry.node}: {entry.kind.value} {entry.target}")
        quoted = ""
        for node in self.graph.nodes:
            origin = node.meta.get("provenance", Provenance())
            if origin.statement and origin.statement != quoted:
                quoted = origin.statement
                lines += ["", f"# {origin.qualname}    {quoted}"]
            if node.op != "placeholder":
                lines.append(str(node.format_node()).replace("%", ""))
        for mutation in self.mutations:
            lines.append(f"# after the call, {mutation.input_node} holds {mutation.value_node}")
        return "\n".join(lines) + "\n"
