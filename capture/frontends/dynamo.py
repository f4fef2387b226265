"""The frontend for ``torch.compile(backend="longhand")``: Dynamo's graph of torch functions becomes a CapturedGraph.

Dynamo's graph is run once on its own fake values under a tracer that records ATen calls before dispatch, so that
composite ops stay whole as they do through torch.export; the user's stacks travel along. Under autocast the tracer
records below it instead, so that the casts are explicit.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private, torch_transforms
from longhand.capture.facts import facts_of
from longhand.capture.frontends.argument_lists import Element, arrange_arguments, find_elements
from longhand.capture.frontends.dynamo_run import DynamoRun
from longhand.capture.frontends.failures import capture_error
from longhand.capture.frontends.finalize import Traced, finalize
from longhand.capture.frontends.written_out import WrittenOut
from longhand.capture.functionalize.composites import as_called
from longhand.capture.functionalize.dead_code import remove_dead_code
from longhand.capture.functionalize.decompositions import decomposition_table
from longhand.capture.graph import CapturedGraph, GraphInput, InputKind
from longhand.capture.own_derivatives import derivative_of, op_call
from longhand.capture.provenance import StackLevel, as_attributes, dotted_path, user_frames
from longhand.capture.source import function_lines, shape_names, wrapper_of_method
from longhand.capture.storages import overlapping
from longhand.options import Target


def capture_dynamo(
    graph_module: fx.GraphModule, example_inputs: Sequence[Any], *, target: Target, train: bool = False
) -> CapturedGraph:
    """Captures a graph that Dynamo hands to a backend.

    Args:
        graph_module: Dynamo's graph.
        example_inputs: One for each of its placeholders: tensors, real or fake, or sizes.
        target: What the captured graph is for.
        train: It is to be differentiated: what stops gradients stays in the graph.

    Returns:
        A graph whose `inputs` are Dynamo's placeholders in Dynamo's order (parameters included: Dynamo passes them
        with each call), then tensors that the graph module holds, if any; those are in `constants`. `in_spec` covers
        what is no parameter and no buffer; elements of a list that a function was given are a list in it.

    Raises:
        CaptureError: It cannot be captured as one sound graph.
    """
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    held = _held_tensors(graph_module)
    values = [_example(node, value) for node, value in zip(placeholders, example_inputs, strict=True)]
    frames, passing = _first_frames(graph_module.graph)
    name = _name(frames)
    is_forward = bool(frames) and frames[0].statement.qualname.endswith(".forward")
    elements = {} if is_forward else _elements(placeholders, values)
    try:
        traced = trace_graph(graph_module, values, held)
    except Exception as error:
        raise capture_error(error, name) from None
    held |= lift_literals(traced)
    inputs = _graph_inputs(placeholders, values, held, elements, passing)
    # Whoever owns the weights, a unit with weights is a module: Dynamo passes them in each call.
    has_weights = any(entry.kind in (InputKind.PARAMETER, InputKind.BUFFER) for entry in inputs)
    if has_weights and elements:  # all arguments of a module come one by one
        elements = {}
        inputs = _graph_inputs(placeholders, values, held, elements, passing)
    nodes = [node for node in traced.graph.nodes if node.op == "placeholder"]
    inputs = [
        GraphInput(n.name, entry.kind, entry.target, entry.persistent)
        for n, entry in zip(nodes, inputs, strict=True)
    ]
    arguments = [entry for entry in inputs if entry.kind in (InputKind.ARGUMENT, InputKind.SIZE)]
    arranged = arrange_arguments(
        {place: entry.target for place, entry in enumerate(inputs) if entry in arguments}, elements
    )
    output = next(node for node in graph_module.graph.nodes if node.op == "output").args[0]
    leaves, _ = pytree.tree_flatten(traced.graph.output_node().args[0])
    given = {
        entry.node: value for entry, value in zip(inputs, [*example_inputs, *held.values()], strict=True)
    }
    tensors = {node: value for node, value in given.items() if isinstance(value, torch.Tensor)}
    by_name = {entry.target: entry.node for entry in arguments}
    words = _size_words(frames)
    return finalize(
        Traced(
            module=traced,
            inputs=tuple(inputs),
            leaves=tuple(leaves),
            name=name,
            source=_source(frames, name),
            is_module=has_weights or is_forward,
            is_guarded=True,
            signature=arranged.words,
            in_spec=arranged.spec,
            out_spec=pytree.tree_structure(fx.node.map_aggregate(output, lambda leaf: 0)),
            argument_leaves=tuple(inputs[place].node for place in arranged.leaves),
            constants=held,
            tied=(),
            shared_storage=overlapping(tensors) if not _are_fake(tensors) else (),
            grad_inputs=tuple(node for node, value in tensors.items() if value.requires_grad),
            size_names={(by_name[n], d): word for (n, d), word in words.items() if n in by_name},
            train=train,
            facts=facts_of(graph_module.meta.get("guards", ())),
        ),
        target,
    )


def _held_tensors(module: fx.GraphModule) -> dict[str, torch.Tensor]:
    """The tensors that the graph reads from the graph module itself, by path."""
    held: dict[str, torch.Tensor] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value: Any = module
            for part in str(node.target).split("."):
                value = getattr(value, part)
            if isinstance(value, torch.Tensor):
                held[str(node.target)] = value
    return held


def _example(node: fx.Node, value: Any) -> Any:
    """Dynamo's own fake value of a placeholder where there is one: its sizes may be symbolic."""
    fake = node.meta.get("example_value", value)
    return fake if fake is not None else value


