"""A functional graph that is being written: its nodes, and the memory of the eager program that they stand for.

Memory is modelled by `Proxy`: one for each tensor object of the eager program. Proxies of one storage form a tree
under the one that owns it. A write gives the written proxy a new value, rebuilds its parents from it (a slice's
parent is a slice_scatter), and marks every other view of that memory as outdated; an outdated view is taken again from
its parent when somebody reads it. Which proxies share memory is not guessed from op names: the traced fake values
share storages exactly as eager's tensors do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private
from longhand.capture.functionalize.functional_proxies import Memory, Number, Proxy, fake_of
from longhand.capture.functionalize.gradient_tracking import GradientTracking, detach
from longhand.capture.overwriting import overwriting_op

__all__ = ["CannotFunctionalize", "FunctionalGraph"]


class CannotFunctionalize(Exception):
    """An op or a write that has no functional counterpart here. `finish` adds the user's line.

    Args:
        what: Which, in one clause.
        hint: What to do next.
    """

    def __init__(self, what: str, hint: str = "Write it without changing tensors in place.") -> None:
        super().__init__(what)
        self.hint = hint


class FunctionalGraph:
    """Writes nodes, and keeps what each tensor of the eager program is now; see the module's docstring.

    Args:
        fake_mode: The mode of the graph's fake values.
        gradients: What carries gradients, in a graph that is to be differentiated.
    """

    def __init__(self, fake_mode: torch_private.FakeTensorMode, gradients: GradientTracking | None) -> None:
        self.fake_mode = fake_mode
        self.graph = fx.Graph()
        self.handles: dict[str, Proxy | Number] = {}  # by placeholder
        self.gradients = gradients
        self.current: fx.Node | None = None  # the traced node being copied: whose words new nodes take over
        self._sizes: dict[Any, fx.Node] = {}
        self._one_memory: dict[int, int] = {}  # storages of traced values that are one in eager
        self._joined: list[torch.Tensor] = []  # those values: no other may get such a storage's key

    # -- nodes ---------------------------------------------------------------------------------------------------

    def emit(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, value: Any = None
    ) -> fx.Node:
        """A new node; its value is computed on the arguments' fake values unless given."""
        kwargs = kwargs or {}
        node = self.graph.create_node("call_function", target, self._as_nodes(args), self._as_nodes(kwargs))
        if value is None:
            value = self.evaluate(target, node.args, node.kwargs)
        node.meta["val"] = value
        if self.current is not None:
            for key in ("stack_trace", "nn_module_stack"):
                if key in self.current.meta:
                    node.meta[key] = self.current.meta[key]
            node.meta["traced"] = self.current
        if self.gradients is not None:
            self.gradients.note(node)
        return node

    def evaluate(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What an op yields on fake values; arguments may hold nodes, handles and numbers."""

        def fake(leaf: Any) -> Any:
            return leaf.meta["val"] if isinstance(leaf, fx.Node) else fake_of(leaf)

        args, kwargs = pytree.tree_map(fake, (tuple(args), dict(kwargs)))
        with self.fake_mode, torch.no_grad():
            return target(*args, **kwargs)

    def _as_nodes(self, tree: Any) -> Any:
        def node_of(leaf: Any) -> Any:
            if isinstance(leaf, Proxy):
                return self.read(leaf)
            return leaf.node if isinstance(leaf, Number) else leaf

        return fx.node.map_aggregate(tree, node_of)

    def number(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> Number:
        """A symbolic number; equal expressions are one node."""
        key = (type(value), torch_private.symbolic_expression(value))
        if key not in self._sizes:
            self._sizes[key] = self.emit(target, args, kwargs, value=value)
        return Number(self._sizes[key], value)

    # -- memory --------------------------------------------------------------------------------------------------

    def fresh(self, node: fx.Node, fake: torch.Tensor) -> Proxy:
        """A tensor with memory of its own."""
        return Proxy(node, fake, Memory(carries=self.gradients is not None and node in self.gradients))

    def view(
        self,
        parent: Proxy,
        fake: torch.Tensor,
        take: Callable[[fx.Node], fx.Node],
        put: Callable[[fx.Node, fx.Node], fx.Node],
    ) -> Proxy:
        """What an op makes of its tensor argument: a view if eager's values share storage, else a fresh tensor."""
        node = take(self.read(parent))
        if not self.share_memory(fake, parent.fake):
            return self.fresh(node, fake)
        return Proxy(node, fake, parent.memory, parent.memory.version, parent, take, put)

    def same(self, source: Proxy, fake: torch.Tensor) -> Proxy:
        """What an identity makes of its argument: itself, or a fresh tensor of the same value."""
        if self.share_memory(fake, source.fake):
            return source
        return self.fresh(self.read(source), fake)

    def share_memory(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        """Whether two traced values have one storage in eager."""
        first, second = torch_private.storage_key(one), torch_private.storage_key(other)
        return self._one_memory.get(first, first) == self._one_memory.get(second, second)

    def join_memory(self, traced: torch.Tensor, argument: torch.Tensor) -> None:
        """From now on a value counts as having the memory of another, where the trace gave it memory of its own."""
        key = torch_private.storage_key(argument)
        self._joined.append(traced)
        self._one_memory[torch_private.storage_key(traced)] = self._one_memory.get(key, key)

    def read(self, handle: Proxy) -> fx.Node:
        """The node that holds the tensor's value now."""
        if handle.version != handle.memory.version:
            if handle.parent is None or handle.take is None:
                raise CannotFunctionalize(
                    "a tensor is read whose memory was written in a way that cannot be followed"
                )
            handle.node = handle.take(self.read(handle.parent))
            handle.version = handle.memory.version
        return handle.node

    def write(self, handle: Proxy, node: fx.Node) -> None:
        """The tensor's elements become the node's value (same shape and dtype)."""
        self._store(handle, self._written(handle, node))

    def _store(self, handle: Proxy, node: fx.Node) -> fx.Node:
        """Stores a value in a view, and so in all that it is a view of; what that was before."""
        if handle.parent is None:
            before = handle.node
            handle.memory.version += 1
        else:
            if handle.put is None:
                raise CannotFunctionalize("a view is written that cannot be written back")
            before = self._store(handle.parent, handle.put(self.read(handle.parent), node))
        handle.node = self._instead_of(before, node)
        handle.version = handle.memory.version
        return before

    def _instead_of(self, before: fx.Node, node: fx.Node) -> fx.Node:
        """A value that was stored: what its memory held before has a gradient of zeros, where it would have none."""
        gradients = self.gradients
        if gradients is None or before not in gradients or gradients.follows(node, before):
            return node
        return self.emit(overwriting_op, (node, before), value=node.meta["val"])

    def _written(self, handle: Proxy, node: fx.Node) -> fx.Node:
        """What a write stores: the value, without gradients where none are recorded."""
        if self.gradients is None:
            return node
        memory = handle.memory
        if memory.carries and (self.gradients.is_stopped or self.read(handle) not in self.gradients):
            raise CannotFunctionalize(
                "a tensor that gradients flow through is written where autograd does not see it",
                "Write it with gradients on, or write into a clone of it.",
            )
        if self.gradients.is_stopped and node in self.gradients:
            node = self.emit(detach, (node,))
        memory.carries = memory.carries or node in self.gradients
        return node
