"""What is put together of pieces: in which of them a column lies, and what the pieces behind the first ones are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from longhand.capture.graph import Role
from longhand.lower.ir import Pointwise, PointwiseOp, Scalar, Value, arguments
from longhand.schedule.names.meanings.nameless import Nameless

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def in_a_piece(one: Nameless) -> Iterator[str]:
    if _is_boundary(one.value, one.plan.body):
        yield "in_first"
        yield from (f"in_first_{number}" for number in _NUMBERS)


_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine")


def rest_of_pieces(one: Nameless) -> Iterator[str]:
    """``rest``, of what is chosen from the pieces behind the first ones."""
    value, body = one.value, one.plan.body
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.WHERE:
        return
    users = [user for user in body if one.position in arguments(user)]
    is_rest = bool(users) and all(
        isinstance(user, Pointwise)
        and user.op is PointwiseOp.WHERE
        and user.origin == value.origin
        and user.args[2] == one.position
        for user in users
    )
    if is_rest and _is_boundary(body[value.args[0]], body):
        yield "rest"
        yield from (f"rest_after_{number}" for number in ("one", *_NUMBERS))


def _is_boundary(value: Value, body: Sequence[Value]) -> bool:
    """``col < boundary``, where a piece ends."""
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.LT:
        return False
    limits = [body[argument] for argument in value.args]
    return any(isinstance(limit, Scalar) and limit.name is Role.BOUNDARY for limit in limits)


def in_another_piece(one: Nameless) -> Iterator[str]:
    """``in_second``, of what lies behind one boundary and before the next; ``in_last``, behind the last one."""
    value, body = one.value, one.plan.body
    if not isinstance(value, Pointwise):
        return
    limits = _boundaries(body)
    if value.op is PointwiseOp.LOGICAL_AND:
        sides = [body[side] for side in value.args]
        behind = [_limit_behind(side, body) for side in sides]
        before = [_limit_before(side, body) for side in sides]
        after, until = (next((one for one in some if one is not None), None) for some in (behind, before))
        if after in limits and until in limits and limits.index(until) == limits.index(after) + 1:
            yield f"in_{_ORDINALS[limits.index(until)]}" if until is not None else ""
    elif (after := _limit_behind(value, body)) is not None and limits[-1:] == [after]:
        yield "in_second" if len(limits) == 1 else "in_last"


def _boundaries(body: Sequence[Value]) -> list[int]:
    """The numbers at which pieces end, in order of the comparisons with them."""
    limits = (_limit_before(value, body) for value in body)
    return [*dict.fromkeys(one for one in limits if one is not None)][: len(_ORDINALS) - 1]


def _limit_before(value: Value, body: Sequence[Value]) -> int | None:
    """The number that something is below, where a piece ends there."""
    return value.args[1] if isinstance(value, Pointwise) and _is_boundary(value, body) else None


def _limit_behind(value: Value, body: Sequence[Value]) -> int | None:
    """The number that something is not below, where a piece ends there."""
    is_not = isinstance(value, Pointwise) and value.op is PointwiseOp.LOGICAL_NOT
    return _limit_before(body[value.args[0]], body) if is_not else None  # type: ignore[union-attr]
