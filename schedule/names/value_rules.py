"""Words from what a value of a kernel is: ``exp_scores``, ``row_sum``, ``product``. A list of rules, best first.

What a ``where`` chooses is a thing, too: ``rotated``, ``wrapped_index``, ``masked_scores``, ``additive_mask``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from longhand.lower.ir import (
    PRIMITIVES,
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Size,
    Value,
    arguments,
    domains,
)
from longhand.schedule.names.meanings.body_values import is_of_column
from longhand.schedule.names.meanings.conditions import words_of_condition
from longhand.schedule.names.meanings.kernel_values import (
    argument_of_function,
    biased_word,
    clamped,
    half_of_rotation,
    in_formula,
    local_once_more,
    one_more,
    part_of_quotient,
    phrase_of_two,
    result_of_module,
    same_step_again,
    sum_of_parts,
    times_rstd,
    whole_operation,
)
from longhand.schedule.names.meanings.nameless import Nameless, NamingRule
from longhand.schedule.names.meanings.pieces import in_a_piece, in_another_piece, rest_of_pieces
from longhand.schedule.names.operation_names import noun_of
from longhand.schedule.plan import KernelPlan

_HIDES = -1e4  # what is added to a score that shall not count is below


def choice_names(value: Pointwise, body: Sequence[Value], operands: Mapping[int, str]) -> Iterator[str]:
    """Words for a ``where``, best first.

    Args:
        value: The choice.
        body: The kernel's values.
        operands: The words of its arguments that have one, by position.
    """
    condition, chosen, other = value.args
    constants = {at: one.value for at in (chosen, other) if isinstance(one := body[at], Constant)}
    if counts_from_the_end(value, body):
        yield f"wrapped_{operands[other]}" if other in operands else "wrapped"
    if len(constants) == 2:
        if value.dtype is not torch.bool and min(constants.values()) < _HIDES:
            yield "additive_mask"
    elif constants:
        (number,) = constants.values()
        kept = other if chosen in constants else chosen
        if number == 0 or number < _HIDES:
            yield f"masked_{operands[kept]}" if kept in operands else "masked"
    elif _is_negated(body[chosen]) != _is_negated(body[other]) and is_of_places(condition, body):
        yield "rotated"


def counts_from_the_end(value: Pointwise, body: Sequence[Value]) -> bool:
    """``where(index < 0, index + size, index)``: an index that may count from the end."""
    condition, chosen, other = (body[at] for at in value.args)
    return (
        isinstance(condition, Pointwise)
        and condition.op is PointwiseOp.LT
        and condition.args[0] == value.args[2]
        and isinstance(chosen, Pointwise)
        and chosen.op is PointwiseOp.ADD
        and value.args[2] in chosen.args
        and not other.dtype.is_floating_point  # type: ignore[union-attr]
    )


def _is_negated(value: Value) -> bool:
    return isinstance(value, Pointwise) and value.op is PointwiseOp.NEG


def is_of_places(position: int, body: Sequence[Value]) -> bool:
    """Whether a value follows from where an element is, and from no tensor."""
    value = body[position]
    if isinstance(value, Pointwise):
        return all(is_of_places(argument, body) for argument in arguments(value))
    if isinstance(value, IndexExpression):
        return not value.index.values
    return isinstance(value, Constant | Scalar | AxisSize)


_SHORT = 12  # an operand's word that takes the operation's in front of it


def _sum_of_squares(one: Nameless) -> Iterator[str]:
    value = one.value
    if isinstance(value, Reduce) and value.op is ReduceOp.SUM and _is_square(one.plan, value.arg):
        yield "sum_of_squares"
        if one.place:
            yield f"{one.place}_sum_of_squares"


def _one_of_several_reductions(one: Nameless) -> Iterator[str]:
    is_one_of_several = sum(isinstance(other, Reduce) for other in one.plan.body) > 1
    if isinstance(one.value, Reduce) and one.stored and is_one_of_several:
        yield f"{one.stored}_{noun_of(one.value)}"


def _reduction_of_a_side(one: Nameless) -> Iterator[str]:
    """``row_sum``; of everything ``total_sum``."""
    value, plan = one.value, one.plan
    if isinstance(value, Reduce):
        is_of_rows = plan.rows and set(value.axes) == {axis.name for axis in plan.cols}
        place = ("row" if is_of_rows else "col") if domains(plan.body)[one.position] else "total"
        yield f"{place}_{noun_of(value)}"


def _reduction_of_a_word(one: Nameless) -> Iterator[str]:
    if isinstance(one.value, Reduce):
        yield from (f"{name}_{noun_of(one.value)}" for name in one.named)


def _sum_of_products(one: Nameless) -> Iterator[str]:
    value = one.value
    if isinstance(value, Reduce) and value.op is ReduceOp.SUM:
        inner = one.plan.body[value.arg]
        if isinstance(inner, Pointwise) and inner.op is PointwiseOp.MUL:
            yield "sum_of_products"


def _position(one: Nameless) -> Iterator[str]:
    if not isinstance(one.value, Reduce | Pointwise):
        yield "position"


def _function_of_a_word(one: Nameless) -> Iterator[str]:
    """``exp_scores``"""
    value, named = one.value, one.named
    if not isinstance(value, Pointwise) or not PRIMITIVES[value.op].leads_names or len(named) != 1:
        return
    if len(named[0]) <= _SHORT and value.op.value not in named[0]:
        yield f"{value.op.value}_{named[0]}"


def _scaled(one: Nameless) -> Iterator[str]:
    value, named = one.value, one.named
    if not isinstance(value, Pointwise) or not value.dtype.is_floating_point:  # of whole numbers a quotient
        return
    if value.op in (PointwiseOp.MUL, PointwiseOp.DIV) and _with_number(one):
        yield f"scaled_{named[0]}" if named else noun_of(value)


def _shifted(one: Nameless) -> Iterator[str]:
    value, named = one.value, one.named
    is_shift = isinstance(value, Pointwise) and value.op in (PointwiseOp.ADD, PointwiseOp.SUB)
    if is_shift and _with_number(one):
        yield f"shifted_{named[0]}" if named else "shifted"


def _squared(one: Nameless) -> Iterator[str]:
    value, named = one.value, one.named
    if isinstance(value, Pointwise) and value.op is PointwiseOp.MUL and value.args[0] == value.args[1]:
        yield f"{named[0]}_squared" if named else "square"


def _opposite(one: Nameless) -> Iterator[str]:
    """``in_second_half``, ``is_not_causal``, ``not_in_first``: what a condition does not say."""
    value = one.value
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.LOGICAL_NOT or not one.named:
        return
    word = one.named[0]
    if word == "in_first_half":
        yield "in_second_half"
    elif word.startswith("is_"):
        yield f"is_not_{word.removeprefix('is_')}"
    elif word.startswith("in_"):
        yield f"not_{word}"


_UPWARDS = frozenset({PointwiseOp.LE, PointwiseOp.LT})
_ORDERS = _UPWARDS | {PointwiseOp.GE, PointwiseOp.GT}


def _order_of_places(one: Nameless) -> Iterator[str]:
    """``col <= row``: what a causal mask keeps; ``col > row``: what it hides; ``row <= col + 7``: a window.

    Of anything but a softmax a part beside a diagonal.
    """
    yield from word_of_order(one.value, one.plan)


def word_of_order(value: Value, plan: KernelPlan) -> Iterator[str]:
    """The word for a comparison of two places; none for anything else."""
    body = plan.body
    if not isinstance(value, Pointwise) or value.op not in _ORDERS:
        return
    places = [place.index for argument in value.args if isinstance(place := body[argument], IndexExpression)]
    if len(places) < 2:
        return
    is_of_softmax = any(isinstance(other, Reduce) and other.op is ReduceOp.MAX for other in body)
    if not is_of_softmax or any(len(place.axes) != 1 or place.values for place in places):
        yield "in_triangle"
        return
    order = [axis.name for axis in plan.axes]
    smaller, larger = places if value.op in _UPWARDS else reversed(places)
    distance = larger.offset - smaller.offset  # how far the smaller may be beyond the larger
    if value.op in (PointwiseOp.LT, PointwiseOp.GT):
        distance = distance - 1
    looks_back = order.index(smaller.axes[0][0]) > order.index(larger.axes[0][0])
    yield from _word_of_bound(looks_back, distance)


def _word_of_bound(looks_back: bool, distance: Size) -> Iterator[str]:
    """What a bound of the places that a query sees says: ``col - row <= distance``, or ``row - col <= distance``."""
    if not isinstance(distance, int):
        yield "in_triangle"
    elif distance > 0:
        yield "in_window"
    elif looks_back:
        yield {0: "is_causal", -1: "is_past"}.get(distance, "is_before_window")
    else:
        yield {0: "is_not_past", -1: "is_future"}.get(distance, "is_after_window")


_BOUNDS = frozenset({"is_causal", "is_past", "in_window"})


def _within_bounds(one: Nameless) -> Iterator[str]:
    """``is_visible``, of what is neither in the future nor before a window."""
    value = one.value
    if isinstance(value, Pointwise) and value.op is PointwiseOp.LOGICAL_AND:
        words = [next(word_of_order(one.plan.body[side], one.plan), "") for side in value.args]
        if _BOUNDS.issuperset(words):
            yield "is_visible"


def _negated(one: Nameless) -> Iterator[str]:
    if isinstance(one.value, Pointwise) and one.value.op is PointwiseOp.NEG and one.named:
        yield f"minus_{one.named[0]}"


def _inverse_deviation(one: Nameless) -> Iterator[str]:
    if is_rstd(one.value, one.plan.body):
        yield "rstd"


def _sum_of_the_users(one: Nameless) -> Iterator[str]:
    """What a sum is to the user: with a bias, of embeddings, of a stream and what a layer adds to it."""
    value, body = one.value, one.plan.body
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.ADD:
        return
    if one.words.adds_bias(value.origin):
        yield "biased"
    if one.words.provenance(value.origin).differentiates:  # gradients that are added up are no stream
        return
    sides = [body[argument] for argument in value.args]
    if any(isinstance(side, Load) and side.index.values for side in sides):
        yield "embedded"
    elif all(isinstance(side, Load) for side in sides) and any(isinstance(v, Reduce) for v in body):
        is_biased = any(is_of_column(argument, one.plan) for argument in value.args)
        yield "biased" if is_biased else "residual"


def _choice(one: Nameless) -> Iterator[str]:
    if isinstance(one.value, Pointwise) and one.value.op is PointwiseOp.WHERE:
        yield from choice_names(one.value, one.plan.body, one.operands)


def _condition(one: Nameless) -> Iterator[str]:
    yield from words_of_condition(one.value, one.plan.body, one.operand)


def _element_of_a_result(one: Nameless) -> Iterator[str]:
    stored = one.stored
    if isinstance(one.value, Pointwise) and stored:
        yield from one.once_more(stored)


def _noun(one: Nameless) -> Iterator[str]:
    if isinstance(one.value, Pointwise):
        yield noun_of(one.value)


def _noun_of_a_word(one: Nameless) -> Iterator[str]:
    if isinstance(one.value, Pointwise):
        noun = noun_of(one.value)
        yield from (f"{name}_{noun}" for name in one.named if not name.endswith(noun))


RULES: tuple[NamingRule, ...] = (
    _sum_of_squares,
    _one_of_several_reductions,
    _reduction_of_a_side,
    _reduction_of_a_word,
    _sum_of_products,
    _position,
    _inverse_deviation,
    in_formula,
    rest_of_pieces,
    half_of_rotation,
    _choice,
    in_another_piece,
    _opposite,
    clamped,
    same_step_again,
    sum_of_parts,
    _function_of_a_word,
    one_more,
    whole_operation,
    _scaled,
    _shifted,
    _squared,
    in_a_piece,
    _order_of_places,
    _within_bounds,
    _negated,
    _sum_of_the_users,
    biased_word,
    _element_of_a_result,
    times_rstd,
    result_of_module,
    local_once_more,
    argument_of_function,
    part_of_quotient,
    phrase_of_two,
    _condition,
    _noun,
    _noun_of_a_word,
)


def words_by_rule(one: Nameless) -> Iterator[str]:
    """The words that the rules have for a value, best first."""
    for rule in RULES:
        yield from rule(one)


def _is_square(plan: KernelPlan, position: int) -> bool:
    """Whether a value is another one times itself."""
    value = plan.body[position]
    if not isinstance(value, Pointwise) or len(value.args) != 2:
        return False
    power = plan.body[value.args[1]]
    is_two = isinstance(power, Constant) and power.value == 2
    return (value.op is PointwiseOp.MUL and value.args[0] == value.args[1]) or (
        value.op is PointwiseOp.POW and is_two
    )


def _with_number(one: Nameless) -> bool:
    return any(isinstance(one.plan.body[argument], Constant | Scalar) for argument in arguments(one.value))


def is_rstd(value: Value, body: tuple[Value, ...]) -> bool:
    """Whether a value is 1 / sqrt(x + a number)."""
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.RSQRT:
        return False
    inner = body[value.args[0]]
    return (
        isinstance(inner, Pointwise)
        and inner.op is PointwiseOp.ADD
        and any(isinstance(body[argument], Constant | Scalar) for argument in inner.args)
    )
