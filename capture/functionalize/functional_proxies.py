"""What stands for a tensor or a number while a graph is made functional, and calls on such.

`functionalize` says how handles on one memory form a tree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private
from longhand.capture.functionalize.decompositions import COMPOSITE_VIEWS, packet_name

__all__ = [
    "Memory",
    "Number",
    "Proxy",
    "fake_of",
    "is_composite_view",
    "number_behind",
    "on_storage_of",
    "signature",
    "without_defaults",
]


@dataclasses.dataclass(eq=False)
class Memory:
    """One storage.

    Attributes:
        version: How often it was written.
        placeholder: By which it came in.
        carries: Whether gradients flow through anything in it.
    """

    version: int = 0
    placeholder: fx.Node | None = None
    carries: bool = False


@dataclasses.dataclass(eq=False)
class Proxy:
    """One tensor of the eager program.

    Attributes:
        node: The node of the functional graph that holds its value, as of `version` of its memory.
        fake: What eager has here: shape, dtype, strides, storage.
        parent: The handle that it is a view of.
        take: Emits this view of the parent's current value.
        put: Emits the parent's value with this view's part replaced: (parent's value, this view's new value).
    """

    node: fx.Node
    fake: torch.Tensor
    memory: Memory
    version: int = 0
    parent: Proxy | None = None
    take: Callable[[fx.Node], fx.Node] | None = None
    put: Callable[[fx.Node, fx.Node], fx.Node] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Number:
    """A symbolic size or flag that the graph computes."""

    node: fx.Node
    value: Any


def fake_of(leaf: Any) -> Any:
    """An argument of a call as eager has it."""
    if isinstance(leaf, Proxy):
        return leaf.fake
    return leaf.value if isinstance(leaf, Number) else leaf


def on_storage_of(eager: Any, results: Any, given: Any) -> Any:
    """A rewritten call's results, from now on known by eager's own values: later views are matched by storage.

    A result whose type was corrected (statistics of a batch norm) keeps its own.
    """
    sources = [id(leaf) for leaf in pytree.tree_leaves(given)]
    handles, values = pytree.tree_leaves(results), pytree.tree_leaves(eager)
    if len(handles) != len(values):
        return results
    for handle, value in zip(handles, values, strict=True):
        if not isinstance(handle, Proxy) or not isinstance(value, torch.Tensor) or id(handle) in sources:
            continue
        if handle.fake.dtype is value.dtype:
            handle.fake = value
    return results


# Arguments that choose a backend, not a value.
_HINTS = frozenset(("cudnn_enable", "cudnn_enabled", "pin_memory", "layout", "non_blocking"))


def without_defaults(
    target: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments without those at the end that say what is the default anyway, and without hints."""
    schema = {argument.name: argument for argument in target._schema.arguments}
    order = list(schema)
    while args and (
        _is_hint(schema[order[len(args) - 1]]) or _is_default(schema[order[len(args) - 1]], args[-1])
    ):
        args = args[:-1]
    kept = {
        name: value
        for name, value in kwargs.items()
        if not (name in schema and (_is_hint(schema[name]) or _is_default(schema[name], value)))
    }
    return args, kept


def _is_hint(argument: Any) -> bool:
    return argument.name in _HINTS and argument.has_default_value()


def _is_default(argument: Any, value: Any) -> bool:
    if not argument.has_default_value() or isinstance(value, Proxy | Number | torch.SymInt):
        return False
    default = argument.default_value
    if isinstance(value, list | tuple) and isinstance(default, list | tuple):
        return not any(isinstance(part, Proxy | Number) for part in value) and list(value) == list(default)
    return type(value) is type(default) and bool(value == default)


def signature(leaf: Any) -> Any:
    """What decides how an op decomposes: everything of a tensor but its identity."""
    if isinstance(leaf, Proxy):
        fake = leaf.fake
        return ("tensor", str(tuple(fake.shape)), str(fake.stride()), fake.dtype, str(fake.device))
    return ("number", str(leaf.value)) if isinstance(leaf, Number) else (type(leaf), repr(leaf))


def number_behind(value: Any) -> tuple[Any, torch.dtype, torch.device] | None:
    """(number, dtype, device) of a constant with one element that a decomposition made."""
    if isinstance(value, fx.GraphModule):
        return (0, torch.float32, torch.device("cpu"))
    constant = torch_private.fake_constant(value)
    if constant is None or constant.dim() != 0 or isinstance(constant, torch_private.FakeTensor):
        return None
    return constant.item(), value.dtype, value.device


def is_composite_view(target: torch._ops.OpOverload, args: Any) -> bool:
    """Whether a call is a view that is made of views, of tensors that lie in memory as they look."""
    if target.namespace != "aten" or packet_name(target) not in COMPOSITE_VIEWS:
        return False
    given = [leaf.fake for leaf in pytree.tree_leaves(args) if isinstance(leaf, Proxy)]
    looks_inside = packet_name(target) in _OF_PARTS
    return not any(
        (value.is_complex() and looks_inside) or value.is_neg() or value.is_conj() for value in given
    )


_OF_PARTS = frozenset(["real", "positive", "resolve_conj", "resolve_neg"])  # of complex numbers
