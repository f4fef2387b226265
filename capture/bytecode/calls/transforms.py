"""``torch.vmap``: torch's own Python of it is interpreted; what wraps and unwraps tensors goes into the graph.

Between the call that opens a level and the one that closes it, fake values are torch's batched tensors.
"""

from __future__ import annotations

from typing import Any

import torch

from longhand.capture import torch_private, torch_transforms
from longhand.capture.bytecode.calls.rules import Rule, Rules
from longhand.capture.bytecode.calls.tensors import to_graph, torch_call
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.operators import kind_of
from longhand.capture.bytecode.values.sources import root
from longhand.capture.bytecode.values.tracked import Const, New, Obj, Seq, Tensor, Value

__all__ = ["RULES", "index", "indexes_by_tensors"]

RULES = Rules()


def _level(function: Any) -> Rule:
    """Opens or closes a level of vmap, here and in the graph."""

    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        pairs = [to_graph(trace, value) for value in args]
        trace.call("call_function", function, tuple(node for node, _ in pairs), {})
        return Const(function(*(fake for _, fake in pairs)))

    return rule


@RULES.of(torch.autograd.forward_ad.unpack_dual)
def _unpack_dual(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A tensor has no tangent where no level of forward-mode derivatives is open, which every entry asks for."""
    if kwargs or len(args) != 1 or torch_private.takes_forward_derivatives():
        raise Unsupported("the tangent of a tensor is taken")
    return Seq(torch.autograd.forward_ad.UnpackedDualTensor, [args[0], Const(None)])


@RULES.of(torch_transforms.are_transforms_active)
def _are_transforms_active(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Those that the captured code itself began; there is none around it, which is asked again in each call."""
    if torch_transforms.are_transforms_active():
        return Const(True)
    asked = f"{trace.guards.constant(torch_transforms.are_transforms_active)}()"
    trace.guards.add(
        root(asked, "transforms of torch.func"), "not {}", "no transform of torch.func is running"
    )
    return Const(False)


def _wrapping(function: Any) -> Rule:
    return lambda trace, args, kwargs: torch_call(trace, function, args, kwargs)


for _primitive in torch_transforms.vmap_levels():
    RULES[_primitive] = _level(_primitive)
for _primitive in torch_transforms.vmap_wrappers():
    RULES[_primitive] = _wrapping(_primitive)


@RULES.of(torch_transforms.load_vmap_rules)
def _load_vmap_rules(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Once for the process, which no graph has to repeat."""
    torch_transforms.load_vmap_rules()
    return Const(None)


@RULES.of(torch_private.TorchFunctionMode.__enter__)
def _enter_mode(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _require_index_mode(trace, args[0])
    trace.n_index_modes += 1
    return args[0]


@RULES.of(torch_private.TorchFunctionMode.__exit__)
def _leave_mode(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _require_index_mode(trace, args[0])
    trace.n_index_modes -= 1
    return Const(None)


def indexes_by_tensors(mode: type) -> bool:
    """Whether a torch function mode is the one under which an index of no dimensions is no Python number."""
    return mode.__name__ == "TransformGetItemToIndex" and mode.__module__.startswith("torch._dynamo.")


def _require_index_mode(trace: Trace, value: Value) -> None:
    mode = trace.force(value)
    if not isinstance(mode, New | Obj) or not indexes_by_tensors(kind_of(mode)):
        raise Unsupported("a torch function mode is entered")


def index(trace: Trace, owner: Tensor, key: Value) -> Value | None:
    """``owner[key]`` under a TransformGetItemToIndex: by tensors only, which may be numbers under vmap; else None."""
    keys = [trace.force(part) for part in key.items] if isinstance(key, Seq) else [key]
    if not trace.n_index_modes or not all(isinstance(part, Tensor) for part in keys):
        return None
    return torch_call(trace, torch.ops.aten.index.Tensor, [owner, Seq(list, keys)], {})
