"""From what a frontend traced to a CapturedGraph: functional, canonical, named, its memory relations written down."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private
from longhand.capture.attention.groups import repeat_keys
from longhand.capture.attention.hidden_rows import FedValue
from longhand.capture.attention.one_call import call_attention
from longhand.capture.data_sizes import data_sizes
from longhand.capture.devices import move_to_target
from longhand.capture.frontends.data_dependence import READS, place, refuse_data_dependence
from longhand.capture.frontends.dynamo_run import note_of
from longhand.capture.frontends.node_names import named
from longhand.capture.frontends.overwritten import refuse_overwritten
from longhand.capture.frontends.refused_numbers import refuse_numbers
from longhand.capture.frontends.regions import inline_region
from longhand.capture.frontends.repeated_writes import refuse_repeated_writes
from longhand.capture.frontends.result_objects import looks_of
from longhand.capture.frontends.results import results_of
from longhand.capture.functionalize.canonicalize import RULES, TRAINING_RULES
from longhand.capture.functionalize.dead_code import remove_dead_code
from longhand.capture.functionalize.functional_graph import CannotFunctionalize
from longhand.capture.functionalize.functional_proxies import Memory, Number, Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.functionalize.gradient_tracking import GradientTracking
from longhand.capture.functionalize.parts_beside_writes import read_beside_writes
from longhand.capture.functionalize.writes import rule_for_write
from longhand.capture.graph import (
    AliasKind,
    CapturedGraph,
    GraphInput,
    GraphOutput,
    InputKind,
    Literal,
    Mutation,
)
from longhand.capture.known.biases import make_biases
from longhand.capture.known.equal_constants import with_equal_constants_once
from longhand.capture.known.filled import fill_parts
from longhand.capture.known.fold import fold_known
from longhand.capture.known.spelling import Emit
from longhand.capture.known.tables import with_tables
from longhand.capture.known.unread import without_unread_values
from longhand.capture.own_derivatives import given_op
from longhand.capture.provenance import assign_provenance
from longhand.capture.size_conditions import size_conditions
from longhand.capture.sizes import symbolic_sizes
from longhand.capture.tensor_leaves import tensors_in
from longhand.capture.trace_isolation import own_types
from longhand.errors import CaptureError
from longhand.options import Target

aten = torch.ops.aten


@dataclasses.dataclass(frozen=True, eq=False)
class Traced:
    """What a frontend hands over: a graph of ATen calls that may still write, and what it knows about the call.

    Attributes:
        module: The traced graph; every node has its eager fake value and, where known, stacks.
        inputs: For each placeholder, in order: what feeds it; None for one that is to be dropped (a constant).
        leaves: The leaves of what the call returns: traced nodes or Python constants.
        size_names: Words for symbolic sizes: (placeholder name in `module`, dimension) -> name.
        train: The graph is to be differentiated: what stops gradients stays in it, as ``detach``.
        facts: See CapturedGraph.
        mode: See CapturedGraph.
        is_guarded: Whoever calls the graph checks what was decided about sizes.
        may_depend_on_data: Whether sizes may be known only when the graph runs.
        The others: see CapturedGraph, with `argument_leaves` naming the placeholders of `module`.
    """

    module: fx.GraphModule
    inputs: tuple[GraphInput | None, ...]
    leaves: tuple[Any, ...]
    name: str
    source: str
    is_module: bool
    signature: tuple[str, ...]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    argument_leaves: tuple[str | Literal, ...]
    constants: dict[str, torch.Tensor]
    tied: tuple[tuple[str, ...], ...]
    shared_storage: tuple[tuple[str, ...], ...]
    grad_inputs: tuple[str, ...]
    size_names: dict[tuple[str, int], str]
    train: bool = False
    facts: tuple[str, ...] = ()
    mode: bool | None = None
    is_guarded: bool = False
    may_depend_on_data: bool = False


@own_types()
def finalize(traced: Traced, target: Target) -> CapturedGraph:
    """The captured graph of what was traced.

    Raises:
        CaptureError: An op has no functional form, sizes depend on data, or tensors lie on several GPUs.
    """
    refuse_several_gpus(traced.module.graph, traced.name)
    if traced.train:
        refuse_overwritten(traced.module, traced.leaves, traced.grad_inputs, traced.name)
        refuse_repeated_writes(traced.module, traced.name)
    rules = {**RULES, **TRAINING_RULES} if traced.train else RULES
    gradients = GradientTracking() if traced.train else None
    rewriter = Rewriter(
        rules, rule_for_write, _fake_mode(traced.module.graph), gradients, device=target.device
    )
    known = _placeholders(rewriter, traced)
    for node in traced.module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if not node.users and node.target in READS:
            continue  # the trace knew the number, and wrote it down where it is used
        if _was_given_up(node):
            continue
        rewriter.current = node
        refuse_data_dependence(node, may_have_sizes=traced.may_depend_on_data)
        refuse_numbers(node, target.device)
        try:
            if node.op == "get_attr":
                known[node] = getattr(traced.module, node.target)
            else:
                known[node] = _copy(rewriter, node, known)
        except CannotFunctionalize as error:
            raise CaptureError(f"{error}.", where=place(node), hint=error.hint) from None
        except RuntimeError as error:
            raise CaptureError(
                f"`{node.target}` cannot be rewritten: {str(error).splitlines()[0]}.",
                where=place(node),
                hint="This is a limit of capture: please report it.",
            ) from None
    rewriter.current = None
    kept = _kept_inputs(traced, known)
    values = [known[leaf] if isinstance(leaf, fx.Node) else leaf for leaf in traced.leaves]
    mutated = [handle for _, handle in kept if isinstance(handle, Proxy) and handle.memory.version]
    outputs = results_of(rewriter, values, mutated)
    written = [(handle.memory.placeholder, rewriter.read(handle)) for handle in mutated]
    results = [output[0] for output in outputs if isinstance(output[0], fx.Node)]
    rewriter.graph.output((*results, *(node for _, node in written)))
    carrying = rewriter.gradients or ()
    read_beside_writes(rewriter.graph, lambda node: node in carrying)
    remove_dead_code(rewriter.graph)
    assign_provenance(rewriter.graph, traced.name if traced.is_module else "")
    emit = _emitter(rewriter)
    call_attention(rewriter.graph, emit, target, _given(traced, kept), lambda node: node in carrying)
    fold_known(rewriter.graph, emit, lambda node: node in carrying)
    repeat_keys(rewriter.graph, emit, target)
    fill_parts(rewriter.graph, emit)
    make_biases(rewriter.graph, emit, target.device)
    names, graph = named(rewriter.graph, {_placeholder(handle).name: entry.target for entry, handle in kept})
    move_to_target(graph, target)
    captured = without_unread_values(_assemble(traced, graph, names, known, kept, outputs, written))
    captured = with_equal_constants_once(captured)
    return with_tables(captured, target.device)


def _emitter(rewriter: Rewriter) -> Emit:
    """How a pass over the finished graph adds a call to it."""
    return lambda target, args, kwargs: rewriter.emit(target, args, kwargs)


def _given(traced: Traced, kept: list[tuple[GraphInput, Any]]) -> dict[fx.Node, FedValue]:
    """What feeds each placeholder of tensors, and the values that the unit holds itself."""
    given: dict[fx.Node, FedValue] = {}
    for entry, handle in kept:
        value = traced.constants.get(entry.target)
        is_seen = value is not None and not value.is_meta and type(value) is torch.Tensor
        given[_placeholder(handle)] = FedValue(entry.kind, value if is_seen else None)
    return given


def _copy(rewriter: Rewriter, node: fx.Node, known: dict[fx.Node, Any]) -> Any:
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return inline_region(rewriter, node, known)
    if rewriter.gradients is None and node.target is given_op:  # nobody asks for its derivative
        return [known[result] for result in node.args[0]]  # type: ignore[union-attr, index]
    if rewriter.gradients is None or not note_of(node).stops_gradients:
        return rewriter.copy(node, known, True)
    with rewriter.gradients.stopped():
        results = rewriter.copy(node, known, True)
    return rewriter.without_gradients(results)


def _was_given_up(node: fx.Node) -> bool:
    """Whether a traced call raised for the data that it asks for: what was called instead of it stands behind it."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch_private.writes(target) or node.users:
        return False
    return bool(target._schema.returns) and node.meta.get("val") is None


