"""The bytecode of CPython 3.11."""

from __future__ import annotations

from typing import Any

import bytecode as bc
from bytecode.instr import InstrLocation

from longhand.capture.bytecode.versions.opcodes import Opcode
from longhand.capture.bytecode.versions.version import Version

__all__ = ["VERSION"]


def _called(function: list[Any], arguments: list[Any], count: int, at: InstrLocation) -> list[Any]:
    first = bc.Instr(Opcode.PUSH_NULL, location=at)
    ends = [bc.Instr(Opcode.PRECALL, count, location=at), bc.Instr(Opcode.CALL, count, location=at)]
    return [first, *function, *arguments, *ends]


def _function_made(has_cells: bool, at: InstrLocation) -> list[Any]:
    return [bc.Instr(Opcode.MAKE_FUNCTION, 8 if has_cells else 0, location=at)]


def _renamed(way: str) -> dict[str, str]:
    """Jumps say the way in which they go."""
    conditions = ("IF_FALSE", "IF_TRUE", "IF_NONE", "IF_NOT_NONE")
    return {f"POP_JUMP_{way}_{condition}": f"POP_JUMP_{condition}" for condition in conditions}


VERSION = Version(
    number=(3, 11),
    renamed={**_renamed("FORWARD"), **_renamed("BACKWARD")},
    parts={},
    has_method_bit=False,
    null_is_first=True,
    loop_end=(),
    forward=dict(zip(_renamed("BACKWARD"), _renamed("FORWARD"), strict=True)),
    compares_to_bool=False,
    send_keeps_iterator=False,
    closure=Opcode.LOAD_CLOSURE,
    called=_called,
    function_made=_function_made,
)
