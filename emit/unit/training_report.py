"""What a training unit's README says of memory: what the forward pass keeps, and what is computed again.

The totals are those of the partition; what they consist of is named in the words of model.py, equal tensors of many
layers on one line.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable

import torch
from torch import fx

from longhand.capture.graph import BackwardKind, TrainingGraphs
from longhand.emit.module.passes import Pass
from longhand.emit.names.buffer_names import BufferWords
from longhand.emit.names.operation_names import op_word, provenance_of

_MOST_LINES = 8


def training_report(training: TrainingGraphs, forward: Pass, backward: Pass) -> list[str]:
    """The partition's totals, each above what it consists of."""
    totals = [line for line in training.report.splitlines() if not line.startswith(" ")]
    return [
        line
        for total in totals
        for line in (total, *_tensors(_items(total, training, forward, backward), forward.words))
    ]


def _items(total: str, training: TrainingGraphs, forward: Pass, backward: Pass) -> list[fx.Node]:
    nodes = forward.words.nodes
    if total.startswith("saved"):
        kept = (BackwardKind.SAVED, BackwardKind.RESULT)
        places = [entry.source for entry in training.inputs if entry.kind in kept]
        saved = [training.forward.outputs[place].value for place in places if isinstance(place, int)]
        return [
            nodes[value] for value in saved if isinstance(value, str) and value not in forward.words.inputs
        ]
    if total.startswith("computed again"):
        again = [node for node in backward.words.nodes.values() if _is_again(node, nodes.get(node.name))]
        return [nodes[node.name] for node in again]
    return []


def _is_again(node: fx.Node, source: fx.Node | None) -> bool:
    """Whether a node of the backward pass is one of the forward pass, computed once more."""
    return (
        source is not None
        and node.op == "call_function"
        and node.target is source.target
        and not provenance_of(node).differentiates
        and not op_word(_whole(node)).silent
    )


def _whole(node: fx.Node) -> fx.Node:
    """The call that a node is one result of."""
    source = node.args[0] if node.target is operator.getitem else node
    return source if isinstance(source, fx.Node) else node


def _tensors(nodes: Iterable[fx.Node], words: BufferWords) -> list[str]:
    """A line for each kind of tensor, the largest first; one for all that are left."""
    kinds: Counter[tuple[str, str, int]] = Counter()
    for node in nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            word = next(words.variables(node.name))
            shape = ", ".join(map(str, value.shape))
            kinds[word, f"{str(value.dtype).removeprefix('torch.')} ({shape})", _bytes(value)] += 1
    ordered = sorted(kinds.items(), key=lambda kind: -kind[0][2] * kind[1])
    lines = [
        f"    {word:<32} {f'{n} x ' if n > 1 else '':>6}{size:>14,}  {what}"
        for (word, what, size), n in ordered[:_MOST_LINES]
    ]
    rest = sum(n for _, n in ordered[_MOST_LINES:])
    if rest:
        size = sum(n * kind[2] for kind, n in ordered[_MOST_LINES:])
        lines.append(f"    {f'and {rest} smaller ones':<32} {'':>6}{size:>14,}")
    return lines


def _bytes(value: torch.Tensor) -> int:
    return value.numel() * value.element_size() if all(isinstance(size, int) for size in value.shape) else 0
