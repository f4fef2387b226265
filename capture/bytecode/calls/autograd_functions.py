"""``torch.autograd.Function.apply``: forward is interpreted in place; where gradients flow, backward is as well.

The calls of backward become a graph of their own: the derivative of forward's results. It is captured when forward
runs, and eager runs it later. So it may read what forward left for it, and functions, classes and modules; whatever
else comes from outside may be another by then. It may write into nothing but what it makes, and draws no numbers. What
it reads is written by nobody after forward: such a write ends the graph. All else is a graph break, with the reason.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import fx

from longhand.capture import torch_private, torch_transforms
from longhand.capture.bytecode.calls.contexts import ForwardContext
from longhand.capture.bytecode.calls.tensors import tensor_method, torch_call
from longhand.capture.bytecode.entry.breaks import NeedsFixedSizes, Unsupported
from longhand.capture.bytecode.entry.call_effects import draws
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import attributes
from longhand.capture.bytecode.values.constants import as_python
from longhand.capture.bytecode.values.tracked import (
    Const,
    Dict,
    New,
    Obj,
    Seq,
    SetOf,
    Tensor,
    Value,
    kind_word,
)
from longhand.capture.functionalize.gradient_tracking import can_carry
from longhand.capture.own_derivatives import (
    GivenDerivative,
    SecondDerivative,
    derivative_of,
    is_once_differentiable,
    with_derivative,
)

__all__ = ["call_autograd_function"]

_KEEP = "Let forward keep it on ctx."


@dataclasses.dataclass(frozen=True, eq=False)
class _FunctionCall:
    """One call of a Function.

    Attributes:
        name: The Function's name.
        kind: The Function.
        context: What forward and backward share.
        args: What it was called with.
    """

    name: str
    kind: Value
    context: New
    args: list[Value]

    def wants_gradient(self, value: Value) -> bool:
        return isinstance(value, Tensor) and bool(value.fake.requires_grad)


def call_autograd_function(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``kind.apply(*args)``; the kind is the first of `args`.

    Raises:
        Unsupported: Its derivative cannot be made ahead of time.
    """
    kind = as_python(trace, args[0])
    if kwargs:
        raise Unsupported(f"{kind.__qualname__}.apply is called with keywords")
    if torch_transforms.is_inside_transform() and not kind.generate_vmap_rule:
        raise Unsupported(f"{kind.__qualname__}.apply, whose vmap is its own, is called inside a transform")
    context = New(ForwardContext)
    applied = _FunctionCall(kind.__qualname__, args[0], context, [trace.force(value) for value in args[1:]])
    needs = [Const(applied.wants_gradient(value)) for value in applied.args]
    context.attributes["needs_input_grad"] = Seq(tuple, list(needs))
    trace.asks_for_gradients = True
    if not torch.is_grad_enabled() or not any(map(applied.wants_gradient, applied.args)):
        return _forward(trace, applied, kind)
    _refuse_surroundings(applied)
    before = {id(tensor.fake): torch_private.version(tensor.fake) for tensor in trace.tensors.values()}
    _record_gradients(trace, False)
    result = _forward(trace, applied, kind)
    _record_gradients(trace, True)
    if any(torch_private.version(t.fake) != before.get(id(t.fake), 0) for t in _given(trace, applied.args)):
        raise Unsupported(f"the forward of {applied.name} writes into what it is given")
    if isinstance(result, Tensor):
        return _derived(trace, applied, [result])[0]
    if not isinstance(result, Seq) or result.kind is not tuple:
        raise Unsupported(f"{applied.name} returns a {kind_word(result)}")
    return Seq(tuple, _derived(trace, applied, [trace.force(part) for part in result.items]))


def _forward(trace: Trace, applied: _FunctionCall, kind: Any) -> Value:
    """What forward returns, once setup_context, where there is one, has seen it."""
    forward = attributes.get(trace, applied.kind, "forward")
    if kind.setup_context is torch.autograd.Function.setup_context:
        return trace.force(trace.call_value(forward, [applied.context, *applied.args], {}))
    result = trace.force(trace.call_value(forward, list(applied.args), {}))
    given: list[Value] = [applied.context, Seq(tuple, list(applied.args)), result]
    trace.call_value(attributes.get(trace, applied.kind, "setup_context"), given, {})
    return result


