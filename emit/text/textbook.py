"""What textbooks have one word for, found in a kernel's body: ``var(x)``, ``gelu'(x)``, ``relu(x)``, ``x[half:]``.

Only formulas are written so, which are read: what the kernel does is in its body.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import torch
from torch import fx

from longhand.capture.graph import Role
from longhand.emit.text.expression import Text
from longhand.lower.ir import (
    AxisSize,
    Constant,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Value,
    arguments,
)
from longhand.schedule.named_plan import (
    BufferNamer,
    KernelNames,
    aten_name,
    counts_from_the_end,
    provenance_of,
)
from longhand.schedule.names.words import GradientWord
from longhand.schedule.plan import KernelPlan, ScalarRef

# Functions of one value whose derivative is one of that value: ``gelu'(x)``. That of tanh is one of what it made.
PRIMED = frozenset({"gelu", "silu", "mish", "hardswish", "softplus", "log_sigmoid"})
# The derivative by what is given, from the gradient d and what the function is given, or made: x.
CLOSED_FORMS: Mapping[str, str] = {
    **{function: f"{{d}} * {function}'({{x}})" for function in PRIMED},
    "softmax": "{x} * ({d} - sum({d} * {x}))",
    "relu": "{d} * ({x} > 0)",
}
# What a norm's derivative is made of besides what it is given: its formula says it in one line.
_IN_NORMS = frozenset(
    {Role.MEAN, Role.CENTERED, Role.THROUGH_MEAN, Role.THROUGH_RSTD, Role.THROUGH_LENGTH, Role.LESS_MEAN}
)
_IN_NORMS_BY_WORD = ("less_means", "through_norm", "d_rstd")
# Halves of a row.
SECOND, FIRST = "[half:]", "[:half]"
HALF = "half"  # the number that halves one
_NUMBERS = Constant | Scalar | AxisSize


@dataclasses.dataclass(frozen=True)
class Primed:
    """``gradient * gelu'(x)``: the derivative of a function of one value.

    Attributes:
        function: What is differentiated: ``gelu``.
        gradient: The position of what it is multiplied with.
        x: The position of what the function is given.
    """

    function: str
    gradient: int
    x: int


@dataclasses.dataclass
class Said:
    """What the texts say that were made since.

    Attributes:
        halves: The halves of rows that they read.
        rotates: Whether the halves of a row change places in one.
        names_half: Whether they name the number that halves a row.
    """

    halves: set[str] = dataclasses.field(default_factory=set)
    rotates: bool = False
    names_half: bool = False

    def add(self, other: Said) -> None:
        """What is part of these texts now."""
        self.halves |= other.halves
        self.rotates |= other.rotates
        self.names_half |= other.names_half


def is_part_of_norm(value: Value, word: str) -> bool:
    """Whether a value has no other use than in the one line that a norm, or its derivative, is."""
    return getattr(value, "name", None) in _IN_NORMS or word.endswith(_IN_NORMS_BY_WORD)


def mean_of(value: Value, body: Sequence[Value]) -> int | None:
    """What a value is the mean of: ``sum(x) / n``, where n is how many are summed."""
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.DIV:
        return None
    total, count = (body[at] for at in value.args)
    is_sum = isinstance(total, Reduce) and total.op is ReduceOp.SUM and isinstance(count, AxisSize)
    return total.arg if is_sum else None  # type: ignore[union-attr]


def variance_of(value: Value, body: Sequence[Value]) -> int | None:
    """The x of ``mean((x - mean(x))**2)``."""
    square = mean_of(value, body)
    product = None if square is None else body[square]
    if not isinstance(product, Pointwise) or product.op is not PointwiseOp.MUL:
        return None
    centered = body[product.args[0]]
    is_square = product.args[0] == product.args[1]
    if not is_square or not isinstance(centered, Pointwise) or centered.op is not PointwiseOp.SUB:
        return None
    x, mean = centered.args
    return x if mean_of(body[mean], body) == x else None


def through_normalized(value: Pointwise, body: Sequence[Value]) -> tuple[int, int] | None:
    """Of ``mean(d * x) * rstd``, where something is ``x * rstd``: d and that, whose product's mean it is."""
    if value.op is not PointwiseOp.MUL:
        return None
    for mean, scale in (value.args, value.args[::-1]):
        inner = mean_of(body[mean], body)
        product = None if inner is None else body[inner]
        if not isinstance(product, Pointwise) or product.op is not PointwiseOp.MUL:
            continue
        for gradient, x in (product.args, product.args[::-1]):
            normalized = _product_of({x, scale}, body)
            if gradient != x and normalized is not None:
                return gradient, normalized
    return None


def is_softmax_of_one(body: Sequence[Value]) -> bool:
    """Whether a body holds ``exp(x - x)``: what is left of a softmax over one element."""
    return any(
        isinstance(value, Pointwise)
        and value.op is PointwiseOp.EXP
        and isinstance(inner := body[value.args[0]], Pointwise)
        and inner.op is PointwiseOp.SUB
        and inner.args[0] == inner.args[1]
        for value in body
    )


