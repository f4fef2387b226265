"""``tensor.data`` in a graph: the same memory, without gradients, whose writes the tensor does not count.

A unit's writes are counted, so that autograd refuses a backward pass that needs what was there before. Eager's autograd
is not told of what is written through ``data``: it takes what it finds. So such a graph stays eager's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from longhand.capture import torch_private

__all__ = ["is_data", "writes_through_data"]


def is_data(target: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call of a graph is a tensor's ``data``, as Dynamo or our own capture writes it."""
    return target is torch_private.data_of or (target is getattr and args[1] == "data")


def writes_through_data(module: fx.GraphModule) -> bool:
    """Whether a graph writes into what ``data`` gave."""
    for node in module.graph.nodes:
        if node.op == "call_function" and is_data(node.target, node.args):
            seen = node.meta.get("example_value")
            if not isinstance(seen, torch.Tensor) or torch_private.version(seen) > 0:
                return True
    return False
