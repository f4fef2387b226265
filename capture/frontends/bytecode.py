"""The frontend of longhand's own capture: a call's bytecode, interpreted whole, becomes a CapturedGraph.

The same graph, with the same words, as through torch.export: parameters and buffers first, under their paths, then
constants, then the arguments. Nothing of the user's code runs, unless it cannot be one graph: then it runs once on a
copy, so that every break can be told.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx, nn

from longhand.capture import torch_private
from longhand.capture.bytecode.entry.breaks import BreakRecord
from longhand.capture.bytecode.survey import survey
from longhand.capture.bytecode.whole import BrokenCall, WholeCall, capture_whole
from longhand.capture.facts import facts_of, readable
from longhand.capture.frontends.call import (
    dynamic_dims,
    free_path,
    is_nonnegative,
    ordered_keywords,
    refuse_autocast,
    size_names,
    source_name,
    state_of,
    title,
)
from longhand.capture.frontends.dynamo import lift_literals, trace_graph
from longhand.capture.frontends.failures import capture_error
from longhand.capture.frontends.finalize import Traced, finalize
from longhand.capture.frontends.first_call import called_once, called_twice
from longhand.capture.frontends.marked_sizes import MarkedSizes
from longhand.capture.graph import CapturedGraph, GraphInput, InputKind, Literal
from longhand.capture.modes import mode_of
from longhand.capture.provenance import assigned_name, dotted_path
from longhand.capture.storages import overlapping, tied_paths
from longhand.errors import CaptureError, GraphBreakError, LonghandError
from longhand.options import Target

__all__ = ["capture_bytecode"]


def capture_bytecode(
    model: nn.Module | Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: Target,
    dynamic_shapes: Any = None,
    name: str | None = None,
    train: bool = False,
    tells_compiled: bool = True,
) -> CapturedGraph:
    """Captures one call, ``model(*args, **kwargs)``; as `capture_export` does, by interpreting its bytecode.

    Code that asks torch.compiler.is_compiling() hears that it is compiled, unless told otherwise or it raises then.

    Raises:
        GraphBreakError: The call is not one graph. The message lists every break.
        CaptureError: The call cannot be captured as one sound graph for another reason.
    """
    entry = model.forward if isinstance(model, nn.Module) else model
    refuse_autocast()
    named = ordered_keywords(entry, args, kwargs or {}, title(model, name))
    call = _separate(model, (tuple(args), named))
    leaves = pytree.tree_leaves(call)
    marked = dynamic_dims(entry, call, dynamic_shapes)
    called = title(model, name)

    def captured() -> tuple[WholeCall, MarkedSizes]:
        marks = {id(leaves[position]): marks for position, marks in marked.items()}
        return _captured(model, _positional(entry, call[0]), call[1], marks, train, tells_compiled)

    try:
        whole, sizes = captured()
    except BrokenCall as broken:
        original, copied = model, called_once(model, *call, train=train)
        try:
            if copied is None:
                raise
            model = copied
            whole, sizes = captured()
        except BrokenCall:
            raise _every_break(original, call, broken.record, train, called) from None
    if whole.changes and (dynamic_shapes or not _settles(whole, model, call, train)):
        _refuse_changes(whole, called)
    try:
        traced = _traced(whole, model, call, sizes, dynamic_shapes, name)
        sizes.refuse_fixed()
    except LonghandError:
        raise
    except Exception as error:
        raise capture_error(error, title(model, name)) from None
    return finalize(dataclasses.replace(traced, train=train), target)


def _captured(
    model: Any,
    args: dict[str, Any],
    kwargs: dict[str, Any],
    marks: Mapping[int, Any],
    train: bool,
    tells_compiled: bool = True,
) -> tuple[WholeCall, MarkedSizes]:
    """The call, and its sizes. Code that raises where it is told that it is compiled is told what eager tells it."""
    with torch.set_grad_enabled(train):
        if tells_compiled:
            sizes = MarkedSizes(marks)
            try:
                return capture_whole(model, args, kwargs, sizes), sizes
            except BrokenCall as broken:
                if not broken.raises_as_compiled:
                    raise
        sizes = MarkedSizes(marks)
        return capture_whole(model, args, kwargs, sizes, tells_compiled=False), sizes


def _refuse_changes(whole: WholeCall, called: str) -> None:
    written = ", ".join(dict.fromkeys(readable(change) for change in whole.changes))
    raise CaptureError(
        f"{called} changes {written} while it runs, which a unit would not do.",
        hint="Return it instead; a tensor that is kept belongs in a buffer that is written in place.",
    )


def _settles(whole: WholeCall, model: Any, call: tuple[tuple[Any, ...], dict[str, Any]], train: bool) -> bool:
    """Whether a call after others does the same, and writes nothing any more: Swin's blocks note their window once."""
    warm = called_twice(model, *call, train=train) if isinstance(model, nn.Module) else None
    if warm is None:
        return False
    try:
        later, _ = _captured(warm, _positional(warm.forward, call[0]), call[1], {}, train)
    except BrokenCall:
        return False
    # A memo is made by the first call, and read by later ones: equal results are all that can be asked of it.
    return not later.changes and (whole.keeps_memos or _calls(later.graph) == _calls(whole.graph))


