"""How a person writes a known value: ``full``, ``arange``, and comparisons of aranges; a view of one of these.

A condition of two indices is one comparison, ``kv <= q`` or ``q <= kv + 7``: whatever a model went through to say so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.known.call import shape_of
from longhand.capture.known.facts import Affine, AffineValue, Fact, Piecewise, SameNumber, Size
from longhand.capture.provenance import Provenance

aten = torch.ops.aten

Emit = Callable[[Any, tuple[Any, ...], dict[str, Any]], fx.Node]

_PLAIN_VIEWS = frozenset({aten.unsqueeze.default, aten.expand.default, aten.reshape.default})
_MADE_OF_NOTHING = frozenset(
    {aten.full.default, aten.zeros.default, aten.ones.default, aten.arange.default, aten.arange.start_step}
)


def is_plain(node: fx.Node) -> bool:
    """Whether a known value is spelled as a person would: out of nothing, seen through views."""
    while node.target in _PLAIN_VIEWS and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node.target in _MADE_OF_NOTHING


def sizes_in(graph: fx.Graph) -> dict[Size, fx.Node]:
    """By symbolic size: the first node that is that number."""
    sizes: dict[Size, fx.Node] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            sizes.setdefault(torch_private.symbolic_expression(value), node)
    return sizes


@dataclasses.dataclass(frozen=True)
class Spelling:
    """Adds the calls that stand in a node's place, in its words.

    Attributes:
        node: What is written anew.
        emit: Adds a call at the graph's insertion point, which is before `node`.
        sizes: Where the symbolic sizes are to be had.
    """

    node: fx.Node
    emit: Emit
    sizes: Mapping[Size, fx.Node]

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """One call, at the insertion point, in the node's words; the name of its value is left to the last one."""
        made = self.emit(target, args, kwargs)
        made.meta["provenance"] = dataclasses.replace(self._provenance, local=None)
        return made

    def named(self, value: fx.Node) -> fx.Node:
        """The value that stands in the node's place, under its name."""
        value.meta["provenance"] = self._provenance
        return value

    @property
    def _provenance(self) -> Provenance:
        provenance: Provenance = Provenance.of(self.node)
        return provenance

    def made(self, dtype: torch.dtype | None = None) -> dict[str, Any]:
        """How a tensor out of nothing is made here."""
        value = self.node.meta["val"]
        return {"dtype": dtype or value.dtype, "device": value.device}

    def size(self, size: Size) -> Any:
        """A size as an argument of a call: a number, or the node that is it; None where there is none so far."""
        if isinstance(size, int):
            return size
        node = self.sizes.get(size)
        return node if node is not None and node < self.node else None

    def expanded(self, value: fx.Node) -> fx.Node | None:
        """A value as wide as the node."""
        shape = [self.size(size) for size in shape_of(self.node)]
        if any(size is None for size in shape):
            return None
        return (
            value if shape_of(value) == shape_of(self.node) else self.call(aten.expand.default, value, shape)
        )


def spelled(spelling: Spelling, fact: Fact) -> fx.Node | None:
    """The plainest form of a known value; None where there is none plainer than the user's own."""
    shape = shape_of(spelling.node)
    if 0 in shape:
        return None
    if isinstance(fact, SameNumber):
        if not all(isinstance(size, int) for size in shape):
            return None
        return spelling.named(spelling.call(aten.full.default, list(shape), fact.number, **spelling.made()))
    made = _positions(spelling, fact) if isinstance(fact, AffineValue) else _choice(spelling, fact)
    whole = None if made is None else spelling.expanded(spelling.named(made))
    return None if whole is None else spelling.named(whole)


def _positions(spelling: Spelling, fact: AffineValue) -> fx.Node | None:
    varying = _varying(fact.value)
    if len(varying) != 1 or not isinstance(fact.value.offset, int):
        return None
    (dim,) = varying
    return _arange(spelling, dim, fact.value.offset, fact.value.steps[dim], spelling.made())


def _choice(spelling: Spelling, fact: Piecewise) -> fx.Node | None:
    """``where(kv <= q, 0.0, -inf)``; of bools the comparison alone."""
    compared = [_comparison(spelling, condition) for condition in sorted(fact.conditions, key=_order)]
    whole: fx.Node | None = None
    for one in compared:
        if one is None:
            return None
        whole = one if whole is None else spelling.call(aten.bitwise_and.Tensor, whole, one)
    if spelling.node.meta["val"].dtype is torch.bool:
        return whole if fact.inside is True else spelling.call(aten.bitwise_not.default, whole)
    inside, outside = (
        spelling.call(aten.full.default, [], number, **spelling.made())
        for number in (fact.inside, fact.outside)
    )
    return spelling.call(aten.where.self, whole, inside, outside)


def _order(condition: Affine) -> tuple[Any, ...]:
    return (str(condition.offset), condition.steps)


def _comparison(spelling: Spelling, condition: Affine) -> fx.Node | None:
    """``offset + sum(steps * indices) >= 0`` as one index compared with a number, or with another index."""
    falling = [dim for dim, step in enumerate(condition.steps) if step == -1]
    rising = [dim for dim, step in enumerate(condition.steps) if step == 1]
    offset = condition.offset
    if len(falling) + len(rising) != len(_varying(condition)) or not isinstance(offset, int):
        return None
    indices = spelling.made(torch.int64)
    if len(falling) == len(rising) == 1:
        left = _arange(spelling, falling[0], 0, 1, indices)
        right = _arange(spelling, rising[0], offset, 1, indices)
        return None if left is None or right is None else spelling.call(aten.le.Tensor, left, right)
    if len(falling) + len(rising) != 1:
        return None
    index = _arange(spelling, (falling or rising)[0], 0, 1, indices)
    if index is None:
        return None
    if falling:
        return spelling.call(aten.le.Scalar, index, offset)
    return spelling.call(aten.ge.Scalar, index, -offset)


def _varying(function: Affine) -> list[int]:
    return [dim for dim, step in enumerate(function.steps) if step]


def _arange(spelling: Spelling, dim: int, start: int, step: int, made: dict[str, Any]) -> fx.Node | None:
    """``arange(start, stop, step)`` along one dimension of the node, 1 wide along the others."""
    shape = shape_of(spelling.node)
    count = spelling.size(shape[dim])
    if isinstance(count, int):
        steps = () if step == 1 else (step,)
        line = spelling.call(aten.arange.start_step, start, start + step * count, *steps, **made)
    elif count is None or step != 1:
        return None
    else:
        line = spelling.call(aten.arange.start_step, 0, count, **made)
        line = line if start == 0 else spelling.call(aten.add.Scalar, line, start)
    if len(shape) == 1:
        return line
    return spelling.call(aten.reshape.default, line, [count if d == dim else 1 for d in range(len(shape))])
