"""Numbers that get a name at the top of the file.

Whole numbers of two digits or more, so that none stands bare in a loop, what a lowering has a word for (``SQRT_HALF``),
and what the user has one for (``BETA1``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from longhand.emit.cpp.types import cpp_type, literal
from longhand.emit.names.words import further_words, identifier
from longhand.emit.text.numbers import log_of, root_text
from longhand.lower.ir import Constant, Pointwise, PointwiseOp, Value

_LARGEST_BARE = 9

# By the name of the value that compares with them.
_CONSTANTS_OF = {"counts": "IGNORE_INDEX", "is_ignored": "IGNORE_INDEX"}
_ROLES = {
    PointwiseOp.EQ: "SPECIAL_VALUE",
    PointwiseOp.NE: "SPECIAL_VALUE",
    PointwiseOp.LT: "THRESHOLD",
    PointwiseOp.LE: "THRESHOLD",
    PointwiseOp.GT: "THRESHOLD",
    PointwiseOp.GE: "THRESHOLD",
    PointwiseOp.ADD: "OFFSET",
    PointwiseOp.SUB: "OFFSET",
    PointwiseOp.MUL: "FACTOR",
    PointwiseOp.FLOOR_DIV: "DIVISOR",
    PointwiseOp.TRUNC_DIV: "DIVISOR",
    PointwiseOp.REMAINDER: "DIVISOR",
    PointwiseOp.FMOD: "DIVISOR",
    PointwiseOp.BITWISE_AND: "BITS",
    PointwiseOp.BITWISE_OR: "BITS",
    PointwiseOp.BITWISE_XOR: "BITS",
    PointwiseOp.MAXIMUM: "LIMIT",
    PointwiseOp.MINIMUM: "LIMIT",
    PointwiseOp.WHERE: "FILL_VALUE",
}


@dataclasses.dataclass(frozen=True)
class NamedConstant:
    """``constexpr int64_t IGNORE_INDEX = -100;``

    Attributes:
        type: In C++.
        name: In capitals.
        value: In C++.
        remark: What it is in other words, in C++: ``12**-0.5``.
    """

    type: str
    name: str
    value: str
    remark: str = ""


def named_constants(
    body: tuple[Value, ...], taken: frozenset[str], given: Mapping[int, str]
) -> dict[int, NamedConstant]:
    """The constants of a body that need a name, by position; equal ones share it.

    Args:
        body: The kernel's.
        taken: Names that no constant may have.
        given: The user's names for numbers, by position.
    """
    found: dict[int, NamedConstant] = {}
    used = set(taken)
    for position, value in enumerate(body):
        if not isinstance(value, Constant) or not (position in given or _wants_name(value)):
            continue
        kind, text = cpp_type(value.dtype), literal(value.value, value.dtype).text
        same = next((c for c in found.values() if (c.type, c.value) == (kind, text)), None)
        if same is None:
            word = given.get(position) or (value.name.upper() if value.name else _role(position, body))
            if word in used and value.dtype.is_floating_point:
                word = next(one.upper() for one in further_words(word) if one.upper() not in used)
            elif word in used:
                word = identifier(f"{word}_{text.rstrip('L').replace('-', 'MINUS_')}")
            used.add(word)
            same = NamedConstant(kind, word, text, _remark(value))
        found[position] = same
    return found


def _wants_name(value: Constant) -> bool:
    if value.dtype.is_floating_point:
        return value.name is not None or log_of(value.value) is not None or root_text(value.value) is not None
    return abs(value.value) > _LARGEST_BARE


def _remark(value: Constant) -> str:
    if not value.dtype.is_floating_point or value.name:
        return ""
    logged = log_of(value.value)
    return f"log({logged})" if logged else root_text(value.value) or ""


def _role(position: int, body: tuple[Value, ...]) -> str:
    number = body[position]
    assert isinstance(number, Constant)
    is_fraction = number.dtype.is_floating_point
    if is_fraction and (logged := log_of(number.value)):
        return f"LOG_{logged}"
    for value in body:
        if isinstance(value, Pointwise) and position in value.args:
            if value.name in _CONSTANTS_OF:
                return _CONSTANTS_OF[value.name]
            is_scale = is_fraction and value.op in (PointwiseOp.MUL, PointwiseOp.DIV)
            return "SCALE" if is_scale else _ROLES.get(value.op, "NUMBER")
    return "NUMBER"