def _assemble(
    traced: Traced,
    graph: fx.Graph,
    names: dict[fx.Node, str],
    known: dict[fx.Node, Any],
    kept: list[tuple[GraphInput, Any]],
    outputs: list[tuple[Any, AliasKind, Any]],
    written: list[tuple[Any, fx.Node]],
) -> CapturedGraph:
    given = zip(_inputs(traced), traced.inputs, strict=True)
    by_traced = {node.name: names[_placeholder(known[node])] for node, entry in given if entry is not None}
    inputs = tuple(dataclasses.replace(entry, node=by_traced[entry.node]) for entry, _ in kept)
    used = {entry.target for entry in inputs}
    symbols = symbolic_sizes(
        graph, inputs, {(by_traced.get(n, n), d): w for (n, d), w in traced.size_names.items()}
    )
    return CapturedGraph(
        name=traced.name,
        source=traced.source,
        is_module=traced.is_module,
        graph=graph,
        inputs=inputs,
        outputs=tuple(
            GraphOutput(
                names[value] if isinstance(value, fx.Node) else Literal(value),
                alias,
                names[base] if isinstance(base, fx.Node) else base,
                looks.is_detached,
                looks.is_anew,
            )
            for (value, alias, base), looks in zip(
                outputs, looks_of(traced.leaves, outputs, known), strict=True
            )
        ),
        signature=traced.signature,
        in_spec=traced.in_spec,
        argument_leaves=tuple(
            by_traced[leaf] if isinstance(leaf, str) else leaf for leaf in traced.argument_leaves
        ),
        out_spec=traced.out_spec,
        mutations=tuple(Mutation(names[placeholder], names[node]) for placeholder, node in written),
        constants={target: value for target, value in traced.constants.items() if target in used},
        tied=traced.tied,
        shared_storage=_distinct(traced.shared_storage, by_traced),
        symbols=symbols,
        data_sizes=data_sizes(graph),
        conditions=() if traced.is_guarded else size_conditions(graph, symbols),
        grad_inputs=tuple(  # tensors that are tied are one placeholder
            dict.fromkeys(by_traced[name] for name in traced.grad_inputs if name in by_traced)
        ),
        facts=traced.facts,
        mode=traced.mode,
    )


