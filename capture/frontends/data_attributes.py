"""``tensor.data`` in a graph: the same memory, without gradients, whose writes the tensor does not count.

A unit's writes are counted, so that autograd refuses a backward pass that needs what was there before. Those through
``data`` are not, as in eager. But eager's autograd, which is not told of them, takes what it finds: of a tensor that
was read before, the new elements, where a unit has kept the old ones. A graph that does so stays eager's, unless no
backward pass comes to such a read: as where a codebook is written that the call has only looked for positions in.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private, torch_transforms
from longhand.capture.autograd.kept.checkpoints import enter_checkpoint
from longhand.capture.bytecode.entry.call_effects import mutates

_UNKNOWN = -1  # some storage

__all__ = ["is_data", "may_write_through_data", "storages_of", "written_through_data"]


def is_data(target: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call of a graph is a tensor's ``data``, as Dynamo or our own capture writes it."""
    return target is torch_private.data_of or (target is getattr and args[1] == "data")


def may_write_through_data(module: fx.GraphModule, *, is_training: bool) -> bool:
    """Whether a unit can do what a graph writes into what ``data`` gave, if it does."""
    writes = _DataWrites(module.graph)
    return not writes.through_data or writes.are_apart(is_training=is_training)


def written_through_data(module: fx.GraphModule) -> frozenset[int]:
    """The places of a graph's inputs that it writes into through their ``data`` alone."""
    writes = _DataWrites(module.graph)
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    return frozenset(place for place, node in enumerate(inputs) if storages_of(node) & writes.through_data)


class _DataWrites:
    """What the calls of a graph do to memory of which it asks the ``data``.

    Attributes:
        through_data: Storages that are written into through ``data``.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self.through_data: set[int] = set()
        self._otherwise: set[int] = set()  # may be written into with autograd's knowledge
        self._owners: dict[int, list[fx.Node]] = defaultdict(list)  # inputs of a storage
        self._held: set[int] = set()  # what the graph itself holds
        self._read_before: set[int] = set()  # and written through `data` afterwards
        if any(node.op == "call_function" and is_data(node.target, node.args) for node in graph.nodes):
            self._follow(graph)

    def are_apart(self, *, is_training: bool) -> bool:
        """Whether each storage is one input's, written through ``data`` alone and, in training, before it is read."""
        kept = self._read_before if is_training else set()
        is_odd = self.through_data & {_UNKNOWN, *self._otherwise, *self._held, *kept}
        return not is_odd and all(len(self._owners[storage]) == 1 for storage in self.through_data)

    def _follow(self, graph: fx.Graph) -> None:
        data: set[fx.Node] = set()  # what ``data`` gave, and views of it
        differentiated = _differentiated(graph)
        read: set[int] = set()
        for node in graph.nodes:
            if node.op == "placeholder":
                for storage in storages_of(node):
                    self._owners[storage].append(node)
            elif node.op == "get_attr":
                self._held |= storages_of(node)
            elif not node.op.startswith("call_"):
                continue
            elif is_data(node.target, node.args):
                data.add(node)
                if not storages_of(node):  # inside vmap, say: nobody knows whose memory it is
                    self.through_data.add(_UNKNOWN)
            elif mutates(node):
                written = set().union(*(storages_of(one) for one in node.all_input_nodes if one in data))
                others = set().union(*(storages_of(one) for one in node.all_input_nodes if one not in data))
                kept = others if node in differentiated else set()
                self._read_before |= written & (read | kept)
                self._otherwise |= others
                self.through_data |= written
                read |= kept
                data |= {node} if storages_of(node) & written else set()
            else:
                for one in node.all_input_nodes:
                    is_view = bool(storages_of(one) & storages_of(node))
                    if is_view and one in data:
                        data.add(node)
                    elif not is_view and node in differentiated:
                        read |= storages_of(one)


def _differentiated(graph: fx.Graph) -> set[fx.Node]:
    """The calls whose derivative a backward pass may ask for: gradients come back to them from a result, or from what
    the graph writes into. Of all others autograd keeps what they read, and never looks at it."""
    if any(n.target is enter_checkpoint or torch_private.is_checkpoint(n.target) for n in graph.nodes):
        return set(graph.nodes)  # what it reads is read again in the backward pass
    asked: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        carries = _carries(node)
        leaves = any(user.op == "output" or (user in asked and _carries(user)) for user in node.users)
        if node.op.startswith("call_") and carries and (leaves or mutates(node)):
            asked.add(node)
    return asked


def _carries(node: fx.Node) -> bool:
    """Whether gradients may flow through a call: one of its values requires grad, or it tells of none."""
    leaves = pytree.tree_leaves(node.meta.get("example_value"))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return not tensors or any(torch_transforms.unbatched(leaf).requires_grad for leaf in tensors)


def storages_of(node: fx.Node) -> set[int]:
    """The memory of a node's tensors, as its fake values tell it; those of a transform of torch.func tell nothing."""
    leaves = pytree.tree_leaves(node.meta.get("example_value"))
    strided = (leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided)
    return {torch_private.storage_key(leaf) for leaf in strided if not torch_transforms.is_wrapped(leaf)}
