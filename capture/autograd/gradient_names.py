"""What gradients are called."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import fx

from longhand.capture.autograd.marks import Mark, has_mark
from longhand.capture.graph import GradientPart, Provenance

__all__ = ["name_gradient"]

aten = torch.ops.aten


def name_gradient(value: fx.Node, gradient: fx.Node, part: GradientPart = GradientPart.WHOLE) -> None:
    """The gradient of a named value is called after it, and so is what it is a view of, or a multiple of."""
    origin: Provenance = value.meta["provenance"]
    word = value.meta.get("word", value.name)
    local = origin.local and f"d_{origin.local}"
    node: Any = gradient
    while isinstance(node, fx.Node) and node.op != "placeholder" and "word" not in node.meta:
        before: Provenance = node.meta["provenance"]
        if part is GradientPart.SUMMAND and not before.differentiated and node.target is aten.add.Tensor:
            return  # itself a sum, of no op's own
        is_whole = part is GradientPart.WHOLE
        node.meta["word"] = f"d_{word}" if is_whole else f"{part.value}_d_{word}"
        node.meta["provenance"] = dataclasses.replace(
            before, local=local if is_whole else None, gradient_of=word, part=part
        )
        if node.target is aten.mul.Tensor and has_mark(node.args[0], Mark.UNSCALED):
            node, part = node.args[0], GradientPart.UNSCALED
        else:
            node = node.args[0] if _is_reshape(node) else None


def _is_reshape(node: fx.Node) -> bool:
    return node.target in (aten.reshape.default, aten.transpose.int, aten.permute.default)
