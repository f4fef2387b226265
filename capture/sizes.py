"""The symbolic sizes of a graph: which input tells each, its bounds, and a word for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import sympy
import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.graph import GraphInput, InputKind, SymbolicSize


def symbolic_sizes(
    graph: fx.Graph, inputs: tuple[GraphInput, ...], names: dict[tuple[str, int], str]
) -> tuple[SymbolicSize, ...]:
    """One entry for each symbol, in the order in which the inputs show them.

    Args:
        names: Words given with the call: (placeholder, dimension) -> name.
    """
    kinds = {entry.node: entry for entry in inputs}
    entries: dict[sympy.Symbol, SymbolicSize] = {}
    words = _words(graph, names)
    for node in graph.nodes:
        if node.op != "placeholder":
            break
        value = node.meta.get("val")
        if kinds[node.name].kind is InputKind.SIZE:
            _add(entries, value, words.get(_symbol(value), kinds[node.name].target), node.name, None)
        elif isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                _add(entries, size, words.get(_symbol(size), f"{node.name}_size_{dim}"), node.name, dim)
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                _add_multiple(entries, size, node.name, dim)
    return tuple(entries.values())


def _symbol(size: Any) -> Any:
    return torch_private.symbolic_expression(size) if isinstance(size, torch.SymInt) else None


def _words(graph: fx.Graph, names: dict[tuple[str, int], str]) -> dict[Any, str]:
    """The first word given to each symbol."""
    words: dict[Any, str] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        for dim, size in enumerate(
            value.shape if node.op == "placeholder" and isinstance(value, torch.Tensor) else ()
        ):
            if (node.name, dim) in names and isinstance(size, torch.SymInt):
                words.setdefault(_symbol(size), names[node.name, dim])
    return words


def _add(
    by_symbol: dict[sympy.Symbol, SymbolicSize], size: Any, name: str, node: str, dim: int | None
) -> None:
    symbol = _symbol(size)
    if isinstance(symbol, sympy.Symbol) and symbol not in by_symbol:
        by_symbol[symbol] = _described(by_symbol, size, symbol, name, node, dim)


def _add_multiple(by_symbol: dict[sympy.Symbol, SymbolicSize], size: Any, node: str, dim: int) -> None:
    """A dimension of ``2*s0 + 1`` tells s0 where no dimension is s0 itself."""
    expression = _symbol(size)
    unknown = [] if expression is None else [s for s in expression.free_symbols if s not in by_symbol]
    if len(unknown) != 1 or expression.free_symbols != set(unknown):
        return
    symbol = unknown[0]
    scale = expression.coeff(symbol)
    offset = expression - scale * symbol
    if scale.is_Integer and scale > 0 and offset.is_Integer:
        entry = _described(by_symbol, size, symbol, f"{node}_part_{dim}", node, dim)
        example = (entry.example - int(offset)) // int(scale)
        by_symbol[symbol] = dataclasses.replace(entry, example=example, scale=int(scale), offset=int(offset))


def _described(
    by_symbol: dict[sympy.Symbol, SymbolicSize],
    size: torch.SymInt,
    symbol: sympy.Symbol,
    name: str,
    node: str,
    dim: int | None,
) -> SymbolicSize:
    lower, upper = torch_private.symbol_range(torch_private.shape_env_of(size), symbol)
    taken = {entry.name for entry in by_symbol.values()}
    unique, count = name, 1
    while unique in taken:
        unique, count = f"{name}_{count}", count + 1
    return SymbolicSize(
        symbol=symbol,
        name=unique,
        input_node=node,
        dim=dim,
        example=torch_private.symbolic_hint(size) or 0,
        minimum=int(lower) if lower.is_Integer else 0,
        maximum=int(upper) if upper.is_Integer and int(upper) < 2**62 else None,
    )
