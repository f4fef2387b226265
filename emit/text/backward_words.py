"""What a kernel is the backward pass of, in words, where its formulas would be too many to name their results."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from longhand.schedule.named_plan import (
    BufferNamer,
    derivative_of_norm,
    derivative_word,
    frame_of_backward,
    is_nearly_whole_backward,
    own_or_class,
    provenance_of,
)
from longhand.schedule.names.words import listed
from longhand.schedule.plan import KernelPlan

_MOST_OPERATIONS = 4  # that a kernel is said to be the backward pass of


def backward_of(plan: KernelPlan, words: BufferNamer) -> str:
    """``the backward pass of layer norm``; empty where the kernel is none of anything that has a word.

    It is a part of it where the gradient of what was normalized is not among what it makes.
    """
    norm = derivative_of_norm(plan).replace("_", " ")
    backward = _differentiated(plan, words) or ([norm] if norm else [])
    told = listed(backward) if len(backward) <= _MOST_OPERATIONS else f"{len(backward)} operations"
    nodes = [words.nodes[name] for name in plan.origins if name in words.nodes]
    part = "" if not _norms(nodes) or any(map(_is_gradient_of_op, nodes)) else "part of "
    return f"{part}the backward pass of {told}" if backward else ""


def _norms(nodes: Sequence[fx.Node]) -> list[str]:
    """The norms that operations differentiate."""
    derived = (provenance_of(node).differentiated for node in nodes)
    return [word for word in derived if "norm" in word]


def _is_gradient_of_op(node: fx.Node) -> bool:
    """Whether a value is the gradient of what a norm was given, and of no vector that it holds."""
    origin, value = provenance_of(node), node.meta.get("val")
    return bool(origin.differentiated and origin.gradient_of) and getattr(value, "ndim", 0) > 1


def _differentiated(plan: KernelPlan, words: BufferNamer) -> list[str]:
    """What a kernel is the backward pass of, in the field's words, else the user's: ``layer norm``, LlamaRMSNorm."""
    nodes = [words.nodes[name] for name in plan.origins if name in words.nodes]
    origins = [provenance_of(node) for node in nodes]
    derived = dict.fromkeys(derivative_word(origin) for origin in origins if origin.differentiated)
    if derived:
        return [word.of.replace("_", " ") for word in derived]
    frame = frame_of_backward(nodes)
    if frame is None or not is_nearly_whole_backward(frame, nodes, words.nodes):
        return []
    return [own_or_class(frame)]
