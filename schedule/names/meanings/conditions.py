"""What a condition asks: ``x_is_positive``, ``below_threshold``, ``before_filled``; never ``is_less``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from longhand.capture.graph import Role
from longhand.lower.ir import Constant, Pointwise, PointwiseOp, Scalar, Value

_SIGNS = {
    PointwiseOp.GT: "is_positive",
    PointwiseOp.LT: "is_negative",
    PointwiseOp.GE: "is_not_negative",
    PointwiseOp.LE: "is_not_positive",
    PointwiseOp.EQ: "is_zero",
    PointwiseOp.NE: "is_not_zero",
}
# Beside a number or another value.
_RELATIONS = {
    PointwiseOp.GT: "above",
    PointwiseOp.GE: "at_least",
    PointwiseOp.LT: "below",
    PointwiseOp.LE: "at_most",
    PointwiseOp.EQ: "is",
    PointwiseOp.NE: "is_not",
}
_TURNED = {
    PointwiseOp.GT: PointwiseOp.LT,
    PointwiseOp.LT: PointwiseOp.GT,
    PointwiseOp.GE: PointwiseOp.LE,
    PointwiseOp.LE: PointwiseOp.GE,
}
_ELEMENT = re.compile(r"_[0ijklm]$")  # ``x_i`` of x
_NUMBER = "threshold"
_SHORT = 14  # characters of a side's word
_LONGEST = 32  # of the whole one
_JOINTS = {PointwiseOp.LOGICAL_AND: "and", PointwiseOp.LOGICAL_OR: "or"}


def words_of_condition(
    value: Value, body: Sequence[Value], word_of: Callable[[int], str | None]
) -> Iterator[str]:
    """The words, best first; none for what is no condition.

    Args:
        value: The condition.
        body: The kernel's values.
        word_of: The word of a value that has one.
    """
    if not isinstance(value, Pointwise):
        return
    if value.op in _RELATIONS and len(value.args) == 2:
        yield from _compared(value, body, word_of)
    elif value.op is PointwiseOp.LOGICAL_NOT:
        yield from _opposite(word_of(value.args[0]) or next(iter(_inner(value, 0, body, word_of)), None))
    elif value.op in _JOINTS:
        sides = [
            word_of(side) or next(iter(_inner(value, at, body, word_of)), "")
            for at, side in enumerate(value.args)
        ]
        word = f"_{_JOINTS[value.op]}_".join(sides)
        if all(sides) and sides[0] != sides[1] and len(word) <= _LONGEST:
            yield word


def _inner(
    value: Pointwise, side: int, body: Sequence[Value], word_of: Callable[[int], str | None]
) -> Iterator[str]:
    return words_of_condition(body[value.args[side]], body, word_of)


def _opposite(word: str | None) -> Iterator[str]:
    if word is None:
        return
    first, _, rest = word.partition("_")
    before, joint, after = word.rpartition("_is_")
    if first == "before":
        yield f"past_{rest}"
    elif first == "is" and not rest.startswith("not_"):
        yield f"is_not_{rest}"
    elif joint and not after.startswith("not_"):
        yield f"{before}_is_not_{after}"
    elif first != "not":
        yield f"not_{word}"


def _compared(value: Pointwise, body: Sequence[Value], word_of: Callable[[int], str | None]) -> Iterator[str]:
    op, (one, other) = value.op, value.args
    if isinstance(body[one], Constant | Scalar) and op in _TURNED:
        op, one, other = _TURNED[op], other, one
    limit, word = body[other], _ELEMENT.sub("", word_of(one) or "")
    of = [f"{word}_"] if word and len(word) <= _SHORT else []
    if isinstance(limit, Constant):
        relation = _SIGNS[op] if limit.value == 0 else f"{_RELATIONS[op]}_{_NUMBER}"
        yield from (f"{before}{relation}" for before in (*of, ""))
    elif isinstance(limit, Scalar):
        yield from _beside_a_number(op, limit, of)
    elif (second := word_of(other)) and of and len(second) <= _SHORT and second != word:
        yield f"{word}_{_RELATIONS[op]}_{second}"


def _beside_a_number(op: PointwiseOp, limit: Scalar, of: list[str]) -> Iterator[str]:
    """``before_filled`` and ``past_filled``, of a place beside where something starts or ends; else ``above_eps``."""
    name = str(limit.name or _NUMBER)
    stem, _, side = name.rpartition("_")
    is_before = op in (PointwiseOp.LT, PointwiseOp.LE)
    if stem and side == "start":
        yield f"before_{stem}" if is_before else f"from_{name}"
    elif stem and side == "end":
        yield f"before_{name}" if is_before else f"past_{stem}"
    elif limit.name is not Role.BOUNDARY:
        yield from (f"{before}{_RELATIONS[op]}_{name}" for before in (*of, ""))