def _record_gradients(trace: Trace, mode: bool) -> None:
    trace.call("call_function", torch_private.set_grad_enabled, (mode,), {})
    torch_private.set_grad_enabled(mode)


def _refuse_surroundings(applied: _FunctionCall) -> None:
    if torch_transforms.is_inside_transform() or torch_private.takes_forward_derivatives():
        raise Unsupported(f"gradients flow through {applied.name}.apply inside a transform of torch.func")
    if torch_private.is_any_autocast_enabled():
        raise Unsupported(f"gradients flow through {applied.name}.apply under autocast")
    tensors = [value for value in applied.args if isinstance(value, Tensor)]
    if any(isinstance(size, torch.SymInt) for tensor in tensors for size in tensor.fake.shape):
        raise NeedsFixedSizes


def _derived(trace: Trace, applied: _FunctionCall, results: list[Value]) -> list[Value]:
    """Forward's results as apply returns them: with the user's backward as their derivative."""
    context = applied.context
    if trace.all_items(attributes.get(trace, context, "dirty")):
        raise Unsupported(f"{applied.name} writes into its arguments (mark_dirty)")
    told = trace.all_items(attributes.get(trace, context, "non_differentiable"))
    places = [
        place
        for place, value in enumerate(results)
        if isinstance(value, Tensor) and value not in told and can_carry(value.fake)
    ]
    differentiable = [value for value in results if isinstance(value, Tensor)]
    if len({id(value) for value in differentiable}) < len(differentiable):
        raise Unsupported(f"{applied.name} returns one tensor twice")
    if not places:
        return results
    derivative, kept = _backward(trace, applied, results, places)
    wanted = [value for value in applied.args if isinstance(value, Tensor) and applied.wants_gradient(value)]
    given = [[results[place] for place in places], wanted, kept]
    fakes = [[tensor.fake for tensor in tensors] for tensors in given]  # type: ignore[attr-defined]
    function = with_derivative(derivative)
    with trace.mode:
        made = function(*fakes)
    nodes = tuple([tensor.node for tensor in tensors] for tensors in given)  # type: ignore[attr-defined]
    derived = trace.result(trace.call("call_function", function, nodes, {}), made)
    assert isinstance(derived, Seq)
    _watch(trace, applied, results, derived.items, places, kept)
    outcome = list(results)
    for place, value in zip(places, derived.items, strict=True):
        outcome[place] = value
    return outcome


def _watch(
    trace: Trace,
    applied: _FunctionCall,
    results: list[Value],
    present: list[Value],
    places: list[int],
    kept: list[Tensor],
) -> None:
    """From here on nobody writes into what the backward reads; a result that is a view of what was there is no result
    of the graph, which would make a copy of it."""
    reason = (
        f"a tensor is written to that the backward of {applied.name} reads, or that is a view of its argument"
    )
    inside = {torch_private.storage_key(tensor.fake) for tensor in _given(trace, applied.args)}
    read = {torch_private.storage_key(tensor.fake) for tensor in kept}
    for tensor in kept:
        trace.watch(tensor.fake, reason)
    for place, value in enumerate(results):
        if not isinstance(value, Tensor):
            continue
        storage = torch_private.storage_key(value.fake)
        if storage not in inside | read:
            continue
        derived = present[places.index(place)] if place in places else value
        assert isinstance(derived, Tensor)
        trace.watch(derived.fake, reason)
        if storage in inside:
            trace.watch(value.fake, reason)
            trace.inner[derived.node] = f"{applied.name} returns a view of its argument, which is a result"


def _given(trace: Trace, args: list[Value]) -> list[Tensor]:
    """The tensors among arguments and in their containers."""
    tensors: list[Tensor] = []
    for value in args:
        value = trace.force(value)
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, Seq):
            tensors += _given(trace, value.items)
        elif isinstance(value, Dict):
            tensors += _given(trace, list(value.items.values()))
    return tensors


# The backward pass


