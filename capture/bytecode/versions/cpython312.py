"""The bytecode of CPython 3.12: methods are loaded by LOAD_ATTR, loops end at END_FOR, comprehensions are inlined."""

from __future__ import annotations

from typing import Any

import bytecode as bc
from bytecode.instr import InstrLocation

from longhand.capture.bytecode.versions.opcodes import Opcode
from longhand.capture.bytecode.versions.version import Version

__all__ = ["VERSION"]


def _called(function: list[Any], arguments: list[Any], count: int, at: InstrLocation) -> list[Any]:
    return [
        bc.Instr(Opcode.PUSH_NULL, location=at),
        *function,
        *arguments,
        bc.Instr(Opcode.CALL, count, location=at),
    ]


def _function_made(has_cells: bool, at: InstrLocation) -> list[Any]:
    return [bc.Instr(Opcode.MAKE_FUNCTION, 8 if has_cells else 0, location=at)]


VERSION = Version(
    number=(3, 12),
    renamed={},
    parts={},
    has_method_bit=True,
    null_is_first=True,
    loop_end=(Opcode.END_FOR,),
    forward={},
    compares_to_bool=False,
    send_keeps_iterator=True,
    closure=Opcode.LOAD_CLOSURE,
    called=_called,
    function_made=_function_made,
)
