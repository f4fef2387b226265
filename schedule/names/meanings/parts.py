"""What the user calls a part of a tensor that a kernel reads: ``shift_mlp``, of ``emb.chunk(6, dim=1)``.

A load says which operation it is for. Among what that operation is given stands the part, through views of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from longhand.lower.ir import Load, Size, Value
from longhand.schedule.kernels.address_terms import ParameterRef
from longhand.schedule.names.dimensions.dimension_propagation import shape_of
from longhand.schedule.names.operation_names import aten_name, op_word, provenance_of
from longhand.schedule.names.shared.callers import Caller, Callers
from longhand.schedule.names.words import identifier
from longhand.schedule.plan import KernelPlan

_JOINS = frozenset({"cat", "stack"})
_COPIES = frozenset({"clone", "contiguous", "_to_copy", "to"})  # of the same elements
_TAKES_PART = frozenset({"slice", "narrow", "select", "getitem", "unbind"})


def part_names(plan: KernelPlan, callers: Callers) -> dict[int, str]:
    """By position of the body: the word for the part that is loaded there, where all calls have the same one."""
    passed = [pointer.name for pointer in plan.pointers if not pointer.scratch]
    word_of: dict[int, str] = {}
    for position, value in enumerate(plan.body):
        origins = callers.first.launch.origins
        if not isinstance(value, Load) or value.buffer not in passed or value.origin not in origins:
            continue
        alike = [place for place, other in _loads(plan.body) if other.origin == value.origin]
        load = _PartLoad(
            passed.index(value.buffer),
            origins.index(value.origin),
            alike.index(position),
            len(alike),
            value.index.offset,
        )
        words = {_word(one, load) for one in callers.told_apart}
        word = words.pop() if len(words) == 1 else None
        if word:
            word_of[position] = word
    return word_of


@dataclasses.dataclass(frozen=True)
class _PartLoad:
    """How a kernel reads a part.

    Attributes:
        place: Which of the call's tensors is read.
        step: Which of its operations reads it.
        turn: How many values that operation reads before.
        of: How many it reads.
        offset: Where in the tensor the part begins.
    """

    place: int
    step: int
    turn: int
    of: int
    offset: Size


def _loads(body: Sequence[Value]) -> Iterator[tuple[int, Load]]:
    return ((place, value) for place, value in enumerate(body) if isinstance(value, Load))


def word_of_offset(plan: KernelPlan, parameter: str, parts: Mapping[int, str]) -> str | None:
    """The word for the part that begins at an offset which the kernel is given; None where it has none."""
    words = {
        parts.get(position)
        for position, address in plan.addresses.items()
        if any(ParameterRef(parameter) in product for product in address.offset)
    }
    return words.pop() if len(words) == 1 else None


def _word(caller: Caller, load: _PartLoad) -> str | None:
    """What one call's user calls the part."""
    origins, buffers = caller.launch.origins, caller.launch.buffers
    node = caller.words.nodes.get(origins[load.step]) if load.step < len(origins) else None
    if node is None:
        return None
    sources = [caller.words.origins.source_of_layout(buffer) for buffer in buffers]
    source = sources[load.place]
    if aten_name(node) in _JOINS:  # each piece is read once, in order, from where it then stands
        pieces = node.args[0] if isinstance(node.args[0], list | tuple) else ()
        plain = [_without_sign(piece) for piece in pieces if isinstance(piece, fx.Node)]
        read = [piece for piece in plain if any(_views_of(piece, one) is not None for one in sources)]
        views = _views_of(read[load.turn], source) if len(read) == load.of else None
        return _word_of(views, caller) if views else None
    chains = [chain for one in node.all_input_nodes if (chain := _views_of(one, source))]
    named = [(chain, word) for chain in chains if (word := _word_of(chain, caller))]
    words = {word for chain, word in named if _begins_at(chain, load.offset)}
    return words.pop() if len(words) == 1 else None


def _without_sign(node: fx.Node) -> fx.Node:
    """What a value is the negative of; itself where it is of none."""
    inner = node.args[0] if aten_name(node) == "neg" else node
    return inner if isinstance(inner, fx.Node) else node


def _views_of(node: fx.Node, source: str) -> list[fx.Node] | None:
    """The views by which a value is seen of the node of that name, the last first; None where it is none of it."""
    views: list[fx.Node] = []
    while node.name != source:
        above = node.args[0] if node.op == "call_function" and node.args else None
        if not isinstance(above, fx.Node) or not (op_word(node).silent or aten_name(node) == "chunk"):
            return None
        views.append(node)
        node = above
    return views


def _word_of(views: list[fx.Node], caller: Caller) -> str | None:
    """The user's variable for what is seen, if it is a part."""
    if not any(aten_name(view) in _TAKES_PART for view in views):
        return None
    if any(provenance_of(view).differentiates for view in views):
        return None
    local = next((local for view in views if (local := caller.words.origins.local(view))), None)
    return identifier(local) if local else None


def _begins_at(views: list[fx.Node], offset: Size) -> bool:
    """Whether what is seen begins at a distance from where the tensor does, whose elements lie side by side."""
    whole = views[-1].args[0]
    assert isinstance(whole, fx.Node)
    shape = shape_of(whole)
    if not all(isinstance(size, int) for size in shape) or any(len(v.all_input_nodes) > 1 for v in views):
        return False  # the place of a part that has no numbers is not proven
    tensor = torch.empty([int(size) for size in shape], device="meta")
    seen: Any = tensor
    for view in reversed(views):
        assert callable(view.target)
        if aten_name(view) not in _COPIES:
            seen = view.target(seen, *view.args[1:], **view.kwargs)
    if not isinstance(seen, torch.Tensor):  # all the parts of a split, none of them
        return False
    is_view = seen.untyped_storage()._cdata == tensor.untyped_storage()._cdata
    return is_view and seen.storage_offset() == offset