def _calls(graph: fx.Graph) -> list[tuple[str, ...]]:
    """What a graph does, in order."""
    return [(node.op, *map(str, (node.target, node.args, node.kwargs))) for node in graph.nodes]


def _separate(
    model: Any, call: tuple[tuple[Any, ...], dict[str, Any]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call with a tensor of its own for each leaf: a unit is called with others than the example's."""
    seen = {id(tensor) for _, tensor in state_of(model)} if isinstance(model, nn.Module) else set()

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or id(leaf) not in seen:
            seen.add(id(leaf))
            return leaf
        return leaf.detach().requires_grad_(leaf.requires_grad)

    separate: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map(own, call)
    return separate


def _positional(entry: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, Any]:
    """Positional arguments by the paths that guards name them by."""
    named: dict[str, Any] = {}
    given = inspect.signature(entry).bind_partial(*args)
    for name, value in given.arguments.items():
        if given.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            named |= {f"L[{name!r}][{position}]": part for position, part in enumerate(value)}
        else:
            named[f"L[{name!r}]"] = value
    return named


@dataclasses.dataclass(frozen=True, eq=False)
class _Input:
    """A placeholder to be: what it is in the user's words, and its tensor."""

    kind: InputKind
    target: str
    tensor: torch.Tensor
    persistent: bool = True


def _traced(
    whole: WholeCall,
    model: Any,
    call: tuple[tuple[Any, ...], dict[str, Any]],
    sizes: MarkedSizes,
    dynamic_shapes: Any,
    name: str | None,
) -> Traced:
    entry = model.forward if isinstance(model, nn.Module) else model
    leaves, in_spec = pytree.tree_flatten(call)
    results, out_spec = pytree.tree_flatten(whole.result)
    _refuse_foreign(results, title(model, name))
    nodes = [leaf for leaf in results if isinstance(leaf, fx.Node)]
    whole.graph.output(tuple(nodes))
    state, words = _state(model), _leaf_words(entry, call)
    arguments = {
        position: _Input(InputKind.ARGUMENT, words[position], leaf)
        for position, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor)
    }
    given = [*state, *_constants(whole, [*state, *arguments.values()]), *arguments.values()]
    _order_placeholders(whole, given, sizes)
    module = fx.GraphModule(nn.Module(), whole.graph)
    fakes = [node.meta["example_value"] for node in whole.graph.nodes if node.op == "placeholder"]
    traced = trace_graph(module, fakes, {})
    n_before = len(given) - len(arguments)
    inputs, constants = _inputs(traced, given, n_before)
    named = [entry_.node for entry_ in inputs if entry_.kind is InputKind.ARGUMENT]
    leaf_nodes = dict(zip(arguments, named, strict=True))
    values = {entry_.target: entry_.node for entry_ in inputs}
    tensors = {values[one.target]: one.tensor for one in given}
    by_dim = size_names(entry, call, _or_literal(leaves, words, arguments), dynamic_shapes)
    outputs = iter(pytree.tree_leaves(traced.graph.output_node().args[0]))
    return Traced(
        module=traced,
        inputs=inputs,
        leaves=tuple(next(outputs) if isinstance(leaf, fx.Node) else leaf for leaf in results),
        name=title(model, name),
        source=source_name(model),
        is_module=isinstance(model, nn.Module),
        signature=tuple(inspect.signature(entry).parameters),
        in_spec=in_spec,
        out_spec=out_spec,
        argument_leaves=tuple(
            leaf_nodes[position] if position in leaf_nodes else Literal(leaf)
            for position, leaf in enumerate(leaves)
        ),
        constants=constants | {one.target: one.tensor for one in given if _is_held(one)},
        tied=tied_paths(model) if isinstance(model, nn.Module) else (),
        shared_storage=overlapping(tensors),
        grad_inputs=tuple(node for node, value in tensors.items() if value.requires_grad),
        size_names={(values[n], d): word for (n, d), word in by_dim.items() if n in values},
        facts=facts_of(whole.guards),
        mode=mode_of(model),
    )


def _is_held(given: _Input) -> bool:
    """Whether the unit must keep its value."""
    return given.kind is InputKind.CONSTANT or not given.persistent


def _or_literal(leaves: list[Any], words: list[str], arguments: Mapping[int, _Input]) -> list[str | Literal]:
    return [
        words[position] if position in arguments else Literal(leaf) for position, leaf in enumerate(leaves)
    ]


def _refuse_foreign(results: list[Any], called: str) -> None:
    """A result that is no tensor, number or the like could hold tensors that nobody would see."""
    for leaf in results:
        if not isinstance(
            leaf, fx.Node | int | float | str | bytes | complex | type(None)
        ) and not isinstance(
            leaf, torch.dtype | torch.device | torch.layout | torch.memory_format | enum.Enum
        ):
            raise CaptureError(
                f"{called} returns a {type(leaf).__qualname__}, which is no tensor and no container that torch knows.",
                hint="Register it with torch.utils._pytree.register_pytree_node, or return its tensors.",
            )


def _state(model: Any) -> list[_Input]:
    """Parameters, then buffers; tied ones under each of their paths."""
    if not isinstance(model, nn.Module):
        return []
    saved = model.state_dict().keys()
    parameters = {path for path, _ in model.named_parameters(remove_duplicate=False)}
    return [
        _Input(InputKind.PARAMETER if path in parameters else InputKind.BUFFER, path, value, path in saved)
        for path, value in state_of(model)
    ]


def _leaf_words(entry: Callable[..., Any], call: tuple[tuple[Any, ...], dict[str, Any]]) -> list[str]:
    """What torch.export calls each leaf of the call: ``x``, ``batch_mask``."""
    arguments = inspect.signature(entry).bind(*call[0], **call[1])
    rest = next((p.name for p in arguments.signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)
    named = {key: value for key, value in arguments.arguments.items() if key != rest}
    named |= arguments.arguments.get(rest, {}) if rest is not None else {}
    words = []
    for path, _ in pytree.tree_flatten_with_path(named)[0]:
        parts = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", "")))) for key in path]
        words.append(re.sub(r"\W", "_", "_".join(parts).lower()))
    return words


def _constants(whole: WholeCall, known: list[_Input]) -> list[_Input]:
    """Tensors that the code reads and that are neither state nor arguments: attributes, globals, closures."""
    ids = {id(given.tensor) for given in known}
    taken = {given.target for given in known}
    constants: list[_Input] = []
    placeholders = [node for node in whole.graph.nodes if node.op == "placeholder"]
    for node, tensor in zip(placeholders, whole.inputs, strict=True):
        if id(tensor) in ids:
            continue
        source = torch_private.dynamo_source_name(node) or ""
        path = dotted_path(source) if source.startswith("L['self']") else ""
        unique = free_path(path or (re.findall(r"[^\W\d]\w*", source) or ["constant"])[-1], taken)
        taken.add(unique)
        constants.append(_Input(InputKind.CONSTANT, unique, tensor))
    return constants


def _order_placeholders(whole: WholeCall, given: list[_Input], sizes: MarkedSizes) -> None:
    """One placeholder for each input, in order; those that the code never reads too."""
    graph = whole.graph
    captured = [node for node in graph.nodes if node.op == "placeholder"]
    by_id = {id(tensor): node for tensor, node in zip(whole.inputs, captured, strict=True)}
    first = next(iter(graph.nodes))
    ordered = []
    for one in given:
        node = by_id.pop(id(one.tensor), None)
        if node is None:
            with graph.inserting_before(first):
                node = graph.placeholder(re.sub(r"\W", "_", one.target))
            static = sizes.static_dims(one.target, one.tensor)
            node.meta["example_value"] = sizes.fake(whole.mode, one.tensor, static)
        ordered.append(node)
    for node in reversed(ordered):
        first = next(iter(graph.nodes))
        if first is not node:
            first.prepend(node)


def _inputs(
    traced: fx.GraphModule, given: list[_Input], n_before: int
) -> tuple[tuple[GraphInput, ...], dict[str, torch.Tensor]]:
    """The traced graph's placeholders, tensors that the code writes out among the constants; and those tensors."""
    nodes = [node for node in traced.graph.nodes if node.op == "placeholder"]
    lifted = lift_literals(traced)
    made = [node for node in traced.graph.nodes if node.op == "placeholder"][len(nodes) :]
    taken = {one.target for one in given}
    constants: dict[str, torch.Tensor] = {}
    literals: list[GraphInput] = []
    for node, value in zip(made, lifted.values(), strict=True):
        unique = free_path(next(filter(None, map(assigned_name, node.users)), "constant"), taken)
        taken.add(unique)
        constants[unique] = value
        literals.append(GraphInput(node.name, InputKind.CONSTANT, unique))
    if n_before < len(nodes):
        for node in made:
            nodes[n_before].prepend(node)
    inputs = [
        GraphInput(
            node.name,
            one.kind,
            one.target,
            one.persistent,
            is_nonnegative=one.kind is InputKind.ARGUMENT and is_nonnegative(one.tensor),
        )
        for node, one in zip(nodes, given, strict=True)
    ]
    return (*inputs[:n_before], *literals, *inputs[n_before:]), constants


def _every_break(
    model: Any, call: tuple[tuple[Any, ...], dict[str, Any]], first: BreakRecord, train: bool, called: str
) -> GraphBreakError:
    """The error that lists all breaks: those that a run on copies meets, else the first."""
    surveyed = survey(model, *call, train=train)
    records = surveyed.breaks if surveyed is not None and surveyed.breaks else (first,)
    return GraphBreakError(called, tuple((record.reason, record.where, record.hint) for record in records))
