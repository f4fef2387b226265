"""Choices that are made already: ``where(c, f(where(c, a, b)), d)`` is ``where(c, f(a), d)``.

What `f` gives where `c` is false nobody looks at. So each value has facts: conditions that hold, or do not, wherever
somebody looks at it. They are handed down from stores to what these are made of; a value with several users keeps what
all of them know. A choice whose condition is among its facts is what it chooses.

So is what two branches load at one place each for itself: ``where(c, f(load(x, mask=c)), g(load(x, mask=~c)))`` loads x
once, for both.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import torch

from longhand.lower.ir import Load, Pointwise, PointwiseOp, Store, Value, arguments
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
    loads = _loads_for_both(body, [one or _NONE for one in facts])
    if stands_for == list(range(len(body))) and not loads:
        return body
    return tuple(rewrite(loads.get(position, value), stands_for) for position, value in enumerate(body))


def _loads_for_both(body: tuple[Value, ...], facts: Sequence[Facts]) -> dict[int, Load]:
    """Loads of one place under ``r & c`` and ``r & ~c``, each looked at there alone: both are loads under r.

    Those under c and ~c, of two halves, stay: a reader looks for what each half is made of.
    """
    masked: dict[Load, list[int]] = {}
    for position, value in enumerate(body):
        if isinstance(value, Load) and value.mask is not None:
            plain = dataclasses.replace(value, mask=None, name=None, origin="")
            masked.setdefault(plain, []).append(position)
    new: dict[int, Load] = {}
    for places in masked.values():
        for pair in itertools.combinations(places, 2):
            one, other = (body[place] for place in pair)
            if not isinstance(one, Load) or not isinstance(other, Load) or new.keys() & {*pair}:
                continue
            rest = _rest_of_both(pair, (_atoms(one.mask, body), _atoms(other.mask, body)), facts, body)
            if rest is None:
                continue
            mask = next(
                (at for at in range(pair[0]) if _is_mask(at, body) and _atoms(at, body) == rest), None
            )
            if mask is not None:
                new |= {
                    place: dataclasses.replace(load, mask=mask, other=one.other)
                    for place, load in zip(pair, (one, other), strict=True)
                }
    return new


def _rest_of_both(
    pair: tuple[int, int], masks: tuple[Facts, Facts], facts: Sequence[Facts], body: tuple[Value, ...]
) -> Facts | None:
    """What two masks have in common that differ in one condition, which holds where the one load is looked at."""
    (own, others), shared = (masks[0] - masks[1], masks[1] - masks[0]), masks[0] & masks[1]
    if len(own) != 1 or {(condition, not holds) for condition, holds in own} != others:
        return None
    looked_at = (
        _is_known(condition, holds, facts[place], body)
        for place, one in zip(pair, (own, others), strict=True)
        for condition, holds in one
    )
    return shared if all(looked_at) else None


def _is_mask(position: int, body: tuple[Value, ...]) -> bool:
    value = body[position]
    return isinstance(value, Pointwise | Load) and value.dtype is torch.bool


def _atoms(condition: int | None, body: tuple[Value, ...]) -> Facts:
    """What a condition says as conditions that hold, or do not, and are made of no others."""
    implied = _implied(condition, True, body) if condition is not None else _NONE
    return frozenset((at, holds) for at, holds in implied if not _is_made_of_others(at, holds, body))


def _is_made_of_others(condition: int, holds: bool, body: tuple[Value, ...]) -> bool:
    value = body[condition]
    ops = {PointwiseOp.LOGICAL_NOT, PointwiseOp.LOGICAL_AND if holds else PointwiseOp.LOGICAL_OR}
    return isinstance(value, Pointwise) and value.op in ops


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
    """Whether facts say that a condition holds, or does not: ``~a`` holds where a does not, ``a & b`` where both do."""
    if (condition, holds) in facts:
        return True
    value = body[condition]
    if not isinstance(value, Pointwise):
        return False
    match value.op:
        case PointwiseOp.LOGICAL_NOT:
            return _is_known(value.args[0], not holds, facts, body)
        case PointwiseOp.LOGICAL_AND | PointwiseOp.LOGICAL_OR:
            takes_all = holds is (value.op is PointwiseOp.LOGICAL_AND)
            known = (_is_known(argument, holds, facts, body) for argument in value.args)
            return all(known) if takes_all else any(known)
    return False


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
