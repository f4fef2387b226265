"""Sizes that only the call's data tell: how many elements a mask selects, how many different numbers there are.

A graph from `longhand generate` may have them, in inference. Whatever takes or makes a tensor of such a size stays the
call of ATen that the user wrote: neither its decomposition nor a kernel knows how many elements there will be, or
whether there are any.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private

aten = torch.ops.aten

READS = (aten.item.default, aten._local_scalar_dense.default)  # of a number out of a tensor


@dataclasses.dataclass(frozen=True)
class DataSize:
    """A size that only the call's data tell: how many elements a mask selects.

    Attributes:
        symbol: The SymPy symbol in the shapes of ``meta["val"]``.
        name: A word for it: ``n_selected``.
        node: The first node whose tensor has it as a size.
        dim: Which of that tensor's dimensions it is.
        example: What stands for it where bytes are counted: nobody knows how many there were.
    """

    symbol: sympy.Symbol
    name: str
    node: str
    dim: int
    example: int = 1


def depends_on_data(tree: Any) -> bool:
    """Whether any number in a tree, or any size of a tensor, is known only when the call runs."""
    for value in pytree.tree_leaves(tree):
        sizes = tuple(value.shape) if isinstance(value, torch.Tensor) else (value,)
        for size in sizes:
            is_symbolic = isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool)
            if is_symbolic and torch_private.free_unbacked_symbols(size):
                return True
    return False


def node_depends_on_data(node: fx.Node) -> bool:
    """Whether anything that a call takes or makes does."""
    values = [source.meta.get("val") for source in node.all_input_nodes]
    return depends_on_data((node.meta.get("val"), values, list(node.args), list(node.kwargs.values())))


def data_sizes(graph: fx.Graph) -> tuple[DataSize, ...]:
    """One entry for each symbol, by the first tensor that has it as a size of its own, in the order of the graph."""
    sizes: dict[Any, DataSize] = {}
    taken = {node.name for node in graph.nodes}
    for node in graph.nodes:
        value = node.meta.get("val")
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if not isinstance(size, torch.SymInt) or not torch_private.free_unbacked_symbols(size):
                continue
            symbol = torch_private.symbolic_expression(size)
            if not symbol.is_Symbol or symbol in sizes:
                continue
            name = f"n_{node.name}"
            while name in taken:
                name += "_size"
            taken.add(name)
            sizes[symbol] = DataSize(symbol, name, node.name, dim)
    return tuple(sizes.values())
