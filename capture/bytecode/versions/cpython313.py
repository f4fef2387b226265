"""The bytecode of CPython 3.13: a call's NULL lies above what is called, jumps take bools, cells are loaded as locals,
two loads or stores may be one instruction."""

from __future__ import annotations

from typing import Any

import bytecode as bc
from bytecode.instr import InstrLocation

from longhand.capture.bytecode.versions.opcodes import Opcode
from longhand.capture.bytecode.versions.version import Version

__all__ = ["VERSION"]


def _called(function: list[Any], arguments: list[Any], count: int, at: InstrLocation) -> list[Any]:
    return [
        *function,
        bc.Instr(Opcode.PUSH_NULL, location=at),
        *arguments,
        bc.Instr(Opcode.CALL, count, location=at),
    ]


def _function_made(has_cells: bool, at: InstrLocation) -> list[Any]:
    cells = [bc.Instr(Opcode.SET_FUNCTION_ATTRIBUTE, 8, location=at)] if has_cells else []
    return [bc.Instr(Opcode.MAKE_FUNCTION, location=at), *cells]


VERSION = Version(
    number=(3, 13),
    renamed={Opcode.END_FOR: Opcode.END_FOR_ONE},
    parts={
        "LOAD_FAST_LOAD_FAST": (Opcode.LOAD_FAST, Opcode.LOAD_FAST),
        "STORE_FAST_LOAD_FAST": (Opcode.STORE_FAST, Opcode.LOAD_FAST),
        "STORE_FAST_STORE_FAST": (Opcode.STORE_FAST, Opcode.STORE_FAST),
    },
    has_method_bit=True,
    null_is_first=False,
    loop_end=(Opcode.END_FOR, Opcode.POP_TOP),
    forward={},
    compares_to_bool=True,
    send_keeps_iterator=True,
    closure=Opcode.LOAD_FAST,
    called=_called,
    function_made=_function_made,
)