def _placeholder(value: Proxy | Number) -> fx.Node:
    node = value.memory.placeholder if isinstance(value, Proxy) else value.node
    assert node is not None
    return node


def _distinct(groups: tuple[tuple[str, ...], ...], names: dict[str, str]) -> tuple[tuple[str, ...], ...]:
    """Groups by their final names; what became one placeholder (tied parameters) is one."""
    renamed = (tuple(dict.fromkeys(names[name] for name in group)) for group in groups)
    return tuple(group for group in renamed if len(group) > 1)


def _inputs(traced: Traced) -> list[fx.Node]:
    return [node for node in traced.module.graph.nodes if node.op == "placeholder"]


def _kept_inputs(traced: Traced, known: dict[fx.Node, Any]) -> list[tuple[GraphInput, Proxy | Number]]:
    """The inputs with their placeholder's handle; of tied ones only the first, under the group's first path."""
    first = {path: group[0] for group in traced.tied for path in group}
    kept: dict[int, tuple[GraphInput, Proxy | Number]] = {}
    for entry, node in zip(traced.inputs, _inputs(traced), strict=True):
        if entry is not None and id(known[node]) not in kept:
            tied = entry.kind in (InputKind.PARAMETER, InputKind.BUFFER)
            path = first.get(entry.target, entry.target) if tied else entry.target
            kept[id(known[node])] = (dataclasses.replace(entry, target=path), known[node])
    return list(kept.values())


def refuse_several_gpus(graph: fx.Graph, name: str) -> None:
    """A unit runs where its first argument lies: raises CaptureError where a graph's tensors lie on several GPUs."""
    first: dict[int, fx.Node] = {}
    for node in graph.nodes:
        for value in tensors_in(node.meta.get("val")):
            if value.device.type == "cuda":
                first.setdefault(value.device.index or 0, node)
    if len(first) > 1:
        gpus = ", ".join(f"cuda:{index}" for index in sorted(first))
        raise CaptureError(
            f"{name} computes on {gpus}, and a unit runs on one GPU.",
            where=place([*first.values()][1]),
            hint="Compile or generate what runs on each of them by itself: longhand.compile(model.first_half).",
        )


def _placeholders(rewriter: Rewriter, traced: Traced) -> dict[fx.Node, Any]:
    known: dict[fx.Node, Any] = {}
    first = {path: group[0] for group in traced.tied for path in group}
    tied: dict[str, Any] = {}
    for node, entry in zip(_inputs(traced), traced.inputs, strict=True):
        value = node.meta.get("val")
        if entry is None:
            known[node] = value
            continue
        path = first.get(entry.target) if entry.kind in (InputKind.PARAMETER, InputKind.BUFFER) else None
        if path is not None and path in tied:
            known[node] = tied[path]
            continue
        copy = rewriter.graph.placeholder(node.name)
        copy.meta["val"] = value
        if isinstance(value, torch.Tensor):
            carries = rewriter.gradients is not None and node.name in traced.grad_inputs
            if rewriter.gradients is not None and carries:
                rewriter.gradients.add(copy)
            known[node] = Proxy(copy, value, Memory(placeholder=copy, carries=carries))
        else:
            known[node] = Number(copy, value)
        if path is not None:
            tied[path] = known[node]
    return known


def _fake_mode(graph: fx.Graph) -> torch_private.FakeTensorMode:
    for node in graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch_private.FakeTensor):
                return torch_private.fake_mode_of(value)
    return torch_private.FakeTensorMode(allow_non_fake_inputs=False)
