"""Results that are views leave Dynamo's graph: they are taken outside, from the tensors that the user gets.

In training a compiled call returns fresh tensors only. A result that is a view of an input, or of another result, is
taken by the user's own view ops in eager, after the call: so it shares memory and gradients exactly as eager's does.
What the call writes into an input with gradients is such a result, too: `late_writes` says why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private, torch_transforms
from longhand.capture.bytecode.calls.leaves import is_torch_leaf
from longhand.capture.tensor_leaves import tensors_in

_NONE: Mapping[fx.Node, fx.Node] = MappingProxyType({})
_VIEW_ATTRIBUTES = frozenset(["H", "T", "data", "mH", "mT", "imag", "real"])


@dataclasses.dataclass(frozen=True, eq=False)
class Peeled:
    """A graph without those of its results that are views.

    Attributes:
        module: What is left. Its results: those of the original that stay, then what views are taken of besides.
        original: The graph as it came.
        views: The nodes of the original that are taken outside, in order.
        results: The nodes of the original that `module` returns.
        writes: Of these, those that are written into an input, and the input.
    """

    module: fx.GraphModule
    original: fx.GraphModule
    views: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]
    writes: Mapping[fx.Node, fx.Node]

    def completed(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The original's results, from those of `module` compiled."""
        inputs = [node for node in self.original.graph.nodes if node.op == "placeholder"]
        wanted = self.original.graph.output_node().args[0]
        records = _records(self.original.graph)
        replay = fx.Interpreter(self.original)

        def run(*given: Any) -> Any:
            known = dict(zip(inputs, given, strict=True))
            known |= dict(zip(self.results, compiled(*given), strict=True))
            for value, into in self.writes.items():
                known[value] = known[into].copy_(known[value])
            for node in self.views:
                args = fx.node.map_arg(node.args, known.__getitem__)
                kwargs = fx.node.map_arg(node.kwargs, known.__getitem__)
                with torch.set_grad_enabled(records.get(node, torch.is_grad_enabled())):
                    known[node] = getattr(replay, node.op)(node.target, args, kwargs)
            return fx.node.map_arg(wanted, known.__getitem__)

        return run


def peel(module: fx.GraphModule, writes: Mapping[fx.Node, fx.Node] = _NONE) -> Peeled | None:
    """Takes the views out of the results of Dynamo's graph; None where there are none to take.

    Args:
        module: The graph.
        writes: Nodes that become results as well, and the input that each is written into after the call.
    """
    leaves = pytree.tree_leaves(module.graph.output_node().args[0])
    given = list(dict.fromkeys([*(leaf for leaf in leaves if isinstance(leaf, fx.Node)), *writes]))
    chains = {node: _chain(node) for node in given}
    by_storage: dict[int, list[fx.Node]] = {}
    for node, chain in chains.items():
        for storage in _storages(chain[-1]):  # that of a view, where the trace does not show a copy
            by_storage.setdefault(storage, []).append(node)
    outside: set[fx.Node] = set()
    kept: list[fx.Node] = []
    for node, chain in chains.items():
        shares = any(len(by_storage[storage]) > 1 for storage in _storages(chain[-1]))
        if len(chain) > 1 and (chain[-1].op == "placeholder" or shares):
            outside |= set(chain[:-1])
            kept.append(chain[-1])
        else:
            kept.append(node)
    if not outside and not writes:
        return None
    results = tuple(node for node in dict.fromkeys(kept) if node.op != "placeholder")
    views = tuple(node for node in module.graph.nodes if node in outside)
    return Peeled(_returning(module, results, views), module, views, results, writes)


def _returning(
    module: fx.GraphModule, results: tuple[fx.Node, ...], views: tuple[fx.Node, ...]
) -> fx.GraphModule:
    """The graph with other results."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.graph_copy(module.graph, copies)
    graph.output(tuple(copies[node] for node in results))
    for node in reversed(views):
        if not copies[node].users:
            graph.erase_node(copies[node])
    return fx.GraphModule(module, graph)


def _chain(node: fx.Node) -> list[fx.Node]:
    """The node, what it is a view of, and so on; only as far as inputs and the chain itself tell how to take it."""
    chain = [node]
    while _is_view(chain[-1]):
        source, *others = chain[-1].all_input_nodes
        if any(other.op != "placeholder" for other in others):
            break
        chain.append(source)
    while len(chain) > 1 and not isinstance(chain[-1].meta.get("example_value"), torch.Tensor):
        chain.pop()  # a list of parts is no result
    return chain


def _is_view(node: fx.Node) -> bool:
    if not node.op.startswith("call_"):
        return False
    if not any(map(_storages, node.all_input_nodes)):
        return False
    if node.target is getattr:
        return node.args[1] in _VIEW_ATTRIBUTES
    is_torch = node.op == "call_method" or is_torch_leaf(node.target) or node.target is operator.getitem
    name = str(getattr(node.target, "__name__", node.target))
    changes = name.endswith("_") and not name.endswith("__")  # maybe only what the tensor says of itself: t_
    return is_torch and not changes and _only_looks(node)


def _only_looks(node: fx.Node) -> bool:
    """Whether a call gives its arguments' memory, and leaves it as it is: it is made again, of tensors of nobody's."""
    made: list[torch.Tensor] = []

    def fresh(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made.append(value.new_empty_strided(value.shape, value.stride()))
        return made[-1]

    def alike(source: fx.Node) -> Any:
        return pytree.tree_map(fresh, source.meta.get("example_value"))

    args, kwargs = fx.node.map_arg((node.args, node.kwargs), alike)
    call = getattr(args[0], node.target) if isinstance(node.target, str) else node.target
    modes = [torch_private.fake_mode_of(one) for one in made if isinstance(one, torch_private.FakeTensor)]
    try:
        with (
            torch.no_grad(),
            modes[0] if modes else contextlib.nullcontext(),
        ):  # positions in a list are no fakes
            results = call(*args[1:] if isinstance(node.target, str) else args, **kwargs)
    except Exception:
        whole = args[0] if args else None
        return node.target is operator.getitem and not isinstance(
            whole, torch.Tensor
        )  # of a list without a value
    tensors = tensors_in(results)
    memory = {torch_private.storage_key(one) for one in made}
    is_theirs = all(torch_private.storage_key(one) in memory for one in tensors)
    return is_theirs and not any(map(torch_private.version, made))


def _storages(node: fx.Node) -> list[int]:
    """The memory of a node's tensors; of a list that has no value of its own, that of the parts that are taken."""
    known = [node.meta.get("example_value")]
    if known == [None]:
        known = [user.meta.get("example_value") for user in node.users if user.target is operator.getitem]
    leaves = pytree.tree_leaves(known)
    strided = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided]
    plain = [
        leaf for leaf in strided if torch_transforms.unbatched(leaf) is leaf
    ]  # inside vmap there is no memory
    return list(dict.fromkeys(map(torch_private.storage_key, plain)))


def _records(graph: fx.Graph) -> dict[fx.Node, bool]:
    """For each node whether gradients are recorded, where the graph itself says so."""
    recorded: dict[fx.Node, bool] = {}
    records: bool | None = None
    for node in graph.nodes:
        if node.target is torch_private.set_grad_enabled:
            records = bool(node.args[0])
        elif records is not None:
            recorded[node] = records
    return recorded
