"""Which nodes of a graph show memory of other nodes."""

from __future__ import annotations

import operator

import torch
from torch import fx

from longhand.capture.functionalize.decompositions import packet_name

_VIEWS_TEXT = """
    reshape permute transpose expand select slice unsqueeze squeeze split split_with_sizes unbind diagonal unfold view
    view_as_complex view_as_real real imag as_strided
"""
_VIEWS = frozenset(_VIEWS_TEXT.split())


def is_view(node: fx.Node) -> bool:
    """Whether the value is memory of another value (or a reshape, which mostly is)."""
    target = node.target
    if target is operator.getitem:
        source = node.args[0]
        return isinstance(source, fx.Node) and is_view(source)
    return (
        isinstance(target, torch._ops.OpOverload)
        and target.namespace == "aten"
        and packet_name(target) in _VIEWS
    )


def seen(node: fx.Node) -> fx.Node:
    """What a view is a view of, at last."""
    while is_view(node) and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def as_it_lies(node: fx.Node) -> torch.Tensor:
    """The node's fake value with the strides of the view that it is: a copy on the way to it was folded away."""
    if not is_view(node) or not isinstance(node.args[0], fx.Node):
        value: torch.Tensor = node.meta["val"]
        return value
    source = node.args[0]
    rest, kwargs = fx.node.map_arg((node.args[1:], node.kwargs), lambda one: one.meta["val"])
    seen = as_it_lies(source) if isinstance(source.meta["val"], torch.Tensor) else source.meta["val"]
    assert callable(node.target)
    made: torch.Tensor = node.target(seen, *rest, **kwargs)
    return made