def _backward(
    trace: Trace, applied: _FunctionCall, results: list[Value], places: list[int]
) -> tuple[GivenDerivative, list[Tensor]]:
    """The user's backward as a graph, and the tensors of the forward pass that it reads."""
    _refuse_shared(trace, applied)
    last = next(iter(reversed(trace.graph.nodes)))
    materialized = as_python(trace, attributes.get(trace, applied.context, "materialize_grads"))
    if not materialized and len(places) > 1:
        raise Unsupported(
            f"{applied.name} takes None for gradients of several results (set_materialize_grads)"
        )
    backward = attributes.get(trace, applied.kind, "backward")
    n_effects = trace.n_effects()
    _record_silently(False)
    try:
        with trace.deferred(f"the backward of {applied.name} reads", _KEEP):
            tangents = [_tangent(trace, value) for place, value in enumerate(results) if place in places]
            n_written = [torch_private.version(tensor.fake) for tensor in trace.tensors.values()]
            given = _gradients(trace, results, dict(zip(places, tangents, strict=True)), materialized)
            returned = trace.force(trace.call_value(backward, [applied.context, *given], {}))
            gradients = _checked(trace, applied, returned)
        if torch.is_grad_enabled():
            raise Unsupported(f"the backward of {applied.name} leaves gradients on")
    finally:
        _record_silently(True)
    known = list(trace.tensors.values())[: len(n_written)]
    if [
        torch_private.version(tensor.fake) for tensor in known
    ] != n_written or trace.n_effects() != n_effects:
        raise Unsupported(f"the backward of {applied.name} writes into what was there before")
    return _cut(trace, applied, last, tangents, gradients, takes_none=not materialized)


def _record_silently(mode: bool) -> None:
    torch_private.set_grad_enabled(mode)


def _tangent(trace: Trace, result: Value) -> Tensor:
    """The gradient of a result: a placeholder of the graph that is cut out later."""
    assert isinstance(result, Tensor)
    with trace.mode:
        fake = torch.empty(result.fake.shape, dtype=result.fake.dtype, device=result.fake.device)
    node = trace.graph.create_node("placeholder", "gradient")
    made = trace.result(node, fake)
    assert isinstance(made, Tensor)
    return made


def _gradients(
    trace: Trace, results: list[Value], tangents: dict[int, Tensor], materialized: bool
) -> list[Value]:
    """What backward is called with: for a result without gradient zeros, or None."""
    gradients: list[Value] = []
    for place, value in enumerate(results):
        if place in tangents:
            gradients.append(tangents[place])
        elif isinstance(value, Tensor) and materialized:
            sizes = Seq(tuple, trace.constants(value.fake.shape))
            options = {"dtype": Const(value.fake.dtype), "device": Const(value.fake.device)}
            gradients.append(torch_call(trace, torch.zeros, [sizes], dict(options)))
        else:
            gradients.append(Const(None))
    return gradients


def _checked(trace: Trace, applied: _FunctionCall, returned: Value) -> list[Tensor | None]:
    """The gradient of each argument that wants one, as autograd takes it."""
    single = not isinstance(returned, Seq) or returned.kind is not tuple
    parts = [returned] if single else [trace.force(part) for part in returned.items]  # type: ignore[attr-defined]
    n = len(applied.args)
    if len(parts) < n or not all(_is_none(value) for value in parts[n:]):
        raise Unsupported(f"the backward of {applied.name} returns {len(parts)} gradients of {n} arguments")
    gradients: list[Tensor | None] = []
    for argument, value in zip(applied.args, parts, strict=False):
        if not isinstance(argument, Tensor) and not _is_none(value):
            raise Unsupported(f"the backward of {applied.name} returns a gradient of what is no tensor")
        if not isinstance(argument, Tensor) or not applied.wants_gradient(argument):
            continue
        if isinstance(value, Tensor) and value.fake.shape == argument.fake.shape:
            gradients.append(_of_type(trace, value, argument))
        elif _is_none(value) and not _is_behind_one_that_takes_none(argument.node):
            gradients.append(None)
        else:
            raise Unsupported(f"the backward of {applied.name} returns a gradient of another shape, or none")
    return gradients


