"""Choices that are made already: ``where(c, f(where(c, a, b)), d)`` is ``where(c, f(a), d)``.

What `f` gives where `c` is false nobody looks at. So each value has facts: conditions that hold, or do not, wherever
somebody looks at it. They are handed down from stores to what these are made of; a value with several users keeps what
all of them know. A choice whose condition is among its facts is what it chooses.
"""

from __future__ import annotations

from collections.abc import Iterator

from longhand.lower.ir import Pointwise, PointwiseOp, Store, Value, arguments
from longhand.schedule.bodies import rewrite

Facts = frozenset[tuple[int, bool]]  # positions of conditions, and whether they hold
_NONE: Facts = frozenset()
# Of integers these may trap, or are undefined, for operands that a choice keeps from them.
_UNSAFE = frozenset(
    {
        PointwiseOp.DIV,
        PointwiseOp.FLOOR_DIV,
        PointwiseOp.TRUNC_DIV,
        PointwiseOp.REMAINDER,
        PointwiseOp.POW,
        PointwiseOp.SHIFT_LEFT,
        PointwiseOp.SHIFT_RIGHT,
        PointwiseOp.CAST,
    }
)
# What `_chosen` may read past.
_CHOICES = frozenset({PointwiseOp.WHERE, PointwiseOp.LOGICAL_AND, PointwiseOp.LOGICAL_OR})


def without_known_choices(body: tuple[Value, ...]) -> tuple[Value, ...]:
    """The body with each such choice read past. Values that nothing uses any more stay in it."""
    if not any(isinstance(value, Pointwise) and value.op in _CHOICES for value in body):
        return body
    facts: list[Facts | None] = [None] * len(body)  # None: nobody looks at it
    for position in range(len(body) - 1, -1, -1):
        for argument, known in _handed_down(position, body, facts[position] or _NONE):
            before = facts[argument]
            facts[argument] = known if before is None else before & known
    stands_for = list(range(len(body)))
    for position, value in enumerate(body):
        chosen = _chosen(value, facts[position] or _NONE, body)
        if chosen is not None and getattr(body[chosen], "dtype", None) is getattr(value, "dtype", None):
            stands_for[position] = stands_for[chosen]
    if stands_for == list(range(len(body))):
        return body
    return tuple(rewrite(value, stands_for) for value in body)


def _handed_down(position: int, body: tuple[Value, ...], facts: Facts) -> Iterator[tuple[int, Facts]]:
    """What is known of each argument where it matters for this value."""
    value = body[position]
    if isinstance(value, Store):
        under = _implied(value.mask, True, body) if value.mask is not None else _NONE
        yield from ((argument, under if argument == value.value else _NONE) for argument in arguments(value))
    elif not isinstance(value, Pointwise) or (value.op in _UNSAFE and not value.dtype.is_floating_point):
        # A reduction looks at other elements than its own; a position is read whatever is done with what lies there.
        yield from ((argument, _NONE) for argument in arguments(value))
    elif value.op is PointwiseOp.WHERE:
        condition, if_true, if_false = value.args
        yield condition, facts
        yield if_true, facts | _implied(condition, True, body)
        yield if_false, facts | _implied(condition, False, body)
    else:
        yield from ((argument, facts) for argument in value.args)


def _implied(condition: int, holds: bool, body: tuple[Value, ...]) -> Facts:
    """What follows where a condition holds, or does not."""
    value = body[condition]
    facts = {(condition, holds)}
    if isinstance(value, Pointwise):
        if value.op is PointwiseOp.LOGICAL_NOT:
            facts |= _implied(value.args[0], not holds, body)
        elif value.op is (PointwiseOp.LOGICAL_AND if holds else PointwiseOp.LOGICAL_OR):
            for argument in value.args:
                facts |= _implied(argument, holds, body)
    return frozenset(facts)


def _is_known(condition: int, holds: bool, facts: Facts, body: tuple[Value, ...]) -> bool:
    """Whether facts say that a condition holds, or does not: ``~a`` holds where a does not."""
    if (condition, holds) in facts:
        return True
    value = body[condition]
    is_not = isinstance(value, Pointwise) and value.op is PointwiseOp.LOGICAL_NOT
    return is_not and _is_known(arguments(value)[0], not holds, facts, body)


def _chosen(value: Value, facts: Facts, body: tuple[Value, ...]) -> int | None:
    """The argument that a choice is, where somebody looks at it."""
    if not isinstance(value, Pointwise) or value.narrow is not None:
        return None
    match value.op:
        case PointwiseOp.WHERE:
            condition, if_true, if_false = value.args
            if _is_known(condition, True, facts, body):
                return if_true
            return if_false if _is_known(condition, False, facts, body) else None
        case PointwiseOp.LOGICAL_AND | PointwiseOp.LOGICAL_OR:
            neutral = value.op is PointwiseOp.LOGICAL_AND
            known = [argument for argument in value.args if _is_known(argument, neutral, facts, body)]
            return next((a for a in value.args if a != known[0]), known[0]) if known else None
    return None