def trace_graph(module: fx.GraphModule, values: list[Any], held: dict[str, torch.Tensor]) -> fx.GraphModule:
    """The graph as ATen calls on fake values; its placeholders are the module's, then the held tensors."""
    modes = [torch_private.fake_mode_of(v) for v in values if isinstance(v, torch_private.FakeTensor)]
    mode = modes[0] if modes else torch_private.FakeTensorMode()
    fakes = [_faked(mode, value) for value in [*values, *held.values()]]
    paths = list(held)
    records = torch.is_grad_enabled()
    derived = {node.target: derivative_of(node.target) for node in module.graph.nodes}
    given_calls = {
        target: op_call(derivative, lambda module, fakes: trace_graph(module, fakes, {}))
        for target, derivative in derived.items()
        if derivative is not None
    }

    def run(*inputs: Any) -> Any:
        given = dict(zip(paths, inputs[len(values) :], strict=True))
        return DynamoRun(module, given, records, given_calls).run(*inputs[: len(values)])

    # What autocast and torch.func's transforms make of a call is seen below them.
    is_transformed = any(map(torch_transforms.opens_transform, module.graph.nodes))
    below = is_under_autocast(module) or is_transformed
    takes_derivatives = any(map(torch_transforms.differentiates, module.graph.nodes))
    table = decomposition_table() if below else {}
    with (
        mode,
        torch.set_grad_enabled(records and takes_derivatives),  # a transform's own are part of the graph
        fx.traceback.preserve_node_meta(),
        torch_transforms.keeping_transforms(),
        WrittenOut(),
    ):
        traced = torch_private.make_fx(run, decomposition_table=table, pre_dispatch=not below)(*fakes)
    if below:
        as_called(traced.graph)
        remove_dead_code(traced.graph)
        traced.recompile()
    return traced


def _faked(mode: torch_private.FakeTensorMode, value: Any) -> Any:
    if isinstance(value, torch_private.FakeTensor) or not isinstance(value, torch.Tensor):
        return value
    return mode.from_tensor(value, static_shapes=True)


def lift_literals(traced: fx.GraphModule) -> dict[str, torch.Tensor]:
    """Makes tensors that the traced code writes out (``torch.tensor([0.5, 0.25])``) its last placeholders, by path."""
    lifted: dict[str, torch.Tensor] = {}
    placeholders: dict[str, fx.Node] = {}
    last = [node for node in traced.graph.nodes if node.op == "placeholder"][-1:]
    for node in [node for node in traced.graph.nodes if node.op == "get_attr"]:
        value = getattr(traced, str(node.target))
        constant = torch_private.fake_constant(value) if isinstance(value, torch.Tensor) else None
        if constant is None or isinstance(constant, torch_private.FakeTensor):
            continue
        path = str(node.target).strip("_")
        if path not in lifted:
            before = traced.graph.inserting_after(last[0]) if last else traced.graph.inserting_before(None)
            with before:
                placeholders[path] = traced.graph.placeholder(path)
            placeholders[path].meta["val"] = node.meta.get("val", value)
            last, lifted[path] = [placeholders[path]], constant
        node.replace_all_uses_with(placeholders[path])
        traced.graph.erase_node(node)
    return lifted


def is_under_autocast(module: fx.GraphModule) -> bool:
    """Whether any call of Dynamo's graph runs under autocast, if it is called now."""
    if any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda")):
        return True
    return any("autocast" in getattr(node.target, "__name__", "") for node in module.graph.nodes)


def _are_fake(tensors: dict[str, torch.Tensor]) -> bool:
    return any(isinstance(value, torch_private.FakeTensor) for value in tensors.values())


