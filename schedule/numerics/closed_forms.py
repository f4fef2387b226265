"""Derivatives of norms as a person writes them, whatever the norm was written with.

Differentiated step by step, ``x * rsqrt(mean(x * x) + eps)`` gives ``g * rstd + sum(g * x) * -0.5 * rstd**3 / n * (x *
2.0)``. Multiplied out that is ``rstd * (g - x_hat * mean(g * x_hat))`` with ``x_hat = x * rstd``: each of two factors x
takes one of the three rstd. The mean is computed as ``mean(g * x) * rstd``: so it needs no pass of its own after the
one that finds rstd. Where x is what is left of something without its mean, its own sum is nothing, and of the gradient
of the mean ``-rstd * mean(g)`` stays. It is as exact: x_hat is of the size of one, where x and the third power
of rstd may be as large or small as they like.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Sequence

from longhand.capture.graph import Role
from longhand.lower.ir import (
    AxisSize,
    Constant,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Size,
    Step,
    Value,
    arguments,
)
from longhand.schedule.bodies import rewrite, sizes_of
from longhand.schedule.numerics.terms import Factor, Monomial, Summed, TermsOf
from longhand.schedule.simplification import simplify_nest
from longhand.schedule.sizes import product

Op = PointwiseOp
_LINEAR = frozenset({Op.ADD, Op.SUB, Op.NEG})


def close_norm_derivatives(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps, with derivatives of norms in closed form."""
    return tuple(in_closed_form(step) if isinstance(step, Nest) else step for step in steps)


def in_closed_form(nest: Nest) -> Nest:
    """The nest with each sum that holds the derivative of a norm written as such."""
    scales = _scales(nest.body)
    if not scales:
        return nest
    terms = TermsOf(nest.body)
    forms = {}
    for position in _totals(nest.body):
        form = _form(position, terms, nest, scales)
        if form is not None:
            forms[position] = form
    if not forms:
        return nest
    positions: list[int] = []
    body: list[Value] = []
    for position, value in enumerate(nest.body):
        body.append(rewrite(value, positions))
        positions.append(len(body) - 1)
        if position in forms:
            positions[position] = _FormWriter(body, positions, terms, value).value_of(forms[position])
    closed = simplify_nest(Nest(nest.axes, tuple(body)))
    # Of an addend that is one along some axes the sum is over fewer: beside sums over all that is no kernel.
    return closed if _summed_axes(closed) <= _summed_axes(nest) else nest


def _summed_axes(nest: Nest) -> frozenset[frozenset[str]]:
    return frozenset(frozenset(value.axes) for value in nest.body if isinstance(value, Reduce))


_OF_RULES = frozenset({Role.THROUGH_MEAN, Role.THROUGH_RSTD, Role.NORMALIZED, Role.D_NORMALIZED})


def _scales(body: Sequence[Value]) -> frozenset[int]:
    """What norms may divide by: roots, those over one, and what another kernel made of them.

    The formula holds of any factor. Where a derivative is longhand's own, it is that formula, and shares its sums.
    """
    is_ruled = any(getattr(value, "name", None) in _OF_RULES for value in body)
    return frozenset(
        position
        for position, value in enumerate(body)
        if (isinstance(value, Pointwise) and value.op in (Op.RSQRT, Op.SQRT))
        or (isinstance(value, Load) and value.dtype.is_floating_point and not is_ruled)
    )


def _totals(body: Sequence[Value]) -> list[int]:
    """Sums and differences that something else reads than a sum or a difference."""
    read: set[int] = set()
    for value in body:
        if not (isinstance(value, Pointwise) and value.op in _LINEAR):
            read.update(arguments(value))
    return [
        position
        for position, value in enumerate(body)
        if position in read and isinstance(value, Pointwise) and value.op in (Op.ADD, Op.SUB)
    ]


