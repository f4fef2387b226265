"""Values as sums of products: a number times powers of other values and of sums along a row.

What is multiplied, divided, negated and added is taken apart; everything else (a load, a root, a choice) is one factor.
Of a sum along axes, what does not vary along them is multiplied once, outside.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from longhand.lower.ir import (
    AxisSize,
    Constant,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Value,
    domains,
)

Op = PointwiseOp
_MOST_TERMS = 12  # a sum of more is one factor


@dataclasses.dataclass(frozen=True)
class Summed:
    """The sum of a product along axes.

    Attributes:
        axes: What is summed over.
        factors: Of the product; each varies along some of the axes.
        origin: The node that it comes from, which tells no two apart.
    """

    axes: tuple[str, ...]
    factors: tuple[tuple[int, int], ...]
    origin: str = dataclasses.field(default="", compare=False)


Factor: TypeAlias = int | Summed
Powers: TypeAlias = Mapping[Factor, int]


@dataclasses.dataclass(frozen=True)
class Monomial:
    """A product: a number, and factors with the powers that they are raised to (negative: divided by)."""

    number: float = 1.0
    powers: Powers = dataclasses.field(default_factory=dict)

    def times(self, other: Monomial) -> Monomial:
        """The product of two."""
        powers = dict(self.powers)
        for factor, power in other.powers.items():
            powers[factor] = powers.get(factor, 0) + power
        return Monomial(
            self.number * other.number, {factor: power for factor, power in powers.items() if power}
        )

    def scaled(self, number: float) -> Monomial:
        """The same times a number."""
        return Monomial(self.number * number, self.powers)

    @property
    def inverse(self) -> Monomial | None:
        """One over it."""
        if self.number == 0:
            return None
        return Monomial(1.0 / self.number, {factor: -power for factor, power in self.powers.items()})


Terms: TypeAlias = tuple[Monomial, ...]


class TermsOf:
    """The terms of each value of a body."""

    def __init__(self, body: tuple[Value, ...]) -> None:
        self.body = body
        self.varying = domains(body)
        self._terms: list[Terms] = []
        for position in range(len(body)):
            self._terms.append(self._of(position))

    def __getitem__(self, position: int) -> Terms:
        return self._terms[position]

    def product_of(self, position: int) -> Monomial | None:
        """The one term of a value; None where it is a sum of several."""
        terms = self._terms[position]
        return terms[0] if len(terms) == 1 else None

    def _of(self, position: int) -> Terms:
        itself = (Monomial(1.0, {position: 1}),)
        value = self.body[position]
        if isinstance(value, Constant) and value.dtype.is_floating_point:
            return (Monomial(float(value.value)),)
        if isinstance(value, Reduce) and value.op is ReduceOp.SUM and value.dtype.is_floating_point:
            return self._of_sum(value) or itself
        if not isinstance(value, Pointwise) or not value.dtype.is_floating_point or value.narrow is not None:
            return itself
        made = self._combined(value, [self._terms[argument] for argument in value.args])
        made = _like_terms_together(made) if made is not None and len(made) > 1 else made
        return made if made is not None and len(made) <= _MOST_TERMS else itself

    def _combined(self, value: Pointwise, args: Sequence[Terms]) -> Terms | None:
        match value.op:
            case Op.ADD:
                return args[0] + args[1]
            case Op.SUB:
                return args[0] + tuple(term.scaled(-1.0) for term in args[1])
            case Op.NEG:
                return tuple(term.scaled(-1.0) for term in args[0])
            case Op.MUL:
                one, other = self._distributed(value.args[0]), self._distributed(value.args[1])
                if len(one) > 1 and len(other) > 1:
                    one, other = self._whole(value.args[0]), self._whole(value.args[1])
                return tuple(term.times(factor) for term in one for factor in other)
            case Op.DIV | Op.RECIPROCAL:
                divisor = self._terms[value.args[-1]]
                below = divisor[0] if len(divisor) == 1 else self._whole(value.args[-1])[0]
                inverse = below.inverse
                above = self._distributed(value.args[0]) if value.op is Op.DIV else (Monomial(),)
                return None if inverse is None else tuple(term.times(inverse) for term in above)
        return None

    def _distributed(self, position: int) -> Terms:
        """What a product multiplies one by one: sums of sums along a row; a sum of elements stays a factor."""
        terms = self._terms[position]
        of_sums = all(any(isinstance(factor, Summed) for factor in term.powers) for term in terms)
        return terms if len(terms) == 1 or of_sums else self._whole(position)

    def _whole(self, position: int) -> Terms:
        return (Monomial(1.0, {position: 1}),)

    def _of_sum(self, value: Reduce) -> Terms | None:
        """A sum of products is each one's sum, times what does not vary along its axes."""
        terms = []
        for term in self._terms[value.arg]:
            inside = {
                factor: power for factor, power in term.powers.items() if self._varies(factor, value.axes)
            }
            if not inside or not all(isinstance(factor, int) for factor in inside):
                return None
            factors = tuple(
                sorted((factor, power) for factor, power in inside.items() if isinstance(factor, int))
            )
            outside = {factor: power for factor, power in term.powers.items() if factor not in inside}
            whole: Powers = {**outside, Summed(value.axes, factors, value.origin): 1}
            terms.append(Monomial(term.number, whole))
        return tuple(terms)

    def _varies(self, factor: Factor, axes: Sequence[str]) -> bool:
        return not self.varying_of(factor).isdisjoint(axes)

    def varying_of(self, factor: Factor) -> frozenset[str]:
        """The axes that a factor varies over."""
        if isinstance(factor, int):
            return self.varying[factor]
        inside = frozenset().union(*(self.varying[position] for position, _ in factor.factors))
        return inside.difference(factor.axes)

    def is_centered(self, position: int, axes: tuple[str, ...]) -> bool:
        """Whether a value is the difference of something and its mean along axes, so that its sum is nothing."""
        value = self.body[position]
        if not isinstance(value, Pointwise) or value.op is not Op.SUB:
            return False
        whole, taken = value.args
        mean = self.body[taken]
        if not isinstance(mean, Pointwise) or mean.op is not Op.DIV:
            return False
        total, count = (self.body[argument] for argument in mean.args)
        if not isinstance(total, Reduce) or not isinstance(count, AxisSize):
            return False
        return total.op is ReduceOp.SUM and total.arg == whole and total.axes == count.axes == axes


def _like_terms_together(terms: Terms) -> Terms:
    """``x + x`` is ``2 * x``."""
    numbers: dict[frozenset[tuple[Factor, int]], float] = {}
    powers: dict[frozenset[tuple[Factor, int]], Powers] = {}
    for term in terms:
        key = frozenset(term.powers.items())
        numbers[key] = numbers.get(key, 0.0) + term.number
        powers.setdefault(key, term.powers)
    return tuple(Monomial(number, powers[key]) for key, number in numbers.items())