def _is_behind_one_that_takes_none(node: fx.Node) -> bool:
    """Whether a value comes from a Function whose backward would be called with None: set_materialize_grads(False)."""
    seen, waiting = set(), [node]
    while waiting:
        one = waiting.pop()
        derivative = derivative_of(one.target)
        if derivative is not None and derivative.takes_none:
            return True
        waiting += [source for source in one.all_input_nodes if source not in seen]
        seen.update(one.all_input_nodes)
    return False


def _of_type(trace: Trace, value: Tensor, argument: Tensor) -> Tensor:
    if value.fake.device != argument.fake.device or value.fake.is_complex() != argument.fake.is_complex():
        raise Unsupported(
            "a backward returns a gradient on another device, or a complex one of a real tensor"
        )
    if value.fake.dtype == argument.fake.dtype:
        return value
    made = tensor_method(trace, "to", [value, Const(argument.fake.dtype)], {})
    assert isinstance(made, Tensor)
    return made


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def _refuse_shared(trace: Trace, applied: _FunctionCall) -> None:
    """Containers that were there before may be changed before the backward runs."""
    shared = {id(value) for value in _reached(trace, applied.args) if not isinstance(value, Tensor)}
    for value in _reached(trace, list(applied.context.attributes.values())):
        is_outside = value.source is not None and not isinstance(value, Tensor)
        if id(value) in shared or is_outside or isinstance(value, Obj):
            raise Unsupported(
                f"{applied.name} keeps an object on ctx that others may change", "Keep a copy of it."
            )


def _reached(trace: Trace, values: list[Value]) -> list[Value]:
    """What can be changed among values, and in them: lists, dicts, sets, objects."""
    parts: dict[int, Value] = {}
    waiting = list(values)
    while waiting:
        value = trace.force(waiting.pop())
        if id(value) in parts:
            continue
        if isinstance(value, Seq):
            waiting += value.items
        elif isinstance(value, Dict):
            waiting += value.items.values()
        elif isinstance(value, New):
            waiting += value.attributes.values()
        if isinstance(value, Dict | SetOf | Obj | New) or (
            isinstance(value, Seq) and value.kind is not tuple
        ):
            parts[id(value)] = value
    return [value for value in parts.values() if not (isinstance(value, Seq) and value.kind is torch.Size)]


def _cut(
    trace: Trace,
    applied: _FunctionCall,
    last: fx.Node,
    tangents: list[Tensor],
    gradients: list[Tensor | None],
    *,
    takes_none: bool,
) -> tuple[GivenDerivative, list[Tensor]]:
    """Takes the calls after `last` out of the trace's graph, as a graph from what they read to the gradients."""
    nodes: list[fx.Node] = []
    node = last.next
    while node.op != "root":
        nodes.append(node)
        node = node.next
    if any(draws(node) for node in nodes):
        raise Unsupported(f"the backward of {applied.name} may draw random numbers")
    inside, by_node = set(nodes), {tensor.node: tensor for tensor in trace.tensors.values()}
    results = [None if tensor is None else tensor.node for tensor in gradients]
    read = [source for node in nodes for source in node.all_input_nodes] + [
        n for n in results if n is not None
    ]
    outside = list(dict.fromkeys(source for source in read if source not in inside))
    if not all(source in by_node for source in outside):
        raise Unsupported(f"the backward of {applied.name} reads a size or a list of tensors of its forward")
    kept = [by_node[source] for source in outside]
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for tensor in (*kept, *tangents):
        copies[tensor.node] = graph.placeholder(tensor.node.name)
        copies[tensor.node].meta["example_value"] = tensor.fake
    for node in nodes:
        if node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(None if node is None else copies[node] for node in results))
    for node in reversed(nodes):
        trace.graph.erase_node(node)
    fakes = tuple(tensor.fake.detach() for tensor in (*kept, *tangents))
    kind = as_python(trace, applied.kind)
    again = SecondDerivative.UNKNOWN if trace.asks_for_gradients else SecondDerivative.YES
    again = SecondDerivative.ONCE if is_once_differentiable(kind.backward) else again
    module = fx.GraphModule(torch.nn.Module(), graph)
    return GivenDerivative(applied.name, module, fakes, takes_none, again), kept