@dataclasses.dataclass(frozen=True)
class _Projection:
    """``rest * x_hat * sum(others * x_hat)``, of which the sum may be a mean, and ``x_hat = x * scale``."""

    x: int
    scale: int
    sign: int  # of the power of scale: 1 where x is multiplied by it, -1 where it is divided
    others: tuple[tuple[int, int], ...]
    axes: tuple[str, ...]
    is_mean: bool
    origin: str
    rest: Monomial


@dataclasses.dataclass(frozen=True)
class _Mean:
    """``rest * mean(others)`` of what a gradient has along axes."""

    others: tuple[tuple[int, int], ...]
    axes: tuple[str, ...]
    origin: str
    rest: Monomial


_Part = Monomial | _Mean | _Projection


def _form(position: int, terms: TermsOf, nest: Nest, scales: Container[int]) -> list[_Part] | None:
    """The parts of a sum, if the derivative of a norm is among them."""
    parts: list[_Part] = []
    projections: list[_Projection] = []
    for term in terms[position]:
        projection = _projection(term, terms, nest, scales)
        if projection is not None:
            projections.append(projection)
            parts.append(projection)
        elif not _vanishes(term, terms):
            parts.append(_mean(term, terms, nest) or term)
    # One norm, whose statistics are this nest's: what is left of several is no formula that anybody knows.
    return parts if len(projections) == 1 else None


def _projection(term: Monomial, terms: TermsOf, nest: Nest, scales: Container[int]) -> _Projection | None:
    sums = [(factor, power) for factor, power in term.powers.items() if isinstance(factor, Summed)]
    if len(sums) != 1 or sums[0][1] != 1:
        return None
    total = sums[0][0]
    inside = dict(total.factors)
    for x, power in term.powers.items():
        if not isinstance(x, int) or power != 1 or inside.get(x) != 1 or len(inside) == 1:
            continue
        for scale, of_scale in term.powers.items():
            if not isinstance(scale, int) or abs(of_scale) < 2 or scale not in scales:
                continue
            if terms.varying[scale].isdisjoint(total.axes):
                sign = 1 if of_scale > 0 else -1
                rest = {factor: p for factor, p in term.powers.items() if factor not in (total, x)}
                rest[scale] = of_scale - 2 * sign
                others = tuple((factor, p) for factor, p in total.factors if factor != x)
                left, is_mean = _without_size(Monomial(term.number, _nonzero(rest)), total.axes, terms, nest)
                return _Projection(x, scale, sign, others, total.axes, is_mean, total.origin, left)
    return None


def _vanishes(term: Monomial, terms: TermsOf) -> bool:
    """Whether a term is a multiple of the sum of what is left without its mean."""
    return any(
        isinstance(factor, Summed)
        and len(factor.factors) == 1
        and factor.factors[0][1] == 1
        and terms.is_centered(factor.factors[0][0], factor.axes)
        for factor in term.powers
    )


def _mean(term: Monomial, terms: TermsOf, nest: Nest) -> _Mean | None:
    sums = [factor for factor, power in term.powers.items() if isinstance(factor, Summed) and power == 1]
    if len(sums) != 1:
        return None
    total = sums[0]
    rest = Monomial(term.number, {factor: power for factor, power in term.powers.items() if factor != total})
    left, is_mean = _without_size(rest, total.axes, terms, nest)
    return _Mean(total.factors, total.axes, total.origin, left) if is_mean else None


def _without_size(term: Monomial, axes: tuple[str, ...], terms: TermsOf, nest: Nest) -> tuple[Monomial, bool]:
    """The term without the number of elements along axes that it is divided by, and whether it is."""
    sizes = sizes_of(nest)
    count: Size = product(sizes[axis] for axis in axes)
    for factor, power in term.powers.items():
        value = terms.body[factor] if isinstance(factor, int) else None
        is_count = isinstance(value, AxisSize) and value.axes == axes
        if power == -1 and (is_count or (isinstance(value, Scalar) and value.value == count)):
            return Monomial(term.number, {f: p for f, p in term.powers.items() if f != factor}), True
    inverse = 1.0 / count if isinstance(count, int) and count else 0.0
    if inverse and term.number and abs(abs(term.number) / inverse - 1.0) < 1e-12:
        return Monomial(1.0 if term.number > 0 else -1.0, term.powers), True
    return term, False