def softmax_gradient(value: Pointwise, body: Sequence[Value]) -> tuple[int, int] | None:
    """Of ``d * p - p * sum(d * p)``: p and d."""
    if value.op is not PointwiseOp.SUB:
        return None
    product, scaled = (body[at] for at in value.args)
    if not isinstance(product, Pointwise) or product.op is not PointwiseOp.MUL:
        return None
    if not isinstance(scaled, Pointwise) or scaled.op is not PointwiseOp.MUL:
        return None
    for p, total in (scaled.args, scaled.args[::-1]):
        inner = body[total]
        is_sum = isinstance(inner, Reduce) and inner.op is ReduceOp.SUM and inner.arg == value.args[0]
        if is_sum and p in product.args:
            return p, product.args[product.args[0] == p]
    return None


def _product_of(factors: set[int], body: Sequence[Value]) -> int | None:
    return next(
        (
            position
            for position, value in enumerate(body)
            if isinstance(value, Pointwise) and value.op is PointwiseOp.MUL and {*value.args} == factors
        ),
        None,
    )


def gradients_in(plan: KernelPlan, words: BufferNamer) -> frozenset[int]:
    """The values that a gradient decides: all others a backward kernel computes again, or only reads."""
    decided: set[int] = set()
    for position, value in enumerate(plan.body):
        is_given = isinstance(value, Load) and isinstance(
            next(iter(words.candidates(value.buffer))), GradientWord
        )
        if is_given or not decided.isdisjoint(arguments(value)):
            decided.add(position)
    return frozenset(decided)


def find_primed(plan: KernelPlan, words: BufferNamer, gradients: frozenset[int]) -> dict[int, Primed]:
    """By position the results of derivatives of functions of one value."""
    found: dict[int, Primed] = {}
    parts: dict[str, list[int]] = {}
    for position, value in enumerate(plan.body):
        node = words.nodes.get(getattr(value, "origin", "") or "")
        if node is not None and provenance_of(node).differentiated in PRIMED and isinstance(value, Pointwise):
            parts.setdefault(provenance_of(node).differentiates, []).append(position)
    for of, members in parts.items():
        function = provenance_of(words.nodes[plan.body[members[0]].origin]).differentiated
        given = {at for member in members for at in arguments(plan.body[member])} - {*members}
        from_gradient = given & gradients
        leaves = _leaves(plan, words, given - gradients, {of, function})
        result = _result_of(members, plan)
        if result is not None and len(from_gradient) == 1 and len(leaves) == 1:
            found[result] = Primed(function, *from_gradient, *leaves)
    return found


def find_functions(plan: KernelPlan, words: BufferNamer) -> dict[int, tuple[str, int]]:
    """By position what functions of one value make, and that value, though a derivative shares a part of it."""
    parts: dict[str, list[int]] = {}
    for position, value in enumerate(plan.body):
        if isinstance(value, Pointwise):
            parts.setdefault(value.origin, []).append(position)
    found: dict[int, tuple[str, int]] = {}
    for origin, members in parts.items():
        node = words.nodes.get(origin)
        function = aten_name(node).strip("_") if node is not None else ""
        if function in PRIMED and not provenance_of(node).differentiated:  # type: ignore[arg-type]
            leaves = _leaves(plan, words, {members[-1]}, {origin})
            if len(leaves) == 1:
                found[members[-1]] = function, leaves.pop()
    return found


def _result_of(members: list[int], plan: KernelPlan) -> int | None:
    """The one value that is read of several, or that another operation makes of those that are."""
    readers = {
        position: {*arguments(value)}
        for position, value in enumerate(plan.body)
        if position not in members and not {*members}.isdisjoint(arguments(value))
    }
    read = set().union(*readers.values()) & {*members}
    if len(read) == 1:
        return read.pop()
    reader = next(iter(readers), None)
    product = None if reader is None else plan.body[reader]
    is_product = isinstance(product, Pointwise) and product.op is PointwiseOp.MUL and {*product.args} == read
    return reader if len(readers) == 1 and is_product else None


def _leaves(plan: KernelPlan, words: BufferNamer, positions: set[int], of: set[str]) -> set[int]:
    """What values are made of, through all that a function's derivative, or the function itself, makes of it."""
    leaves: set[int] = set()
    waiting = [*positions]
    while waiting:
        position = waiting.pop()
        value = plan.body[position]
        node = words.nodes.get(getattr(value, "origin", "") or "")
        is_own = node is not None and (
            provenance_of(node).differentiated in of or node.name in of or aten_name(node) in of
        )
        if isinstance(value, Pointwise) and is_own:
            waiting += arguments(value)
        elif not isinstance(value, _NUMBERS):
            leaves.add(position)
    return leaves


