"""Conditions on sizes, which a captured graph rests on, as Python."""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from longhand.emit.text.expression import size_text
from longhand.errors import CaptureError

_COMPARISONS: dict[type, str] = {
    sympy.Eq: "==",
    sympy.Ne: "!=",
    sympy.StrictLessThan: "<",
    sympy.LessThan: "<=",
    sympy.StrictGreaterThan: ">",
    sympy.GreaterThan: ">=",
}


def condition_text(condition: sympy.Basic, words: Mapping[str, str]) -> str:
    """A condition on sizes as Python: ``batch % 4 == 0``.

    Raises:
        CaptureError: It is of a kind that cannot be written.
    """
    if isinstance(condition, sympy.And | sympy.Or):
        word = " and " if isinstance(condition, sympy.And) else " or "
        return word.join(f"({condition_text(part, words)})" for part in condition.args)
    if isinstance(condition, sympy.Not):
        return f"not ({condition_text(condition.args[0], words)})"
    if type(condition) not in _COMPARISONS:
        raise CaptureError(
            f"The code decides by sizes in a way that generated code cannot check: {condition}.",
            hint="Make those sizes fixed numbers: leave them out of dynamic_shapes.",
        )
    left, right = (size_text(part, words, is_alone=True) for part in condition.args)
    return f"{left} {_COMPARISONS[type(condition)]} {right}"
