"""What is put together of pieces: in which of them a column lies, and what the pieces behind the first ones are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from longhand.capture.graph import Role
from longhand.lower.ir import Load, Pointwise, PointwiseOp, Scalar, Value, arguments
from longhand.schedule.names.meanings.nameless import Nameless

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


_LONGEST = 24  # characters of a piece's word that says where it ends


def ends_of_pieces(body: Sequence[Value]) -> dict[int, str]:
    """By position of the number at which a piece ends: the tensor from which it, and no other piece, is read."""
    pieces = _pieces(body)
    ends = zip(_boundaries(body), pieces, strict=False)
    return {limit: piece for limit, piece in ends if piece is not None and pieces.count(piece) == 1}


def word_of_end(piece: str) -> str | None:
    """``d_q_end``, of the piece that is called d_q; None where that would be long."""
    return f"{piece}_end" if len(piece) <= _LONGEST else None


def in_a_piece(one: Nameless) -> Iterator[str]:
    """``in_q``, of what is below the end of the first piece, and ``before_v`` of what is below that of the next."""
    if not _is_boundary(one.value, one.plan.body):
        return
    limit = _limit_before(one.value, one.plan.body)
    place = _boundaries(one.plan.body).index(limit) if limit is not None else 0
    if (word := _word_of_piece(one, place if place == 0 else place + 1)) is not None:
        yield f"before_{word}" if place else f"in_{word}"
    yield "in_first"
    yield from (f"in_first_{number}" for number in _NUMBERS)


def _word_of_piece(one: Nameless, place: int) -> str | None:
    """The word of what a piece is read from, if that is one tensor and no other piece is read from it."""
    pieces = _pieces(one.plan.body)
    piece = pieces[place] if place < len(pieces) else None
    word = one.pointers.get(piece) if piece is not None else None
    return word if word is not None and word_of_end(word) and pieces.count(piece) == 1 else None


def _pieces(body: Sequence[Value]) -> list[str | None]:
    """What each piece is read from, in order; None for one of several tensors, or of none."""
    choices = {
        value.args[0]: value
        for value in body
        if isinstance(value, Pointwise)
        and value.op is PointwiseOp.WHERE
        and _is_boundary(body[value.args[0]], body)
    }
    limit_of = {_limit_before(body[condition], body): choice for condition, choice in choices.items()}
    in_order = [limit_of[limit] for limit in _boundaries(body) if limit in limit_of]
    read = [_read_by(choice.args[1], body) for choice in in_order]
    return [*read, _read_by(in_order[-1].args[2], body)] if in_order else []


def _read_by(position: int, body: Sequence[Value]) -> str | None:
    """The tensor from which alone a value is computed, but for what is the same for all elements; None of several."""
    waiting, read = [position], set[str]()
    while waiting:
        value = body[waiting.pop()]
        read |= {value.buffer} if isinstance(value, Load) else set()
        waiting += [] if isinstance(value, Load) else arguments(value)
    return read.pop() if len(read) == 1 else None


_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine")


def rest_of_pieces(one: Nameless) -> Iterator[str]:
    yield from words_of_rest(one.position, one.plan.body)


def words_of_rest(position: int, body: Sequence[Value]) -> Iterator[str]:
    """``rest``, of what is chosen from the pieces behind the first ones."""
    value = body[position]
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.WHERE:
        return
    users = [user for user in body if position in arguments(user)]
    is_rest = bool(users) and all(
        isinstance(user, Pointwise)
        and user.op is PointwiseOp.WHERE
        and user.origin == value.origin
        and user.args[2] == position
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
    """``in_k``, of what lies behind one end and before the next, and ``in_v`` of what lies behind the last one."""
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
            place = limits.index(until)
            yield from _words_of_place(one, place, _ORDINALS[place])
    elif (after := _limit_behind(value, body)) is not None and limits[-1:] == [after]:
        yield from _words_of_place(one, len(limits), "second" if len(limits) == 1 else "last")


def _words_of_place(one: Nameless, place: int, ordinal: str) -> Iterator[str]:
    word = _word_of_piece(one, place)
    yield from [f"in_{word}"] if word is not None else []
    yield f"in_{ordinal}"


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
