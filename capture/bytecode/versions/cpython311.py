"""The bytecode of CPython 3.11."""

from __future__ import annotations

from typing import Any

import bytecode as bc
from bytecode.instr import InstrLocation

from longhand.capture.bytecode.versions.version import Version

__all__ = ["VERSION"]


def _called(function: list[Any], arguments: list[Any], count: int, at: InstrLocation) -> list[Any]:
    first = bc.Instr("PUSH_NULL", location=at)
    ends = [bc.Instr("PRECALL", count, location=at), bc.Instr("CALL", count, location=at)]
    return [first, *function, *arguments, *ends]


def _function_made(has_cells: bool, at: InstrLocation) -> list[Any]:
    return [bc.Instr("MAKE_FUNCTION", 8 if has_cells else 0, location=at)]


VERSION = Version(
    number=(3, 11),
    renamed={},
    parts={},
    has_method_bit=False,
    null_is_first=True,
    loop_end=(),
    compares_to_bool=False,
    send_keeps_iterator=False,
    closure="LOAD_CLOSURE",
    called=_called,
    function_made=_function_made,
)
