"""The block of tunables in a kernel's file: read, and changed value by value as a person would.

Only the number changes; in C++ the comment behind it keeps its column, where its neighbours' comments stand too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from longhand.errors import UnitError

_PYTHON_BLOCK = re.compile(r"^# Tunables\.\r?\n((?:[A-Z].*\n)+)", re.MULTILINE)
_PYTHON_NAME = re.compile(r"^([A-Z][A-Z0-9_]*) *=", re.MULTILINE)
_CPP_NAME = re.compile(r"^constexpr long ([A-Z][A-Z0-9_]*) *= *\d+;", re.MULTILINE)
_NUMBER = re.compile(r"\d[\d_']*[lL]?")


def tunable_names(written: str, path: str) -> tuple[str, ...]:
    """The tunables of a kernel's file, in its order.

    Args:
        written: The text as longhand wrote it: there the block looks as expected.
        path: Its name; the suffix tells the language.
    """
    if path.endswith(".cpp"):
        return tuple(_CPP_NAME.findall(written))
    block = _PYTHON_BLOCK.search(written)
    return tuple(_PYTHON_NAME.findall(block[1])) if block else ()


def read_values(text: str, path: str, names: tuple[str, ...]) -> dict[str, int | None]:
    """What a file sets its tunables to; None where that is no plain number, or the name is not set exactly once."""
    values: dict[str, int | None] = {}
    for name in names:
        lines = list(_assignment(name, path).finditer(text))
        is_plain = len(lines) == 1 and _NUMBER.fullmatch(lines[0]["value"])
        values[name] = int(re.sub("[_'lL]", "", lines[0]["value"])) if is_plain else None
    return values


def with_values(text: str, path: str, values: Mapping[str, int]) -> str:
    """The text with these tunables set to these values.

    Raises:
        UnitError: The file does not set one of them to a plain number.
    """
    current = read_values(text, path, tuple(values))
    for name, value in values.items():
        if current[name] is None:
            raise UnitError(f"{path} does not set {name} to a plain number.")
        match = _assignment(name, path).search(text)
        if match is not None and current[name] != value:
            text = f"{text[: match.start()]}{_replaced(match, text, value)}{text[match.end() :]}"
    return text


def _assignment(name: str, path: str) -> re.Pattern[str]:
    """The line that sets a tunable."""
    if path.endswith(".cpp"):
        before, end, comment = rf"(?:(?:static|inline) +)*constexpr +long +{name}", ";", "//"
    else:
        before, end, comment = name, "", "#"
    return re.compile(
        rf"^(?P<before>{before} *= *)(?P<value>[^\s;#]+)(?P<end>{end})(?P<space> *)(?P<rest>(?:{comment}.*)?\r?)$",
        re.MULTILINE,
    )


def _replaced(match: re.Match[str], text: str, value: int) -> str:
    space = match["space"]
    if match["end"] and match["rest"].strip() and _is_aligned(match, text):
        space = " " * max(2, len(space) + len(match["value"]) - len(str(value)))
    return f"{match['before']}{value}{match['end']}{space}{match['rest']}"


def _is_aligned(match: re.Match[str], text: str) -> bool:
    """Whether a line above or below has its comment in the same column."""
    column = match[0].index("//", len(match["before"]))
    above = text[: match.start()].split("\n")[-2:-1]
    below = text[match.end() :].split("\n")[1:2]
    return any("//" in line and line.rindex("//") == column for line in above + below)
