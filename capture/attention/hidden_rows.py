"""Whether a bias may hide every key from a query: a softmax of minus infinities is NaN, where one call yields zeros.

A bias of the model's own numbers hides none: parameters are finite, and so are constants and what is computed of both.
What the caller gives, and a buffer, which may be set, is unknown: a mask of minus infinities comes that way.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture.attention.scores import ScoreStep, factors_after
from longhand.capture.functionalize.view_nodes import is_view
from longhand.capture.graph import InputKind
from longhand.capture.known.call import shape_of
from longhand.capture.known.decisions import call_name
from longhand.capture.known.facts import (
    Affine,
    AffineValue,
    Fact,
    Piecewise,
    SameNumber,
    Size,
    is_nonnegative,
)

aten = torch.ops.aten

# So large, in magnitude, that nothing is left of a score that is added to it.
_ABSORBED = 32.0
# What parameters count as less than: sums and products of a few are finite in float32.
_LARGEST_LEARNED = 1e18
_DEEPEST = 48


@dataclasses.dataclass(frozen=True)
class NumberBounds:
    """Between which finite numbers all elements lie."""

    least: float
    most: float

    @property
    def magnitude(self) -> float:
        """No element is larger, whatever its sign."""
        return max(abs(self.least), abs(self.most))


_LEARNED = NumberBounds(-_LARGEST_LEARNED, _LARGEST_LEARNED)


@dataclasses.dataclass(frozen=True)
class FedValue:
    """What feeds a placeholder, and its value where that is known."""

    kind: InputKind
    value: torch.Tensor | None = None


class HiddenRows:
    """Answers for the nodes of one graph.

    Args:
        facts: What is known of nodes.
        given: What feeds each placeholder.
    """

    def __init__(self, facts: Mapping[fx.Node, Fact], given: Mapping[fx.Node, FedValue]) -> None:
        self._facts = facts
        self._given = given
        self._bounds: dict[fx.Node, NumberBounds | None] = {}

    def is_sound(self, steps: Sequence[ScoreStep], dtype: torch.dtype) -> bool:
        """Whether what a product goes through on its way to a softmax leaves each query a key.

        Args:
            steps: From the product to the softmax.
            dtype: Of the scores.
        """
        total: NumberBounds | None = NumberBounds(0, 0)
        n_infinite = 0
        for step, after in zip(steps, factors_after(steps), strict=True):
            if step.bias is not None:
                bias, factor = step.bias
                bounds = self._of(bias, 0)
                n_infinite += bounds is None
                if bounds is None and not (self.has_finite_rows(bias) and factor * after > 0):
                    return False
                if bounds is not None and total is not None:
                    number = factor * after
                    total = _within(_sum(total, _product(bounds, NumberBounds(number, number))), dtype)
            if step.fill is not None:
                number = step.fill.number * after
                if not is_absorbing(number, dtype):
                    return False
                if number == -math.inf:
                    n_infinite += 1
                    if not self.keeps_a_key(step.fill.mask, step.fill.is_kept):
                        return False
                elif total is not None:
                    total = NumberBounds(min(total.least, number), max(total.most, number))
        return total is not None and n_infinite <= 1

    def keeps_a_key(self, mask: fx.Node, kept: bool | float) -> bool:
        """Whether each row of a mask has an element that is that: along the last dimension."""
        fact, shape = self._facts.get(mask), shape_of(mask)
        if isinstance(fact, SameNumber):
            return fact.number == kept
        if isinstance(fact, Piecewise):
            return any(one.inside == kept and _in_each_row(one, shape) for one in {fact, fact.turned()})
        value = self._constant(mask)
        return value is not None and value.dim() > 0 and bool((value == kept).any(-1).all())

    def has_finite_rows(self, bias: fx.Node) -> bool:
        """Whether each row of a bias of known numbers has one that is finite, and none is infinite but below."""
        fact = self._facts.get(bias)
        if isinstance(fact, Piecewise):
            sides = {fact.inside, fact.outside}
            return any(math.isfinite(side) and self.keeps_a_key(bias, side) for side in sides) and sides <= {
                -math.inf,
                *filter(math.isfinite, sides),
            }
        value = self._constant(bias)
        if value is None or value.dim() == 0:
            return False
        is_sound = value.isfinite() | (value == -math.inf)
        return bool(is_sound.all() and value.isfinite().any(-1).all())

    def _constant(self, node: fx.Node) -> torch.Tensor | None:
        """The value of a constant, seen through views that leave the last dimension alone."""
        while node.target is aten.unsqueeze.default and node.args[1] not in (-1, node.meta["val"].dim() - 1):
            node = node.args[0]  # type: ignore[assignment]
        given = self._given.get(node)
        return given.value if given is not None else None

    # -- bounds ------------------------------------------------------------------------------------------------------

    def _of(self, node: fx.Node, depth: int) -> NumberBounds | None:
        if node not in self._bounds:
            bounds = self._found(node, depth) if depth < _DEEPEST else None
            value = node.meta.get("val")
            if bounds is not None and isinstance(value, torch.Tensor):
                bounds = _within(bounds, value.dtype)
            self._bounds[node] = bounds
        return self._bounds[node]

    def _found(self, node: fx.Node, depth: int) -> NumberBounds | None:
        value, fact = node.meta.get("val"), self._facts.get(node)
        if isinstance(value, list | tuple) and is_view(node):
            return self._of(node.args[0], depth + 1)  # type: ignore[arg-type]
        if not isinstance(value, torch.Tensor) or value.is_complex():
            return None
        if value.dtype is torch.bool:
            return NumberBounds(0, 1)
        if isinstance(fact, SameNumber):
            return _hull(fact.number)
        if isinstance(fact, Piecewise):
            return _hull(fact.inside, fact.outside)
        if isinstance(fact, AffineValue):
            return _hull(fact.value.least(shape_of(node)), fact.value.greatest(shape_of(node))) or _LEARNED
        if not value.dtype.is_floating_point:
            return NumberBounds(torch.iinfo(value.dtype).min, torch.iinfo(value.dtype).max)
        if node.op == "placeholder":
            return self._of_placeholder(node)
        return self._of_call(node, depth) if node.op == "call_function" else None

    def _of_placeholder(self, node: fx.Node) -> NumberBounds | None:
        given = self._given.get(node)
        if given is None:
            return None
        if given.value is not None and given.value.numel() and bool(given.value.isfinite().all()):
            return NumberBounds(float(given.value.min()), float(given.value.max()))
        return _LEARNED if given.kind is InputKind.PARAMETER else None

    def _of_call(self, node: fx.Node, depth: int) -> NumberBounds | None:
        name = call_name(node)
        if name in _BOUNDED:
            return _BOUNDED[name]
        rule = _RULES.get(name)
        if name in _SUMS and (node.kwargs or len(node.args) > 2):
            return None
        if rule is None and not is_view(node) and name not in _MOVES:
            return None
        leaves: list[NumberBounds | None] = []
        for argument in _values(node):
            leaves.append(self._of(argument, depth + 1) if isinstance(argument, fx.Node) else _hull(argument))
        known = [leaf for leaf in leaves if leaf is not None]
        if len(known) < len(leaves) or not known:
            return None
        return (
            rule(*known)
            if rule is not None
            else NumberBounds(min(b.least for b in known), max(b.most for b in known))
        )


def _hull(*numbers: Any) -> NumberBounds | None:
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        return None
    return NumberBounds(float(min(numbers)), float(max(numbers)))


def _values(node: fx.Node) -> list[Any]:
    """The arguments whose elements a result is made of."""
    name = call_name(node)
    if name in ("cat", "stack"):
        return list(node.args[0])  # type: ignore[arg-type]
    if name == "where":
        return list(node.args[1:3])
    if name in ("masked_fill", "constant_pad_nd"):
        return [node.args[0], node.args[2] if len(node.args) > 2 else 0.0]
    if name == "index_put":
        return [node.args[0], node.args[2] if len(node.args) == 3 and not node.kwargs else None]
    if name == "div":
        number = node.args[1] if not node.kwargs else None
        return [node.args[0], 1.0 / number if isinstance(number, int | float) and number else None]
    if name in ("linear", "addmm", "baddbmm", "layer_norm"):
        return [argument for argument in node.args if isinstance(argument, fx.Node)]
    return list(node.args[: _OPERANDS.get(name, 1)])


def _within(bounds: NumberBounds, dtype: torch.dtype) -> NumberBounds | None:
    """The bounds, if a type holds all numbers there."""
    if not dtype.is_floating_point or bounds == _LEARNED:
        return bounds
    type_ = torch.finfo(dtype)
    return bounds if bounds.magnitude <= type_.max * (1 + type_.eps / 4) else None


def _sum(one: NumberBounds, other: NumberBounds) -> NumberBounds:
    return NumberBounds(one.least + other.least, one.most + other.most)


def _difference(one: NumberBounds, other: NumberBounds) -> NumberBounds:
    return NumberBounds(one.least - other.most, one.most - other.least)


def _product(one: NumberBounds, other: NumberBounds) -> NumberBounds:
    if _LEARNED in (one, other) and max(one.magnitude, other.magnitude) <= _LARGEST_LEARNED:
        return _LEARNED
    ends = [a * b for a in (one.least, one.most) for b in (other.least, other.most)]
    return NumberBounds(min(ends), max(ends))


def _power(base: NumberBounds, exponent: NumberBounds) -> NumberBounds | None:
    """Of a number that is at most 1, as ALiBi's slopes are."""
    is_falling = base.least >= 0 and base.most <= 1 and exponent.least >= 0
    return NumberBounds(0, 1) if is_falling else None


