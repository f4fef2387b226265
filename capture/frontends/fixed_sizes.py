"""Sizes that were to vary and that capture fixed nevertheless: told as an error, with what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.capture.frontends.call import dynamic_dims, ordered_keywords, state_of
from longhand.capture.graph import CapturedGraph
from longhand.errors import CaptureError

_MOST_NAMED = 4
_Size = tuple[str, int]  # (argument, dimension)


def refuse_fixed_sizes(
    graph: CapturedGraph,
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> None:
    """Compares what was asked for with what the graph is for.

    Raises:
        CaptureError: A size that `dynamic_shapes` marks is a number in the graph.
    """
    entry: Callable[..., Any] = model.forward if isinstance(model, torch.nn.Module) else model
    call = (args, ordered_keywords(entry, args, kwargs, graph.name))
    marked = dynamic_dims(entry, call, dynamic_shapes)
    leaves = pytree.tree_leaves(call)
    names = {entry_.node: entry_.target for entry_ in graph.inputs}
    nodes = {node.name: node for node in graph.graph.nodes}
    asked: list[tuple[_Size, int]] = []
    fixed: list[tuple[_Size, int]] = []
    same: dict[int, list[_Size]] = {}
    for position, leaf in enumerate(graph.argument_leaves):
        if not isinstance(leaf, str) or not isinstance(leaves[position], torch.Tensor):
            continue
        for dim, size in enumerate(nodes[leaf].meta["val"].shape):
            example = leaves[position].shape[dim]
            place = (names[leaf], dim)
            if dim in marked.get(position, {}):
                asked.append((place, example))
                if not varies(size):
                    fixed.append((place, example))
            elif not varies(size):
                same.setdefault(example, []).append(place)
    if fixed:
        raise _error(graph.name, fixed, asked, same, model)


def varies(size: int | torch.SymInt) -> bool:
    """Whether a size may differ from call to call; one that capture fixed late may still be a SymInt, of a number."""
    return isinstance(size, torch.SymInt) and not size.node.expr.is_number


def _error(
    called: str,
    fixed: list[tuple[_Size, int]],
    asked: list[tuple[_Size, int]],
    same: Mapping[int, list[_Size]],
    model: Callable[..., Any],
) -> CaptureError:
    (name, dim), example = fixed[0]
    size = f"the size of {name} in dimension {dim}"
    what = f"{called}: {size} was to vary, and is fixed at {example} in what was captured"
    if example < 2:
        return CaptureError(
            f"{what}: 0 and 1 always are.", hint="Give an example call in which that size is 2 or more."
        )
    if partners := same.get(example, []):
        told = " and ".join(f"{other} in dimension {at}" for other, at in partners[:_MOST_NAMED])
        options = [f"--dynamic {other}:{at}" for (other, at), _ in asked]
        options += [f"--dynamic {other}:{at}" for other, at in partners[:_MOST_NAMED]]
        return CaptureError(
            f"{what}: {told} {'has' if len(partners) == 1 else 'have'} the same size, which is fixed.",
            hint=f"If these are one size in every call, let them vary together: {' '.join(options)}.",
        )
    held = []
    if isinstance(model, torch.nn.Module):
        held = [path for path, tensor in state_of(model) if example in tensor.shape][:_MOST_NAMED]
    because = (
        f" {', '.join(held)} of the model {'has' if len(held) == 1 else 'have'} that size." if held else ""
    )
    return CaptureError(
        f"{what}, since the model's code or its weights ask for that number.{because}",
        hint="Look for the number (a view, an expand, a table of that size), or leave that dimension out.",
    )
