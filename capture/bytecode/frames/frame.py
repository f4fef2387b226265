"""One interpreted frame: its code, decoded once, and its stack, locals and cells."""

from __future__ import annotations

import dataclasses
import dis
import functools
from collections.abc import Sequence
from types import CodeType
from typing import Any

from longhand.capture.bytecode.values.tracked import NULL, Cell, Const, Value
from longhand.capture.bytecode.versions.opcodes import CELL_MAKERS, JUMPS_BACK, LOCATIONS_ONLY, Opcode
from longhand.capture.bytecode.versions.running import VERSION

__all__ = ["Decoded", "ExceptionHandler", "Frame", "Instruction", "decode"]


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One instruction; jumps name the index of their target."""

    name: str
    arg: int
    argval: Any
    target: int | None
    line: int


@dataclasses.dataclass(frozen=True)
class ExceptionHandler:
    """A row of the exception table, by instruction index: [start, end) goes to `target`."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


@dataclasses.dataclass(frozen=True)
class Decoded:
    """A code object as the interpreter wants it: caches and EXTENDED_ARGs are no instructions, and each instruction
    does one thing (see versions/)."""

    instructions: tuple[Instruction, ...]
    handlers: tuple[ExceptionHandler, ...]

    @functools.cached_property
    def n_first(self) -> int:
        """How many instructions at the start make cells."""
        return next(i for i, step in enumerate(self.instructions) if step.name not in CELL_MAKERS)

    @functools.cached_property
    def loop_heads(self) -> frozenset[int]:
        """Where the turns of loops begin: what jumps lead back to."""
        jumps = ((step.target, at) for at, step in enumerate(self.instructions) if step.name in JUMPS_BACK)
        return frozenset(target for target, at in jumps if target is not None and target <= at)

    def handler_of(self, index: int) -> ExceptionHandler | None:
        return next((h for h in self.handlers if h.start <= index < h.end), None)


@functools.lru_cache(maxsize=2048)
def decode(code: CodeType) -> Decoded:
    """The instructions and the exception table."""
    listed = list(dis.get_instructions(code))
    index_of: dict[int, int] = {}
    parts: list[tuple[dis.Instruction, Sequence[tuple[str, int, Any]]]] = []
    end = 0
    for raw in listed:  # an EXTENDED_ARG stands for the instruction that it extends
        index_of[raw.offset] = end
        if raw.opname not in LOCATIONS_ONLY:
            parts.append((raw, VERSION.split(raw.opname, raw.arg or 0, raw.argval)))
            end += len(parts[-1][1])
    jumps = set(dis.hasjrel) | set(dis.hasjabs)
    starts = dict(dis.findlinestarts(code))
    line = code.co_firstlineno
    instructions = []
    for raw, split in parts:
        line = (raw.positions.lineno if raw.positions else None) or starts.get(raw.offset) or line
        target = index_of[raw.argval] if raw.opcode in jumps else None
        instructions += [Instruction(name, arg, argval, target, line) for name, arg, argval in split]

    def index(offset: int) -> int:
        later = [o for o in index_of if o >= offset]
        return index_of[min(later)] if later else end

    rows = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    handlers = tuple(
        ExceptionHandler(index(row.start), index(row.end), index_of[row.target], row.depth, row.lasti)
        for row in rows
    )
    return Decoded(tuple(instructions), handlers)


class Frame:
    """The state of one interpreted call.

    Args:
        code: What runs.
        globals: Its globals.
        builtins: Names that globals do not have.
        locals: Arguments that are no cells, by name.
        cells: Free variables and cells.
        globals_source: How the generated check reaches the globals.
    """

    def __init__(
        self,
        code: CodeType,
        globals: dict[str, Any],
        builtins: dict[str, Any],
        locals: dict[str, Value],
        cells: dict[str, Cell],
        globals_name: str,
    ) -> None:
        self.code = code
        self.decoded = decode(code)
        self.globals = globals
        self.builtins = builtins
        self.locals = locals
        self.cells = cells
        self.globals_name = globals_name
        self.stack: list[Value] = []
        self.index = 0
        self.start = 0
        self.keyword_names: tuple[str, ...] = ()
        self.loops: dict[int, int] = {}  # how deep the stack is at each of the loop_heads that ran
        self.current_error: Value = Const(None)
        self.finished = False
        self.returned: Value = Const(None)
        self.thrown: Value | None = None
        self.sent: Value = Const(None)

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def push_callable(self, value: Value, *, with_null: bool) -> None:
        """Pushes what is to be called, with the NULL that CPython puts beside it where it is no method."""
        pair = (NULL, value) if VERSION.null_is_first else (value, NULL)
        self.stack.extend(pair if with_null else (value,))

    def pop(self) -> Value:
        return self.stack.pop()

    def popn(self, count: int) -> list[Value]:
        if count == 0:
            return []
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def runs_when_closed(self) -> bool:
        """Whether a GeneratorExit at the last instruction would meet code of the user's own on its way out."""
        rows, at = self.decoded.instructions, self.index - 1
        while (row := self.decoded.handler_of(at)) is not None:
            step = row.target
            if rows[step].name == Opcode.CALL_INTRINSIC_1:  # CPython 3.12 wraps generators, for StopIteration
                return False
            if rows[step].name == Opcode.CLEANUP_THROW:  # of `yield from`, since 3.12: what is raised goes on
                at = step
                continue
            if (
                rows[step].name == Opcode.COPY and rows[step + 2].name == Opcode.RERAISE
            ):  # the end of a handler
                at = step + 2
                continue
            if rows[step].name != Opcode.PUSH_EXC_INFO:
                return True
            step += 1
            while self._is_test_of_exception(step):
                target = rows[step + 2].target
                assert target is not None
                step = target
            if rows[step].name != Opcode.RERAISE:
                return True
            at = step
        return False

    def _is_test_of_exception(self, step: int) -> bool:
        """Whether ``except NAME:`` stands there, of a built-in Exception, which GeneratorExit is not."""
        name, *others = self.decoded.instructions[step : step + 3]
        if name.name != Opcode.LOAD_GLOBAL or len(others) < 2 or name.argval in self.globals:
            return False
        kind = self.builtins.get(name.argval)
        is_test = others[0].name == Opcode.CHECK_EXC_MATCH and others[1].name == Opcode.POP_JUMP_IF_FALSE
        return is_test and isinstance(kind, type) and issubclass(kind, Exception)

    def place(self) -> tuple[str, int, str]:
        """(file, line, function)."""
        at = min(self.start, len(self.decoded.instructions) - 1)
        return self.code.co_filename, self.decoded.instructions[at].line, self.code.co_name

    def first_argument(self) -> Value | None:
        """What is in the first local now: ``super()`` takes it for the instance."""
        if not self.code.co_argcount:
            return None
        name = self.code.co_varnames[0]
        return self.cells[name].content if name in self.cells else self.locals.get(name)
