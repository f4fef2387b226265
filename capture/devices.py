"""Maps what was traced on the CPU to the target's device, so that CUDA code needs no CUDA build of torch.

A model whose every tensor is on the CPU is captured for CUDA as if all of it were there. A model that is on CUDA
already keeps what it says, tensors that it holds on the CPU included: a stage that works on the CPU, as autograd does,
notes which those are (``meta["on_host"]``), and they stay when the rest is moved.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private
from longhand.capture.tensor_leaves import tensors_in
from longhand.options import Device, Target


def move_to_target(graph: fx.Graph, target: Target) -> None:
    """Rewrites device arguments and ``meta["val"]`` where the graph is all on the CPU and the target is not."""
    wanted = torch.device(target.device.value)
    if target.device is Device.CPU or not _is_all_on_cpu(graph):
        return
    moved: dict[int, torch.Tensor] = {}

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch_private.FakeTensor):
            if id(leaf) not in moved:
                moved[id(leaf)] = torch_private.fake_on_device(leaf, wanted)
            return moved[id(leaf)]
        return wanted if isinstance(leaf, torch.device) else leaf

    for node in graph.nodes:
        if node.meta.get("on_host"):
            continue
        if "val" in node.meta:
            node.meta["val"] = pytree.tree_map(move, node.meta["val"])
        node.args = fx.node.map_aggregate(node.args, move)
        node.kwargs = fx.node.map_aggregate(node.kwargs, move)


def host_nodes(graph: fx.Graph) -> frozenset[fx.Node]:
    """The nodes whose tensors are on the CPU while others are on a GPU."""
    if _is_all_on_cpu(graph):
        return frozenset()
    return frozenset(
        node
        for node in graph.nodes
        if any(value.device.type == "cpu" for value in tensors_in(node.meta.get("val")))
    )


def on_cpu(value: Any) -> Any:
    """A fake tensor as it would be on the CPU; anything else as it is."""
    is_there = not isinstance(value, torch_private.FakeTensor) or value.device.type == "cpu"
    return value if is_there else torch_private.fake_on_device(value, torch.device("cpu"))


def _is_all_on_cpu(graph: fx.Graph) -> bool:
    return all(
        value.device.type == "cpu" for node in graph.nodes for value in tensors_in(node.meta.get("val"))
    )
