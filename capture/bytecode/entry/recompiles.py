"""Why a call is compiled anew, for people: what a fact was, what it is now, and what spares the compilation."""

from __future__ import annotations

import re
from typing import Any

_SIZES = re.compile(r"(.+)\.shape == (\S+)", re.DOTALL)
_NUMBER = re.compile(r"(.+) == (\S+)", re.DOTALL)
_LOCAL = re.compile(r"L\['(\w+)'\]")


def failure_told(condition: str, readable: str, names: dict[str, Any], given: dict[str, Any]) -> str:
    """A fact that does not hold, with the remedy where there is one.

    Args:
        condition: Python text, false for this call.
        readable: The fact for people.
        names: What the text's constants are.
        given: What the call was given.
    """
    who = readable.partition(": ")[0]
    if (sides := _sides(_SIZES, condition, names, given, add=".shape")) is not None:
        before, now = sides
        if isinstance(before, tuple):
            return _of_sizes(who, tuple(before), tuple(now))
    if (sides := _sides(_NUMBER, condition, names, given)) is not None:
        before, now = sides
        if type(now) in (int, float) and type(before) is type(now):
            return f"{readable}, and is {now!r} here: a number is part of the code; give it as a tensor"
    return readable


def _of_sizes(who: str, before: tuple[int, ...], now: tuple[int, ...]) -> str:
    if len(before) != len(now):
        return f"{who} had {len(before)} dimensions and has {len(now)}"
    local = _LOCAL.fullmatch(who)
    tensor = local[1] if local else who
    changed = [dim for dim, (old, new) in enumerate(zip(before, now, strict=True)) if old != new]
    said = ", ".join(f"size {before[dim]} in dimension {dim} is {now[dim]}" for dim in changed)
    free = [dim for dim in changed if min(before[dim], now[dim]) > 1]
    if not free:
        return f"{who}: {said}; sizes of 0 and 1 are compiled for themselves"
    marks = "; ".join(f"longhand.mark_dynamic({tensor}, {dim})" for dim in free)
    return f"{who}: {said}: {marks} before the first call, or dynamic=True, spares this"


def _sides(
    pattern: re.Pattern[str], condition: str, names: dict[str, Any], given: dict[str, Any], add: str = ""
) -> tuple[Any, Any] | None:
    """What the two sides of a comparison are: what was compiled for, and what came."""
    match = pattern.fullmatch(condition)
    if match is None:
        return None
    try:
        return eval(match[2], names, given), eval(match[1] + add, names, given)
    except Exception:  # it is more than one comparison, or what it looks at is gone
        return None
