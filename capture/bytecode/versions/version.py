"""What the rest of capture asks about a version's bytecode; each version answers in a module of its own.

The symbolic interpreter knows one set of instructions: those of CPython 3.12, some with another name. A version says
how its own become those, how calls lie on its stack, and how a call of a function is written for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import bytecode as bc
from bytecode.instr import InstrLocation

from longhand.capture.bytecode.versions.opcodes import Opcode

__all__ = ["Called", "Version"]

# (what loads the function, what loads its arguments, how many, where) -> the call of it, its result on the stack.
Called = Callable[[list[Any], list[Any], int, InstrLocation], list[Any]]


@dataclasses.dataclass(frozen=True)
class Version:
    """One version of CPython's bytecode.

    Attributes:
        number: As in sys.version_info[:2].
        renamed: What the interpreter calls instructions that mean something else under their own name.
        parts: The instructions that one stands for, as (name, where its argument is in the other's); see `split`.
        has_method_bit: Whether LOAD_ATTR's lowest bit asks for a method, as two values.
        null_is_first: Whether the NULL of a call lies below what is called; else above it.
        forward: The instruction that jumps forward, of one that jumps back, where these are two.
        loop_end: The instructions at the target of FOR_ITER that it passes over when the loop ends.
        compares_to_bool: Whether a bit of COMPARE_OP's argument asks for a bool.
        send_keeps_iterator: Whether SEND leaves it to an END_SEND to drop an iterator that ended.
        closure: The instruction that loads a cell.
        called: Writes a call.
        function_made: Writes what makes a function of the code (and the tuple of cells below it) on the stack.
    """

    number: tuple[int, int]
    renamed: Mapping[str, str]
    parts: Mapping[str, tuple[str, str]]
    has_method_bit: bool
    null_is_first: bool
    loop_end: tuple[str, ...]
    forward: Mapping[str, str]
    compares_to_bool: bool
    send_keeps_iterator: bool
    closure: str
    called: Called
    function_made: Callable[[bool, InstrLocation], list[Any]]

    def split(self, name: str, arg: int, argval: Any) -> Sequence[tuple[str, int, Any]]:
        """What the interpreter runs for one instruction: (name, arg, argval) of each.

        Args:
            name: Its name in `dis`.
            arg: Its argument.
            argval: What that stands for.
        """
        if name in self.parts:
            first, second = self.parts[name]
            return (first, arg >> 4, argval[0]), (second, arg & 15, argval[1])
        if name == Opcode.COMPARE_OP and self.compares_to_bool and arg & _TO_BOOL:
            return (name, arg & ~_TO_BOOL, argval), (Opcode.TO_BOOL, 0, None)
        return ((self.renamed.get(name, name), arg, argval),)

    def pushes_null(self, name: str, arg: int) -> bool:
        """Whether an instruction loads what is to be called, as two values: with a NULL, or with its instance."""
        match name:
            case Opcode.LOAD_METHOD:
                return True
            case Opcode.LOAD_ATTR:
                return self.has_method_bit and bool(arg & 1)
            case Opcode.LOAD_GLOBAL | Opcode.LOAD_SUPER_ATTR:
                return bool(arg & 1)
        return False

    def split_row(self, row: bc.Instr) -> list[bc.Instr]:
        """The same as `split`, of an instruction that is to be assembled."""
        arg: Any = row.arg
        pairs: Iterable[tuple[str, Any]]
        if row.name in self.parts:
            pairs = zip(self.parts[row.name], arg, strict=True)
        elif row.name == Opcode.COMPARE_OP and self.compares_to_bool and arg & _TO_BOOL:
            pairs = [(Opcode.COMPARE_OP, bc.Compare(arg & ~_TO_BOOL)), (Opcode.TO_BOOL, bc.UNSET)]
        else:
            return [row]
        return [bc.Instr(name, part, location=row.location) for name, part in pairs]


# The bit of COMPARE_OP's argument that asks for a bool, in `dis` and in the library that assembles.
_TO_BOOL = 16
