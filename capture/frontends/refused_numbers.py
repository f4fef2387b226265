"""Numbers that eager refuses beside a tensor of some type: ``x.clamp(max=1e308)`` of float32, -300 beside int8.

Fake tensors look at types and sizes alone, and a kernel would round the number to an infinity, or cut it. So eager is
asked, with small tensors, once for each kind of call.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_tracing
from longhand.capture.frontends.data_dependence import place
from longhand.errors import CaptureError
from longhand.options import Device

__all__ = ["refuse_numbers"]

aten = torch.ops.aten


def refuse_numbers(node: fx.Node, device: Device) -> None:
    """Raises where eager would refuse a traced call for the numbers in it.

    Raises:
        CaptureError: It would.
    """
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return
    leaves, spec = pytree.tree_flatten((node.args, dict(node.kwargs)))
    if not any(type(leaf) in (int, float) for leaf in leaves):
        return
    if target is aten.full.default:
        value = node.meta.get("val")
        dtype = value.dtype if isinstance(value, torch.Tensor) else None
        leaves, spec = pytree.tree_flatten((([2], node.args[1]), {"dtype": dtype}))
    elif not _is_pointwise(target.overloadpacket):
        return
    kinds = tuple(map(_kind, leaves))
    if None in kinds:  # a number that is known only in the call
        return
    if (target, kinds, spec) not in _said:
        if len(_said) >= _MOST_KEPT:
            _said.clear()
        _said[target, kinds, spec] = _ask(target, leaves, spec)
    told = _said[target, kinds, spec]
    if told and (device is Device.CPU or "overflow" in told):
        raise CaptureError(f"Eager refuses `{target}` here: {told}.", where=place(node))


@functools.cache
def _is_pointwise(packet: torch._ops.OpOverloadPacket) -> bool:
    """Whether an op works element by element, and draws nothing; some forms of one that does are not marked."""
    tags = [tag for name in packet.overloads() for tag in getattr(packet, name).tags]
    return torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags


def _kind(leaf: Any) -> Any:
    """What of an argument decides whether eager refuses it; a number as text, since 0 == False."""
    if isinstance(leaf, fx.Node):
        value = leaf.meta.get("val")
        return (value.dtype, value.dim()) if isinstance(value, torch.Tensor) else None
    return repr(leaf)


_MOST_KEPT = 4096  # calls
_said: dict[tuple[torch._ops.OpOverload, tuple[Any, ...], pytree.TreeSpec], str] = {}


def _ask(target: torch._ops.OpOverload, leaves: list[Any], spec: pytree.TreeSpec) -> str:
    """What eager says of such a call; empty if it takes it."""
    args, kwargs = pytree.tree_unflatten([_example(leaf) for leaf in leaves], spec)
    with torch_tracing.no_modes(), torch.no_grad():
        try:
            target(*args, **kwargs)
        except RuntimeError as error:
            return str(error).splitlines()[0].rstrip(".")
    return ""


def _example(leaf: Any) -> Any:
    """A small tensor of the kind; two elements, since ATen fills one in its own way. Numbers as they are."""
    if not isinstance(leaf, fx.Node):
        return leaf
    value = leaf.meta["val"]
    return torch.ones(((1,) * value.dim() + (2,))[1:], dtype=value.dtype)
