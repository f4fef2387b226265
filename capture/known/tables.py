"""A mask that no input decides and that attention reads as it is becomes a table, made when the model is made.

A sliding window at fixed sizes, say: no kernel and no call makes it, the unit holds it as a constant, and a line of its
``__init__`` says what it is. Elementwise code computes such a value from its indices, and needs no table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture.functionalize.dead_code import remove_dead_code
from longhand.capture.graph import CapturedGraph, GraphInput, InputKind
from longhand.capture.known.biases import ALIGNMENT, ATTENTION, give_mask, mask_of, mask_word
from longhand.capture.known.call import functions_of, shape_of
from longhand.capture.known.deduction import facts_of
from longhand.capture.known.facts import Affine, Piecewise
from longhand.capture.provenance import Provenance
from longhand.options import Device

aten = torch.ops.aten

# A larger mask is made in each call: it would stay in memory between them.
_MOST_BYTES = 64 * 1024 * 1024


def with_tables(captured: CapturedGraph, device: Device) -> CapturedGraph:
    """The captured graph with a constant for each known mask of attention; itself where there is none.

    Args:
        captured: The graph for that device.
        device: Decides how the rows of a table are aligned.
    """
    graph = captured.graph
    readers: dict[fx.Node, list[fx.Node]] = {}
    for node in graph.nodes:
        mask = mask_of(node) if node.target is ATTENTION else None
        if mask is not None:
            readers.setdefault(mask, []).append(node)
    facts = facts_of(graph) if readers else {}
    inputs, constants = captured.inputs, dict(captured.constants)
    for mask, calls in readers.items():
        fact = facts.get(mask)
        if not isinstance(fact, Piecewise) or (table := _table(fact, mask, device)) is None:
            continue
        target = unused_word(_word(mask), [entry.target for entry in inputs])
        placeholder = placeholder_for(graph, target, mask.meta["val"].new_empty(table.shape))
        inputs = (*inputs, GraphInput(placeholder.name, InputKind.CONSTANT, target))
        constants[target] = table
        seen = _as_wide(graph, placeholder, mask)
        for call in calls:
            give_mask(call, seen)
            told: Provenance = Provenance.of(call)
            remark = f"{mask_word(call, mask)} is {_in_words(fact)}, whatever the input: a table"
            call.meta["provenance"] = dataclasses.replace(told, remark=remark)
    if len(inputs) == len(captured.inputs):
        return captured
    remove_dead_code(graph)
    return dataclasses.replace(captured, inputs=inputs, constants=constants)


def _table(fact: Piecewise, mask: fx.Node, device: Device) -> torch.Tensor | None:
    """The values, 1 wide where they do not vary, with rows of a good length for the device."""
    shape = shape_of(mask)
    dtype = mask.meta["val"].dtype
    varying = {dim for one in functions_of(fact) for dim, step in enumerate(one.steps) if step}
    sizes: list[int] = []
    for dim, size in enumerate(shape):
        if not isinstance(size, int) or not all(isinstance(one.offset, int) for one in functions_of(fact)):
            return None
        sizes.append(size if dim in varying else 1)
    if device is Device.CUDA and sizes[-1] > 1:
        sizes[-1] += -sizes[-1] % ALIGNMENT
    if torch.Size(sizes).numel() * dtype.itemsize > _MOST_BYTES:
        return None
    holds = torch.ones(sizes, dtype=torch.bool)
    for condition in fact.conditions:
        holds &= _values(condition, sizes) >= 0
    inside, outside = (torch.tensor(number, dtype=dtype) for number in (fact.inside, fact.outside))
    table = torch.where(holds, inside, outside)
    while table.ndim > 2 and table.shape[0] == 1:
        table = table[0]
    return table


def _in_words(fact: Piecewise) -> str:
    """``kv <= q and q <= kv + 7``, where the last two indices alone decide."""
    words = []
    for condition in fact.conditions:
        *others, query, key = condition.steps
        if any(others) or (query, key) not in ((1, -1), (-1, 1)):
            return "known"
        left, right = ("kv", "q") if query == 1 else ("q", "kv")
        sign, offset = ("-" if condition.offset < 0 else "+"), abs(int(condition.offset))
        words.append(f"{left} <= {right}" + (f" {sign} {offset}" if offset else ""))
    return " and ".join(sorted(words))


def _values(function: Affine, sizes: Sequence[int]) -> torch.Tensor:
    total = torch.full([1] * len(sizes), int(function.offset))
    for dim, step in enumerate(function.steps):
        index = torch.arange(sizes[dim]).reshape([-1 if d == dim else 1 for d in range(len(sizes))])
        total = total + step * index
    return total


def _word(mask: fx.Node) -> str:
    told: Provenance = Provenance.of(mask)
    return told.local or "attention_mask"


def unused_word(word: str, taken: Sequence[str]) -> str:
    """The word, or with a number that makes it new."""
    choices = [word, *(f"{word}_{number}" for number in range(2, len(taken) + 2))]
    return next(choice for choice in choices if choice not in taken)


def placeholder_for(graph: fx.Graph, name: str, value: torch.Tensor) -> fx.Node:
    """A further input of the graph, after the others, that holds what `value` is like."""
    others = [node for node in graph.nodes if node.op == "placeholder"]
    with graph.inserting_after(others[-1]) if others else graph.inserting_before():
        placeholder = graph.placeholder(name)
    placeholder.meta["val"] = value
    return placeholder


def _as_wide(graph: fx.Graph, table: fx.Node, mask: fx.Node) -> fx.Node:
    """The part of the table that is the mask; attention repeats what is 1 wide by itself."""
    count: Any = shape_of(mask)[-1]
    if shape_of(table)[-1] in (1, count):
        return table
    with graph.inserting_before(mask):
        part = graph.call_function(aten.slice.Tensor, (table, -1, 0, count))
    part.meta["val"] = aten.slice.Tensor(table.meta["val"], -1, 0, count)
    part.meta["provenance"] = Provenance.of(mask)
    return part
