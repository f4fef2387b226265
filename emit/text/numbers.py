"""Numbers as a person writes them: ``12**-0.5`` for 0.28867513459481287, ``1e-5`` for 1e-05.

Only where the short text is the very same number.
"""

from __future__ import annotations

import math

from longhand.emit.text.expression import Precedence, Text

_MOST_DIGITS = 6  # significant ones that a person types
_LARGEST = 2**20
_ROUND = 1e6  # from here on nobody counts the zeros


def number(value: float) -> str:
    """A float as Python text."""
    text = root_text(value) or _round_text(value) or repr(value)
    if text in ("inf", "-inf", "nan"):
        return f'float("{text}")'
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else text


def _round_text(value: float) -> str | None:
    """``-1e9``, for a large number with no more than a digit or two; None for another."""
    text = f"{value:.1e}".replace(".0e", "e")
    return text if abs(value) >= _ROUND and math.isfinite(value) and float(text) == value else None


def number_operand(text: str) -> Text:
    """The text of a number as a part of an expression."""
    if " / " in text or " * " in text:
        return Text(text, Precedence.PRODUCT)
    return Text(text, Precedence.UNARY if text.startswith("-") or "**" in text else Precedence.ATOM)


def root_text(value: float) -> str | None:
    """The number as a root of a whole one, ``12**-0.5``; None where it is none, or short as it is."""
    if not _is_long(value):
        return None
    size = abs(value)
    sign = "-" if value < 0 else ""
    for power in (0.5, 0.25, 0.75):
        above, below = _whole(size ** (1 / power)), _whole(size ** (-1 / power))
        if above and above**power == size:
            return f"{sign}{above}**{power}"
        if below and below**-power == size:
            return f"{sign}{below}**-{power}"
        if below and 1 / below**power == size:
            return f"{sign}1 / {below}**{power}"
    return None


def log_of(value: float) -> int | None:
    """The whole number that `value` is the logarithm of, where nobody would write its digits."""
    whole = _whole(math.exp(value)) if _is_long(value) and 0 < value < math.log(_LARGEST) else None
    return whole if whole and math.log(whole) == value else None


def _is_long(value: float) -> bool:
    digits = repr(value).partition("e")[0].replace(".", "").strip("-0")
    return math.isfinite(value) and len(digits) > _MOST_DIGITS and 1 / _LARGEST < abs(value) < _LARGEST


def _whole(value: float) -> int | None:
    """The whole number, from two on, that is about `value`."""
    nearest = round(value)
    return nearest if 2 <= nearest <= _LARGEST and abs(value - nearest) < 1e-6 * nearest else None
