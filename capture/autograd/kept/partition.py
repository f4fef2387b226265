"""What the forward pass keeps for the backward, and what the backward computes again: a minimum cut, by bytes.

Every value of the forward pass is an edge whose capacity is its size; the backward pass is the sink. What must not be
computed twice (random numbers, matrix products, convolutions, attention, and whatever is no plain arithmetic) is
connected to the source. The minimum cut is the cheapest set of values to keep. Of a value of which the backward reads
only a part (one of the gates that one product made), a copy of that part may be kept. A second cut keeps the links of
long chains of values that would be computed again from one another (`recomputed_chains`). What stands in a
checkpointed region (torch.utils.checkpoint) is never kept, only what one region hands to the next.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import operator
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture.autograd.joint_graph import Joint
from longhand.capture.autograd.kept.costs import (
    bytes_of,
    checkpoint,
    is_light,
    is_stateful,
    operations,
)
from longhand.capture.autograd.kept.joined import joined_to_keep
from longhand.capture.autograd.kept.recomputed_chains import inputs_to_keep, links_to_keep
from longhand.capture.autograd.randomness import is_random
from longhand.capture.functionalize.batch_normalized import batch_normalized_op
from longhand.capture.functionalize.decompositions import packet_name
from longhand.capture.functionalize.view_nodes import is_view, seen
from longhand.capture.known.written import written_nodes
from longhand.errors import OptionError

_SOURCE, _SINK = "source", "sink"
# Of two sets of the same size the one nearer to the backward pass is kept: less is computed again.
_STEP, _MOST_STEPS = 0.02, 50
_ALIVE_ANYWAY = 1e-3  # bytes: the caller has it, before the call or from it
# Times the bytes of a result that eager would not keep: whoever writes into it there must be able to do so here.
_USERS_OWN = 16
_NORMS_OF_BATCHES = ("_native_batch_norm_legit_functional", "_native_batch_norm_legit")
_N_LISTED = 8  # tensors that the report names in each part


@dataclasses.dataclass(frozen=True, eq=False)
class Partition:
    """Which node is computed where.

    Attributes:
        joint: What was partitioned.
        saved: Computed values that the forward hands to the backward, in the graph's order.
        inputs: Placeholders that the backward reads.
        recomputed: Nodes of the forward that the backward computes again, in the graph's order.
        backward: Nodes that need a gradient, in the graph's order.
        total_bytes: Of all values that the backward pass would read if nothing were computed again.
    """

    joint: Joint
    saved: tuple[fx.Node, ...]
    inputs: tuple[fx.Node, ...]
    recomputed: tuple[fx.Node, ...]
    backward: tuple[fx.Node, ...]
    total_bytes: int

    @property
    def saved_bytes(self) -> int:
        """What the forward pass keeps for the backward, inputs and weights left out."""
        return sum(bytes_of(node) for node in self.saved)

    def __str__(self) -> str:
        """The report: what is saved, what is computed again, and the bytes of each, the largest first."""
        again = [node for node in self.recomputed if not is_view(node) and bytes_of(node)]
        values = [node for node in again if "word" in node.meta]
        inside = [node for node in again if "word" not in node.meta]
        lines = [
            f"saved for the backward pass: {_total(self.saved)}"
            f" (of {self.total_bytes:,} if nothing were computed again)",
            *_largest(self.saved),
            f"read from the call's inputs: {_total(self.inputs)}",
            f"computed again in the backward pass: {_total(values)}, and {len(inside)} steps inside derivatives",
            *_largest(values),
        ]
        return "\n".join(lines) + "\n"


def partition(joint: Joint, *, memory_budget: float = 1.0) -> Partition:
    """Cuts the joint graph.

    Args:
        joint: Forward and backward in one graph.
        memory_budget: 1 keeps what the minimum cut says. Less allows matrix products and attention to be computed
            again, cheapest for their memory first, until no more than this part of those bytes is kept; 0 keeps as
            little as possible. Random numbers are never drawn again.

    Raises:
        OptionError: The budget is not between 0 and 1.
    """
    if not 0.0 <= memory_budget <= 1.0:
        raise OptionError(f"activation_memory_budget must be between 0 and 1, got {memory_budget}.")
    sides = _Sides(joint)
    cut = sides.cut(frozenset())
    if memory_budget == 1.0:
        return cut
    limit = memory_budget * cut.saved_bytes
    heavy = sides.heavy_by_cost()
    low, high = 0, len(heavy)
    while low < high:  # saved bytes fall with every op that may be computed again
        middle = (low + high) // 2
        if sides.cut(frozenset(heavy[:middle])).saved_bytes <= limit:
            high = middle
        else:
            low = middle + 1
    return sides.cut(frozenset(heavy[:low]))


class _Sides:
    """The joint graph as forward and backward side."""

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self.nodes = [node for node in joint.graph.nodes if node.op != "output"]
        tangents = {node for _, node in joint.tangents}
        after = set(tangents)
        for node in self.nodes:
            if any(source in after for source in node.all_input_nodes):
                after.add(node)
        needed = _ancestors([node for _, node in joint.gradients])
        self.tangents = tangents
        self.backward = [
            node for node in self.nodes if node in needed and node in after and node not in tangents
        ]
        # A gradient may not depend on any other one: a full of zeros, say.
        finals = {node for _, node in joint.gradients}
        self.wanted = [
            node
            for node in self.nodes
            if node not in after
            and (node in finals or any(user in needed and user in after for user in node.users))
        ]
        self.region = _ancestors(self.wanted) - after
        self.written = joint.captured.overwritten
        self.changing = self._changing()
        self.distance = self._distances()
        self.boundary = {node for node in self.region if self._leaves_its_checkpoint(node)}
        self.checkpointed = {
            node
            for node in self.region - self.boundary
            if checkpoint(node)
            and node.op == "call_function"
            and not is_stateful(node)
            and node not in self.changing
            and not any(
                is_random(one) for one in (node, *node.all_input_nodes)
            )  # a mask is kept as it is smallest
        }

    def _leaves_its_checkpoint(self, node: fx.Node) -> bool:
        """Whether a checkpointed region hands the value on: the region after it starts from it."""
        region = checkpoint(node)
        return bool(region) and any(user in self.region and checkpoint(user) != region for user in node.users)

    def _may_run_twice(self, node: fx.Node) -> bool:
        is_once = node in self.changing or (node in self.boundary and not is_view(node))
        return is_light(node) and not is_once

    def _changing(self) -> frozenset[fx.Node]:
        """What calls write into, and what is made of it: made again, it would be as before the write, or as after."""
        written = written_nodes(self.joint.graph)
        changing_nodes, seen_of = set(written), set(written)
        for node in self.nodes:
            if seen_of.intersection(node.all_input_nodes):
                (seen_of if is_view(node) else changing_nodes).add(node)
        return frozenset(changing_nodes)

    def _distances(self) -> dict[fx.Node, int]:
        wanted = set(self.wanted)
        distances: dict[fx.Node, int] = {}
        for node in reversed(self.nodes):
            if node in self.region:
                steps = [distances[user] + 1 for user in node.users if user in distances]
                distances[node] = 0 if node in wanted else min(steps, default=0)
        return distances

    def cut(self, allowed: frozenset[fx.Node]) -> Partition:
        """The partition that may compute the heavy ops in `allowed` again."""
        region = [node for node in self.nodes if node in self.region]
        heavy = {
            node
            for node in region
            if not (node in self.checkpointed or node in allowed or self._may_run_twice(node))
        }
        cheapest = self._cheapest(region, heavy)
        if allowed:  # who wants less to be kept, takes more time for it
            return cheapest
        links = links_to_keep(region, cheapest.recomputed, heavy) - self.checkpointed
        cheapest = self._cheapest(region, heavy | links) if links else cheapest
        inputs = inputs_to_keep(self.nodes, cheapest.saved, cheapest.recomputed)
        # Nor is a result made again that derivatives read: the caller has it, and eager reads it, too.
        results = {
            node for node in cheapest.recomputed if node in self._results & self._read and not is_view(node)
        }
        joined = joined_to_keep(self._in_forward, cheapest.saved, cheapest.recomputed)
        kept = (inputs | results | joined | self._read_by_convolutions(cheapest)) - self.checkpointed
        return self._cheapest(region, heavy | links | kept) if kept else cheapest

    def _read_by_convolutions(self, cheapest: Partition) -> set[fx.Node]:
        """What follows from batch-normalized images and would be computed again only for a convolution's derivative.

        The forward pass has written it for the convolution, and a library's call fuses with nothing: to compute it
        again is a kernel of its own for every layer, which reads as much as is not kept, and writes it once more.
        """
        again = set(cheapest.recomputed)
        normalized: set[fx.Node] = set()
        for node in cheapest.recomputed:
            sources = {node, *node.all_input_nodes} & again
            if node.target is batch_normalized_op or sources & normalized:
                normalized.add(node)
        return {
            node
            for node in normalized & self._in_forward
            if not is_view(node) and _is_convolved(node, self.region)
        }

    def _cheapest(self, region: Sequence[fx.Node], once: Collection[fx.Node]) -> Partition:
        """The minimum cut that computes nothing in `once` again."""
        nx: Any = importlib.import_module("networkx")  # three hundred modules, which inference does without
        graph = nx.DiGraph()
        for node in region:
            graph.add_edge(f"{node.name} in", f"{node.name} out", capacity=self._price(node))
            if node in once:
                graph.add_edge(_SOURCE, f"{node.name} in")  # without a capacity: as much as you like
            for source in node.all_input_nodes:
                graph.add_edge(f"{source.name} out", f"{node.name} in")
        for node in self.wanted:
            graph.add_edge(f"{node.name} out", _SINK)
        if _SOURCE not in graph or _SINK not in graph:
            return self._partition(set())
        _, (reached, _) = nx.minimum_cut(graph, _SOURCE, _SINK, flow_func=nx.algorithms.flow.preflow_push)
        kept = {
            node for node in self.region if f"{node.name} in" in reached and f"{node.name} out" not in reached
        }
        return self._partition(kept)

    def _price(self, node: fx.Node) -> float:
        if not isinstance(node.meta["val"], torch.Tensor):
            return 1.0 if isinstance(node.meta["val"], torch.SymInt) else float("inf")
        if node.op == "placeholder":
            # Alive anyway, unless the call writes into it: then a copy is kept.
            return bytes_of(node) + 2.0 if node.name in self.written else _ALIVE_ANYWAY
        if node in self.checkpointed or (is_view(node) and not self._is_part(node)):
            return float("inf")
        if node in self._results and node in self._read:
            return _ALIVE_ANYWAY
        steps = min(self.distance[node], _MOST_STEPS)
        times = 1 if node in self._in_forward and not is_view(node) else 2
        if node in self._results:
            times = _USERS_OWN
        return max(1.0, times * bytes_of(node) * (1 + _STEP * steps))

    def _is_part(self, node: fx.Node) -> bool:
        """Whether a view shows less than what it is a view of: a copy of it lets the rest go."""
        whole = seen(node)
        source = node.args[0] if isinstance(node.args[0], fx.Node) else whole
        source = source if isinstance(source.meta["val"], torch.Tensor) else whole
        is_made_here = whole.op != "placeholder" and whole not in self.changing
        return is_made_here and bytes_of(node) < min(bytes_of(source), bytes_of(whole))

    @functools.cached_property
    def _in_forward(self) -> frozenset[fx.Node]:
        """What the forward pass computes for its own sake. To keep anything else, it has to be written first.

        Batch norm computes its statistics, of which the running ones are made, whether anybody else reads them or not.
        """
        written = [self.joint.node_of[one.value_node] for one in self.joint.captured.mutations]
        computed = _ancestors([*self._results, *written])
        return frozenset(computed.union(filter(_is_statistic, self.nodes)))

    @functools.cached_property
    def _read(self) -> frozenset[fx.Node]:
        """What derivatives read: eager keeps it, too."""
        theirs = [node for node in self.region if node not in self._in_forward]
        read = {*self.wanted, *(source for node in theirs for source in node.all_input_nodes)}
        return frozenset({*read, *map(seen, read)})

    @functools.cached_property
    def _results(self) -> frozenset[fx.Node]:
        """What the call returns."""
        values = [output.value for output in self.joint.captured.outputs]
        node_of = self.joint.node_of
        return frozenset(node_of[value] for value in values if isinstance(value, str) and value in node_of)

    def _partition(self, kept: set[fx.Node]) -> Partition:
        recomputed: set[fx.Node] = set()
        inputs: set[fx.Node] = set()
        waiting = list(self.wanted)
        while waiting:
            node = waiting.pop()
            if node in kept or node in recomputed or node in inputs:
                if node.op == "placeholder":
                    inputs.add(node)
                continue
            if node.op == "placeholder":
                inputs.add(node)
                continue
            recomputed.add(node)
            waiting += node.all_input_nodes
        saved = [node for node in self.nodes if node in kept and node.op != "placeholder"]
        whole = {seen(node) for node in self.wanted}
        whole = {node for node in whole if node.op != "placeholder" and bytes_of(node)}
        return Partition(
            self.joint,
            tuple(saved),
            tuple(node for node in self.nodes if node in inputs),
            tuple(node for node in self.nodes if node in recomputed),
            tuple(self.backward),
            sum(map(bytes_of, whole)),
        )

    def heavy_by_cost(self) -> list[fx.Node]:
        """Heavy ops that may be computed again, the fewest operations for a byte of their result first."""
        heavy_ops = [
            node
            for node in self.nodes
            if node in self.region
            and node.op == "call_function"
            and not is_light(node)
            and node not in self.checkpointed
            and not is_random(node)
            and not is_stateful(node)
            and node not in self.changing
        ]
        place = {node: number for number, node in enumerate(self.nodes)}
        return sorted(heavy_ops, key=lambda node: (operations(node) / max(1, bytes_of(node)), place[node]))


def _is_convolved(node: fx.Node, region: Collection[fx.Node]) -> bool:
    """Whether a convolution's derivative reads the value."""
    return any(
        user not in region
        and isinstance(user.target, torch._ops.OpOverload)
        and packet_name(user.target) == "convolution_backward"
        for user in node.users
    )