def _elements(placeholders: list[fx.Node], values: list[Any]) -> dict[int, Element]:
    """The placeholders that are elements of lists which a function was given."""
    sources = [
        torch_private.dynamo_source_name(node) if isinstance(value, torch.Tensor) else None
        for node, value in zip(placeholders, values, strict=True)
    ]
    return find_elements(sources)


def _graph_inputs(
    placeholders: list[fx.Node],
    values: list[Any],
    held: dict[str, torch.Tensor],
    elements: Mapping[int, Element],
    passing: frozenset[str],
) -> list[GraphInput]:
    inputs: list[GraphInput] = []
    taken: set[str] = {element.word for element in elements.values()}
    for place, (node, value) in enumerate(zip(placeholders, values, strict=True)):
        kind, word = _origin(node, value, passing)
        if place in elements:
            kind, word = InputKind.ARGUMENT, f"{elements[place].word}_{elements[place].place}"
        unique, count = word, 1
        while unique in taken:
            unique, count = f"{word}_{count}", count + 1
        taken.add(unique)
        inputs.append(GraphInput(node.name, kind, unique))
    inputs += [GraphInput(path, InputKind.CONSTANT, path) for path in held]
    return inputs


def _origin(node: fx.Node, value: Any, passing: frozenset[str]) -> tuple[InputKind, str]:
    """(kind, name) of a placeholder, from the expression that Dynamo found it by."""
    source = as_attributes(torch_private.dynamo_source_name(node) or str(node.target))
    if not isinstance(value, torch.Tensor):
        return InputKind.SIZE, _plain(source, passing)
    if re.search(r"\._parameters\[[^\]]*\]$", source) or isinstance(value, torch.nn.Parameter):
        return InputKind.PARAMETER, _weight_path(source)
    if re.search(r"\._buffers\[[^\]]*\]$", source):
        return InputKind.BUFFER, _weight_path(source)
    return InputKind.ARGUMENT, _plain(source, passing)


def _weight_path(source: str) -> str:
    """``blocks.0.weight``; ``params_0`` of a parameter in a list that is an argument, which no module holds."""
    path = dotted_path(source)
    return path if path.partition(".")[0].isidentifier() else _plain(source)


def _plain(source: str, passing: frozenset[str] = frozenset()) -> str:
    """``batch_mask`` of ``L['batch']['mask']``; ``self`` is left out, and a dictionary that only passes it on."""
    words = [word for word in re.findall(r"\w+", re.sub(r"^[LG](?=\[)", "", source)) if word != "self"]
    words = words[1:] if len(words) > 1 and words[0] in passing else words
    if len(words) > 1:  # no parameter of the user's
        words = [word.strip("_") or word for word in words]
    return re.sub(r"^L_|_$", "", "_".join(words)) or "value"


def _first_frames(graph: fx.Graph) -> tuple[tuple[StackLevel, ...], frozenset[str]]:
    """The user's functions around the first call, the outermost first, and what passes arguments on to them.

    Decorators of methods are left out: what they are called, and their ``**kwargs``, are nobody's words.
    """
    for node in graph.nodes:
        frames = user_frames(node.meta.get("stack_trace") or "") if node.op.startswith("call") else ()
        passing: set[str] = set()
        while len(frames) > 1:
            wrapper = wrapper_of_method(frames[0].file, frames[0].statement.line)
            if wrapper is None:
                break
            passing |= {wrapper.args.kwarg.arg} if wrapper.args.kwarg else set()
            frames = frames[1:]
        if frames:
            return frames, frozenset(passing)
    return (), frozenset()


def _name(frames: tuple[StackLevel, ...]) -> str:
    """``GPT`` of ``GPT.forward``, or the function's name."""
    parts = frames[0].statement.qualname.split(".") if frames else ["graph"]
    word = parts[-2] if len(parts) > 1 and parts[-1] in ("forward", "__call__") else parts[-1]
    return word if word.isidentifier() and not keyword.iskeyword(word) else "graph"  # of a lambda, say


def _source(frames: tuple[StackLevel, ...], name: str) -> str:
    if not frames:
        return name
    for module_name, module in list(sys.modules.items()):
        # Not by getattr, which lazy modules answer by looking for more.
        if getattr(module, "__dict__", {}).get("__file__") == frames[0].file:
            return f"{module_name}.{name}"
    return name


def _size_words(frames: tuple[StackLevel, ...]) -> dict[tuple[str, int], str]:
    """Words that the outermost function gives to sizes of its arguments."""
    return (
        shape_names(frames[0].file, *function_lines(frames[0].file, frames[0].statement.line))
        if frames
        else {}
    )