def rectified(value: Pointwise, body: Sequence[Value]) -> int | None:
    """What ``maximum(x, 0.0)`` rectifies."""
    for one, other in (value.args, value.args[::-1]):
        number = body[other]
        if isinstance(number, Constant) and number.value == 0 and number.dtype.is_floating_point:
            return one
    return None


def clamp_of(value: Pointwise, body: Sequence[Value]) -> tuple[int, int, int] | None:
    """The value, the least and the most of ``minimum(maximum(x, least), most)``, both of them numbers."""
    inner, most = (body[at] for at in value.args)
    if not isinstance(inner, Pointwise) or inner.op is not PointwiseOp.MAXIMUM:
        return None
    is_bounded = isinstance(most, Constant | Scalar) and isinstance(body[inner.args[1]], Constant | Scalar)
    return (*inner.args, value.args[1]) if is_bounded else None  # type: ignore[return-value]


def plain_choice(value: Pointwise, body: Sequence[Value]) -> int | None:
    """The branch of a ``where`` that a formula means: an index that may be negative, an element of a table."""
    if value.op is not PointwiseOp.WHERE:
        return None
    condition, other = body[value.args[0]], body[value.args[2]]
    if counts_from_the_end(value, body):
        return value.args[2]
    # What stands for an element that is not there, and the place of one that is added there.
    is_other = isinstance(other, Constant) and (
        math.isnan(other.value) or (other.value == 0 and not other.dtype.is_floating_point)
    )
    return value.args[1] if is_other and _is_in_table(condition, body) else None


def wrapped_place(value: Pointwise, body: Sequence[Value]) -> tuple[int, int] | None:
    """``where(col < half, col, col - half)`` is ``col % half``: the place and the half."""
    condition, chosen, other = value.args
    less, rest = body[condition], body[other]
    is_less = isinstance(less, Pointwise) and less.op is PointwiseOp.LT and less.args[0] == chosen
    if not is_less or not isinstance(less, Pointwise):
        return None
    limit = body[less.args[1]]
    is_rest = (
        isinstance(rest, Pointwise) and rest.op is PointwiseOp.SUB and rest.args == (chosen, less.args[1])
    )
    return (chosen, less.args[1]) if is_rest and isinstance(limit, Scalar) else None


def _is_in_table(condition: Value, body: Sequence[Value]) -> bool:
    """``(index >= 0) & (index < table_size)``, of one index or several"""
    if not isinstance(condition, Pointwise) or condition.op is not PointwiseOp.LOGICAL_AND:
        return False
    sides = [body[at] for at in condition.args]
    if all(_is_in_table(side, body) for side in sides):
        return True
    ops = [side.op if isinstance(side, Pointwise) else None for side in sides]
    indices = {side.args[0] for side in sides if isinstance(side, Pointwise)}
    return ops == [PointwiseOp.GE, PointwiseOp.LT] and len(indices) == 1


def is_vector(node: fx.Node) -> bool:
    """Whether a value is a vector that the module holds: a norm's weight."""
    value = node.meta.get("val")
    return node.op == "placeholder" and isinstance(value, torch.Tensor) and value.ndim <= 1


def half_read(plan: KernelPlan, names: KernelNames, position: int) -> str:
    """Which half of a row a load reads for the other one: ``[half:]``; empty where it reads its own place.

    What is joined behind something as long is no half: nothing of it is read beyond.
    """
    if _is_half_on(plan, names, position):
        return SECOND
    match plan.addresses[position].offset:
        case ((-1, ScalarRef(position=place)),) if names.scalars.get(place) == HALF:
            loads = [(at, plan.body[at]) for at in _loads_of_same(plan, position) if at != position]
            is_beyond = (one.mask is None or _is_half_on(plan, names, at) for at, one in loads)  # type: ignore[union-attr]
            return FIRST if any(is_beyond) else ""
    return ""


def _is_half_on(plan: KernelPlan, names: KernelNames, position: int) -> bool:
    """Whether a load reads what stands half a row further on."""
    match plan.addresses[position].offset:
        case ((ScalarRef(position=place),),):
            return names.scalars.get(place) == HALF
    return False


def _loads_of_same(plan: KernelPlan, position: int) -> list[int]:
    """Where the tensor is read that is read at a position."""
    buffer = plan.body[position].buffer  # type: ignore[union-attr]
    return [at for at, one in enumerate(plan.body) if isinstance(one, Load) and one.buffer == buffer]


def told_apart(plan: KernelPlan, names: KernelNames, position: int, plain: Text, order: str) -> Text:
    """Of a tensor that is read at several places the word for what stands at this one, with the order of its axes."""
    places = {plan.addresses[place] for place in _loads_of_same(plan, position)}
    word = names.values.get(position)
    is_told = word not in (None, getattr(plan.body[position], "name", None))
    return Text(f"{word}{order}") if is_told and len(places) > 1 else plain