def _is_statistic(node: fx.Node) -> bool:
    """Whether it is one of the results of batch norm in training."""
    source = node.args[0] if node.target is operator.getitem else None
    target = source.target if isinstance(source, fx.Node) else None
    return isinstance(target, torch._ops.OpOverload) and packet_name(target) in _NORMS_OF_BATCHES


def _ancestors(roots: list[fx.Node]) -> set[fx.Node]:
    ancestors: set[fx.Node] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node not in ancestors:
            ancestors.add(node)
            waiting += node.all_input_nodes
    return ancestors


def _total(nodes: Sequence[fx.Node]) -> str:
    return f"{len(nodes)} tensors, {sum(map(bytes_of, nodes)):,} bytes"


def _largest(nodes: Sequence[fx.Node]) -> list[str]:
    """A line for each of the largest tensors, and one for the others."""
    ordered = sorted(nodes, key=bytes_of, reverse=True)
    lines = [
        f"    {node.meta.get('word', node.name)!s:<32} {bytes_of(node):>15,}  {_shape(node)}"
        for node in ordered[:_N_LISTED]
    ]
    rest = ordered[_N_LISTED:]
    return [*lines, f"    and {_total(rest)}"] if rest else lines


def _shape(node: fx.Node) -> str:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return ""
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
