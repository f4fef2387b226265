"""From a softmax back to the product of queries and keys, and on to the product with the values.

What stands between is told as steps: views, factors that are known numbers, biases and masks. Everything there is read
by the next step alone: whoever returns the weights, or looks at the scores, keeps the products as written.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture.attention.axes import is_followed
from longhand.capture.functionalize.writes import bound
from longhand.capture.known.call import shape_of
from longhand.capture.known.facts import Fact, SameNumber

aten = torch.ops.aten

PRODUCTS = frozenset({aten.matmul.default, aten.bmm.default})
_FILLS = frozenset({aten.masked_fill.Scalar, aten.masked_fill.Tensor})
_DEEPEST = 32  # steps that a product is looked for through


@dataclasses.dataclass(frozen=True)
class Fill:
    """A number instead of some of the scores.

    Attributes:
        mask: Where, as bools.
        number: Which.
        is_kept: The mask says where scores stay, not where they do not.
    """

    mask: fx.Node
    number: float
    is_kept: bool = False


@dataclasses.dataclass(frozen=True)
class ScoreStep:
    """One call on the way from a product to a softmax, or from there to the next product.

    Attributes:
        node: The call.
        factor: What it multiplies by.
        bias: What it adds, and times what.
        fill: What it puts instead.
    """

    node: fx.Node
    factor: float = 1.0
    bias: tuple[fx.Node, float] | None = None
    fill: Fill | None = None


@dataclasses.dataclass(frozen=True)
class BatchedProduct:
    """A product of two matrices, for each of some leading dimensions."""

    node: fx.Node
    left: fx.Node
    right: fx.Node


@dataclasses.dataclass(frozen=True)
class WrittenAttention:
    """A softmax between two products.

    Attributes:
        scores: The product of queries and keys.
        steps: From there to the softmax.
        softmax: The softmax, over its last dimension.
        views: From the softmax to the next product: views and casts.
        output: The product with the values.
    """

    scores: BatchedProduct
    steps: tuple[ScoreStep, ...]
    softmax: fx.Node
    views: tuple[fx.Node, ...]
    output: BatchedProduct

    @property
    def dtype(self) -> torch.dtype:
        """Of queries, keys, values and the result."""
        dtype: torch.dtype = self.scores.node.meta["val"].dtype
        return dtype


def written_attention(softmax: fx.Node, facts: Mapping[fx.Node, Fact]) -> WrittenAttention | None:
    """What a softmax is a part of; None where that is no attention that one call computes."""
    if softmax.target is not aten.softmax.int or not isinstance(softmax.args[0], fx.Node):
        return None
    rank = softmax.meta["val"].dim()
    if softmax.args[1] not in (-1, rank - 1) or rank < 2:
        return None
    found = _scores(softmax.args[0], softmax, facts, 0)
    after = _output(softmax)
    if found is None or after is None:
        return None
    (scores, steps), (views, output) = found, after
    written = WrittenAttention(scores, steps, softmax, views, output)
    nodes = [scores.left, scores.right, output.left, output.right, output.node, scores.node]
    if any(node.meta["val"].dtype is not written.dtype for node in nodes):
        return None
    # Fused kernels compute in float32 what is given in 16 bits: a cast there and back says no more.
    allowed = {written.dtype} | (
        {torch.float32} if written.dtype in (torch.float16, torch.bfloat16) else set()
    )
    between = [softmax, *views, *(step.node for step in steps)]
    if not written.dtype.is_floating_point or any(node.meta["val"].dtype not in allowed for node in between):
        return None
    return written


def factors_after(steps: Sequence[ScoreStep]) -> tuple[float, ...]:
    """For each step, what all steps behind it multiply by."""
    factors = [1.0]
    for step in reversed(steps[1:]):
        factors.append(factors[-1] * step.factor)
    return tuple(reversed(factors[: len(steps)]))


def known_factor(node: fx.Node, facts: Mapping[fx.Node, Fact]) -> tuple[fx.Node, float] | None:
    """What a call multiplies by a known number, and the number; divisions are such, too."""
    if node.target in (aten.mul.Tensor, aten.mul.Scalar):
        for x, other in (node.args[:2], node.args[1::-1]):
            number = _number(other, facts)
            if number is not None and isinstance(x, fx.Node) and shape_of(x) == shape_of(node):
                return x, number
    if node.target in (aten.div.Tensor, aten.div.Scalar) and not node.kwargs:
        x, number = node.args[0], _number(node.args[1], facts)
        if number and isinstance(x, fx.Node) and shape_of(x) == shape_of(node):
            return x, 1.0 / number
    return None


def product_of(node: fx.Node) -> BatchedProduct | None:
    """The product that a node is; one of two matrices alone has no heads."""
    if node.target not in PRODUCTS or node.meta["val"].dim() < 3:
        return None
    left, right = node.args[:2]
    assert isinstance(left, fx.Node) and isinstance(right, fx.Node)
    if min(left.meta["val"].dim(), right.meta["val"].dim()) < 2:
        return None
    return BatchedProduct(node, left, right)


def _scores(
    node: fx.Node, reader: fx.Node, facts: Mapping[fx.Node, Fact], depth: int
) -> tuple[BatchedProduct, tuple[ScoreStep, ...]] | None:
    """The product behind a node that nothing reads but the reader, and the steps from there to the node."""
    if depth > _DEEPEST or set(node.users) != {reader}:
        return None
    product = product_of(node)
    if product is not None:
        return product, ()
    if node.target is aten.baddbmm.default:
        return _with_bias(node)
    for source, step in _steps(node, facts):
        found = _scores(source, node, facts, depth + 1)
        if found is not None:
            return found[0], (*found[1], step)
    return None


def _with_bias(node: fx.Node) -> tuple[BatchedProduct, tuple[ScoreStep, ...]]:
    """``baddbmm(bias, q, k, beta=..., alpha=...)``."""
    given = bound(node.target, node.args, node.kwargs)  # type: ignore[arg-type]
    beta, alpha = float(given["beta"]), float(given["alpha"])
    product = BatchedProduct(node, given["batch1"], given["batch2"])
    bias = None if beta == 0 else (given["self"], beta)
    return product, (ScoreStep(node, alpha, bias),)


def _steps(node: fx.Node, facts: Mapping[fx.Node, Fact]) -> list[tuple[fx.Node, ScoreStep]]:
    """What a call may be one step behind."""
    source = node.args[0] if node.args else None
    if is_followed(node) or _is_cast(node):
        return [(source, ScoreStep(node))] if isinstance(source, fx.Node) else []
    scaled = known_factor(node, facts)
    if scaled is not None:
        return [(scaled[0], ScoreStep(node, scaled[1]))]
    if node.target in (aten.add.Tensor, aten.sub.Tensor):
        return _added(node)
    return _filled(node, facts)


def _added(node: fx.Node) -> list[tuple[fx.Node, ScoreStep]]:
    one, other = node.args[:2]
    if not isinstance(one, fx.Node) or not isinstance(other, fx.Node) or node.kwargs:
        return []
    is_sum = node.target is aten.add.Tensor
    ways = [(one, (other, 1.0 if is_sum else -1.0))]
    if is_sum:
        ways.append((other, (one, 1.0)))
    return [
        (source, ScoreStep(node, bias=bias)) for source, bias in ways if shape_of(source) == shape_of(node)
    ]


def _filled(node: fx.Node, facts: Mapping[fx.Node, Fact]) -> list[tuple[fx.Node, ScoreStep]]:
    if node.target in _FILLS:
        source, mask, number = node.args[0], node.args[1], _number(node.args[2], facts)
        is_kept = False
    elif node.target in (aten.where.self, aten.where.ScalarOther):
        mask, source, number = node.args[0], node.args[1], _number(node.args[2], facts)
        is_kept = True
        if number is None:
            source, number, is_kept = node.args[2], _number(node.args[1], facts), False
    elif node.target is aten.where.ScalarSelf:
        mask, source, number, is_kept = node.args[0], node.args[2], _number(node.args[1], facts), False
    else:
        return []
    if number is None or not isinstance(source, fx.Node) or not isinstance(mask, fx.Node):
        return []
    if shape_of(source) != shape_of(node) or mask.meta["val"].dtype is not torch.bool:
        return []
    return [(source, ScoreStep(node, fill=Fill(mask, number, is_kept)))]


def _output(softmax: fx.Node) -> tuple[tuple[fx.Node, ...], BatchedProduct] | None:
    """The only product that reads a softmax, and the views between."""
    views: list[fx.Node] = []
    node = softmax
    while len(views) <= _DEEPEST and len(node.users) == 1:
        (reader,) = node.users
        product = product_of(reader)
        if product is not None:
            return (tuple(views), product) if (product.left is node) != (product.right is node) else None
        if not (is_followed(reader) or _is_cast(reader)):
            return None
        views.append(reader)
        node = reader
    return None


def _is_cast(node: fx.Node) -> bool:
    return node.target is aten._to_copy.default and set(node.kwargs) == {"dtype"}


def _number(given: Any, facts: Mapping[fx.Node, Fact]) -> float | None:
    """A number among the arguments, or what is one number everywhere."""
    if isinstance(given, fx.Node):
        fact = facts.get(given)
        given = fact.number if isinstance(fact, SameNumber) else None
    if isinstance(given, bool) or not isinstance(given, int | float) or math.isnan(given):
        return None
    return float(given)
