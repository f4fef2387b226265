"""Which tensor objects a call returns: a view of all of a tensor is another object than that tensor.

Both show the same memory, and a functional graph has one value for both. But who gets an argument back instead of a
view of it, and calls ``requires_grad_()`` or ``resize_`` on the result, changes the argument.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private, torch_tracing
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.graph import AliasKind

__all__ = ["Looks", "looks_of"]

aten = torch.ops.aten


@dataclasses.dataclass(frozen=True)
class Looks:
    """How a result shows what it aliases.

    Attributes:
        is_anew: It is another tensor object.
        is_detached: Autograd takes it for no view.
    """

    is_anew: bool = False
    is_detached: bool = False


def looks_of(
    leaves: Sequence[Any], outputs: Sequence[tuple[Any, AliasKind, Any]], known: Mapping[fx.Node, Any]
) -> tuple[Looks, ...]:
    """How each result shows what it aliases.

    Args:
        leaves: What the trace returns.
        outputs: The result that each became: its value, and what it aliases.
        known: The handles of the traced values.
    """
    first: dict[Any, fx.Node] = {}  # of those that show the same elements: the call that made the first
    looks = []
    for leaf, (_, alias, base) in zip(leaves, outputs, strict=True):
        handle = known.get(leaf) if isinstance(leaf, fx.Node) else None
        if not isinstance(handle, Proxy):
            looks.append(Looks())
            continue
        made = _maker(leaf)
        if alias is AliasKind.INPUT:
            given = known.get(made) if made.op == "placeholder" else None
            is_same = isinstance(given, Proxy) and given.memory.placeholder is base
        else:
            seen = handle.fake
            shown = (str(tuple(seen.shape)), str(seen.stride()), str(seen.storage_offset()), seen.dtype)
            is_same = first.setdefault((id(handle.memory), *shown), made) is made
        looks.append(Looks() if is_same else Looks(is_anew=True, is_detached=_is_detached(made)))
    return tuple(looks)


def _maker(node: fx.Node) -> fx.Node:
    """The call that made the tensor object: what writes in place, or changes nothing, hands its argument on."""
    while (given := _handed_on(node)) is not None:
        node = given
    return node


def _handed_on(node: fx.Node) -> fx.Node | None:
    """The argument that a call returns; None where it makes a tensor."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    leaves, spec = pytree.tree_flatten((node.args, dict(node.kwargs)))
    if not any(isinstance(leaf, fx.Node) for leaf in leaves) or _draws_anew(node.target):
        return None  # asked for real, it would use up the user's random numbers
    with torch_tracing.no_modes(), torch.no_grad():
        try:
            given = [_without_data(leaf) for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(given, spec)
            result = node.target(*args, **kwargs)
        except Exception:  # it asks the data: no such call returns its argument
            return None
    places = [place for place, made in enumerate(given) if made is result]
    return leaves[places[0]] if places and isinstance(result, torch.Tensor) else None


def _draws_anew(target: torch._ops.OpOverload) -> bool:
    """Whether a call makes a tensor of random numbers."""
    return torch.Tag.nondeterministic_seeded in target.tags and not target._schema.is_mutable


def _without_data(leaf: Any) -> Any:
    """An argument's tensor without its data; other arguments as they are."""
    value = leaf.meta.get("val") if isinstance(leaf, fx.Node) else leaf
    if isinstance(
        value, torch.SymInt | torch.SymFloat | torch.SymBool
    ):  # asked for itself, it would be a guard
        return torch_private.symbolic_hint(value)
    if not isinstance(value, torch.Tensor):
        return value
    shape, stride = (
        [torch_private.symbolic_hint(size) if isinstance(size, torch.SymInt) else size for size in sizes]
        for sizes in (value.shape, value.stride())
    )
    return torch.empty_strided(shape, stride, dtype=value.dtype, device="meta")


def _is_detached(node: fx.Node) -> bool:
    """Whether a view is one of a detached tensor."""
    while node.op == "call_function" and node.all_input_nodes:
        if node.target in (aten.detach.default, aten.detach_.default):
            return True
        if node.target is not operator.getitem and not isinstance(node.target, torch._ops.OpOverload):
            return False
        node = node.all_input_nodes[0]
    return False