def _nonzero(powers: dict[Factor, int]) -> dict[Factor, int]:
    return {factor: power for factor, power in powers.items() if power}


class _FormWriter:
    """Writes parts into a body that is being made: `positions` says where what is there already went."""

    def __init__(self, body: list[Value], positions: list[int], terms: TermsOf, whole: Value) -> None:
        self.body, self.positions, self.terms = body, positions, terms
        self.dtype, self.origin, self.name = whole.dtype, whole.origin, whole.name  # type: ignore[union-attr]
        self.known: dict[frozenset[tuple[Factor, int]], int] = {}
        for position in range(len(positions)):
            value, term = terms.body[position], terms.product_of(position)
            if term is not None and term.number == 1.0 and isinstance(value, Pointwise):
                self.known.setdefault(frozenset(term.powers.items()), position)

    def value_of(self, parts: Sequence[_Part]) -> int:
        """All of it: what the scale multiplies stands together, in the order of the formula."""
        (projection,) = (part for part in parts if isinstance(part, _Projection))
        scale, sign = projection.scale, projection.sign
        together = [part for part in parts if _rest(part).powers.get(scale) == sign]
        apart = [part for part in parts if part not in together]
        if projection not in together or len(together) == 1:
            return self._named(self._sum([self._part(part) for part in self._ordered(parts)]))
        inner = [self._part(_without(part, scale)) for part in self._ordered(together)]
        scaled = self._binary(Op.MUL if sign > 0 else Op.DIV, self._sum(inner), self.positions[scale])
        return self._named(self._sum([*(self._part(part) for part in apart), (1.0, scaled)]))

    def _ordered(self, parts: Sequence[_Part]) -> list[_Part]:
        """Gradients, then their mean, then what is along x_hat."""
        kinds = (Monomial, _Mean, _Projection)
        return sorted(parts, key=lambda part: kinds.index(type(part)))

    def _named(self, position: int) -> int:
        self.body[position] = dataclasses.replace(self.body[position], name=self.name)
        return position

    def _part(self, part: _Part) -> tuple[float, int]:
        """A part without its sign, and the sign."""
        match part:
            case Monomial():
                return self._product(part, [])
            case _Mean():
                mean = self._sum_along(
                    self._powers(part.others), part.axes, True, part.origin, Role.THROUGH_MEAN
                )
                return self._product(part.rest, [mean])
            case _Projection():
                powers = {part.x: 1, part.scale: part.sign}
                x_hat = self._named_role(self._powers(tuple(powers.items())), Role.NORMALIZED)
                gradient = self._gradient(part.others)
                along = self._binary(Op.MUL, gradient, self.positions[part.x])
                total = self._sum_along(along, part.axes, part.is_mean, part.origin, None)
                op = Op.MUL if part.sign > 0 else Op.DIV
                through = self._binary(op, total, self.positions[part.scale])
                role = Role.THROUGH_RSTD if part.is_mean else Role.THROUGH_LENGTH
                return self._product(part.rest, [x_hat, self._named_role(through, role)])

    def _gradient(self, others: tuple[tuple[int, int], ...]) -> int:
        """What is the gradient of x_hat: called so where it is made here."""
        position = self._powers(others)
        value = self.body[position]
        if isinstance(value, Pointwise) and value.op is Op.MUL:
            self.body[position] = dataclasses.replace(value, name=Role.D_NORMALIZED)
        return position

    def _sum(self, parts: Sequence[tuple[float, int]]) -> int:
        """Parts added up, one that is not subtracted first."""
        first = next((place for place, (sign, _) in enumerate(parts) if sign > 0), None)
        if first is None:
            return self._emit(Op.NEG, self._sum([(-sign, position) for sign, position in parts]))
        total = parts[first][1]
        for sign, position in (part for place, part in enumerate(parts) if place != first):
            total = self._binary(Op.ADD if sign > 0 else Op.SUB, total, position)
        return total

    def _product(self, term: Monomial, values: Sequence[int]) -> tuple[float, int]:
        """The sign of a term, and its size times values."""
        factors = [*values]
        below: list[Factor] = []
        if values and all(power < 0 for power in term.powers.values()):  # no product begins with 1 / n
            below = [factor for factor, power in term.powers.items() for _ in range(-power)]
        elif term.powers:
            factors.insert(0, self._powers(tuple(term.powers.items())))
        number = abs(term.number)
        if number != 1.0 or not factors:
            factors.append(self._put(Constant(number, self.dtype, origin=self.origin)))
        made = factors[0]
        for factor in factors[1:]:
            made = self._binary(Op.MUL, made, factor)
        for one in below:
            made = self._binary(Op.DIV, made, self._factor(one))
        return (1.0 if term.number >= 0 else -1.0), made

    def _powers(self, powers: Sequence[tuple[Factor, int]]) -> int:
        """A product; of a value that is there already what it makes of it."""
        left = dict(powers)
        above: list[int] = []
        while left:
            there = self._largest(left)
            if there is None:
                break
            for factor, power in self.terms.product_of(there).powers.items():  # type: ignore[union-attr]
                left[factor] -= power
            left = _nonzero(left)
            above.append(self.positions[there])
        below: list[int] = []
        for factor, power in left.items():
            (above if power > 0 else below).extend([self._factor(factor)] * abs(power))
        made = above[0] if above else self._put(Constant(1.0, self.dtype, origin=self.origin))
        for factor in above[1:]:
            made = self._binary(Op.MUL, made, factor)
        for factor in below:
            made = self._binary(Op.DIV, made, factor)
        return made

    def _largest(self, left: dict[Factor, int]) -> int | None:
        """The value that makes most of a product."""
        fitting = [
            (len(key), position)
            for key, position in self.known.items()
            if len(key) > 1
            and all(0 < power <= left.get(f, 0) or left.get(f, 0) <= power < 0 for f, power in key)
        ]
        return max(fitting, key=lambda fit: (fit[0], -fit[1]))[1] if fitting else None

    def _factor(self, factor: Factor) -> int:
        if isinstance(factor, int):
            return self.positions[factor]
        return self._sum_along(self._powers(factor.factors), factor.axes, False, factor.origin, None)

    def _sum_along(
        self, value: int, axes: tuple[str, ...], is_mean: bool, origin: str, role: Role | None
    ) -> int:
        total = self._put(Reduce(ReduceOp.SUM, value, axes, self.dtype, None if is_mean else role, origin))
        if not is_mean:
            return total
        count = self._put(AxisSize(axes, self.dtype, origin=origin))
        return self._named_role(self._emit(Op.DIV, total, count, origin=origin), role)

    def _named_role(self, position: int, role: Role | None) -> int:
        if role is not None and self.body[position].name is None:
            self.body[position] = dataclasses.replace(self.body[position], name=role)
        return position

    def _binary(self, op: PointwiseOp, one: int, other: int) -> int:
        return self._emit(op, one, other)

    def _emit(self, op: PointwiseOp, *args: int, origin: str | None = None) -> int:
        return self._put(Pointwise(op, args, self.dtype, origin=self.origin if origin is None else origin))

    def _put(self, value: Value) -> int:
        self.body.append(value)
        return len(self.body) - 1


def _rest(part: _Part) -> Monomial:
    return part if isinstance(part, Monomial) else part.rest


def _without(part: _Part, scale: int) -> _Part:
    """The part without one power of the scale."""
    rest = _rest(part)
    left = Monomial(rest.number, {factor: power for factor, power in rest.powers.items() if factor != scale})
    return left if isinstance(part, Monomial) else dataclasses.replace(part, rest=left)