def _learned(*_: NumberBounds) -> NumberBounds:
    """What layers make of finite numbers counts as what parameters are."""
    return _LEARNED


# By an op's name: from the bounds of what it is made of. Only ops that yield no infinity for finite numbers.
_RULES: dict[str, Callable[..., NumberBounds | None]] = {
    "add": _sum,
    "sub": _difference,
    "rsub": lambda one, other: _difference(other, one),
    "mul": _product,
    "div": _product,
    "pow": _power,
    "abs": lambda one: NumberBounds(0, one.magnitude),
    "neg": lambda one: NumberBounds(-one.most, -one.least),
    **dict.fromkeys(("linear", "matmul", "mm", "bmm", "addmm", "mean", "sum"), _learned),
    **dict.fromkeys(("relu", "gelu", "silu", "layer_norm"), _learned),
}
_BOUNDED = {"sigmoid": NumberBounds(0, 1), "tanh": NumberBounds(-1, 1), "softmax": NumberBounds(0, 1)}
_SCATTERS = ("slice_scatter", "select_scatter", "diagonal_scatter", "maximum", "minimum")
_SUMS = frozenset({"add", "sub", "rsub"})
_OPERANDS = dict.fromkeys(("add", "sub", "rsub", "mul", "matmul", "mm", "bmm", "pow", *_SCATTERS), 2)
# What only moves, repeats or picks elements of what it is given.
_MOVES_TEXT = """
    index gather index_select embedding cat stack where masked_fill constant_pad_nd clone contiguous _to_copy roll flip
    repeat detach tril triu alias index_put
"""
_MOVES = frozenset((*_MOVES_TEXT.split(), *_SCATTERS))


def is_absorbing(number: float, dtype: torch.dtype) -> bool:
    """Whether a score plus that number is that number: added to a score or put instead of it, it is the same."""
    if number == -math.inf:
        return True
    computed = torch.float64 if dtype is torch.float64 else torch.float32
    return -torch.finfo(computed).max <= number < 0 and abs(number) * torch.finfo(computed).eps >= _ABSORBED


def _in_each_row(fact: Piecewise, shape: tuple[Size, ...]) -> bool:
    """Whether the condition holds somewhere in each row: at the first key, at the last, or at the query's own place."""
    n_keys = shape[-1]
    rows = shape[:-1]
    for place in ("first", "last", "own"):
        if all(_holds(condition, place, rows, n_keys) for condition in fact.conditions):
            return True
    return False


def _holds(condition: Affine, place: str, rows: tuple[Size, ...], n_keys: Size) -> bool:
    *steps, along = condition.steps
    offset = condition.offset
    if place == "last":
        offset = offset + along * (n_keys - 1)
    elif place == "own":
        if not rows or rows[-1] != n_keys:
            return False
        steps[-1] += along
    return is_nonnegative(Affine(offset, tuple(steps)).least(rows))
