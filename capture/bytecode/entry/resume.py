"""Code objects that start in the middle of a function: one that runs the instruction of a graph break and goes on,
and one that continues after it.

Both take what is on the stack, then the live locals, as arguments; where a local is a cell, the argument is the cell
itself, and nothing wraps it anew. The first is CPython's alone: it runs one instruction inside the user's own try and
with blocks, and calls the second for the rest.
The second is an ordinary function: it is captured like any other.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import weakref
from types import CodeType
from typing import Any

import bytecode as bc
from bytecode.instr import InstrLocation

from longhand.capture.bytecode.entry.breaks import SkipFrame
from longhand.capture.bytecode.frames.frame import Instruction, decode
from longhand.capture.bytecode.versions.opcodes import (
    CALL_PARTS,
    JUMPS_AWAY,
    LOCAL_CHANGES,
    LOCAL_READS,
    NO_BREAKS,
    Opcode,
    popped_by_call,
)
from longhand.capture.bytecode.versions.running import VERSION

__all__ = [
    "ResumePoint",
    "assemble",
    "body_of",
    "continue_with",
    "is_continuation",
    "live_locals",
    "original_position",
    "start",
    "step_code",
]


@dataclasses.dataclass(frozen=True)
class ResumePoint:
    """A place in a user's code: the instruction (of frames.decode) that is next, and what is on the stack.

    Attributes:
        nulls: For each stack slot whether it is CPython's NULL.
        locals: The names of the locals that are given, cells among them.
    """

    code: CodeType
    index: int
    nulls: tuple[bool, ...]
    locals: tuple[str, ...]


# A continuation's code, by its identity -> the user's code, and how many instructions of its own come first. An entry
# lives as long as its continuation: programs that make functions for ever must not fill the memory.
_ORIGINS: dict[int, tuple[CodeType, int]] = {}


def original_position(code: CodeType, index: int) -> tuple[CodeType, int]:
    """The user's code and instruction for those of a continuation."""
    original, shift = _ORIGINS.get(id(code), (code, 0))
    return original, index - shift


def is_continuation(code: CodeType) -> bool:
    """Whether it is one: its arguments that are cell variables are cells already."""
    return id(code) in _ORIGINS


def first_name(code: CodeType) -> str | None:
    """The local that must come first, because ``super()`` looks for the instance there."""
    if "__class__" not in code.co_freevars or not code.co_argcount:
        return None
    return code.co_varnames[0]


@functools.lru_cache(maxsize=1024)
def asks_for_locals(code: CodeType) -> bool:
    """Whether it may look at its own frame: a continuation has other locals."""
    steps = decode(code).instructions
    for step, *after in zip(steps, steps[1:], steps[2:], strict=False):
        if step.name not in (Opcode.LOAD_GLOBAL, Opcode.LOAD_NAME):
            continue
        is_empty_call = any(other.name == Opcode.CALL and other.arg == 0 for other in after)
        if step.argval in ("locals", "eval", "exec") or (step.argval in ("vars", "dir") and is_empty_call):
            return True
    return False


def parameters(position: ResumePoint) -> tuple[str, ...]:
    """What the functions of a position take, in order: what is on the stack stands between."""
    first = first_name(position.code)
    stack = [f"stack{depth}_" for depth, is_null in enumerate(position.nulls) if not is_null]
    rest = [name for name in position.locals if name != first]
    return (*([first] if first else []), *stack, *rest)


@functools.lru_cache(maxsize=1024)
def _live(code: CodeType) -> tuple[frozenset[str], ...]:
    """For each instruction the locals that may be read from there on."""
    decoded = decode(code)
    count = len(decoded.instructions)
    live: list[frozenset[str]] = [frozenset()] * (count + 1)
    changed = True
    while changed:
        changed = False
        for index in range(count - 1, -1, -1):
            step = decoded.instructions[index]
            after: set[str] = set()
            if step.name not in JUMPS_AWAY:
                after |= live[index + 1]
            if step.target is not None:
                after |= live[min(step.target, count)]
                if step.name == Opcode.FOR_ITER:
                    after |= live[min(step.target + 1, count)]
            if step.name == Opcode.STORE_FAST:
                after.discard(step.argval)
            elif step.name in LOCAL_READS:
                after.add(step.argval)
            row = decoded.handler_of(index)
            if row is not None:
                after |= live[row.target]
            read_from_here = frozenset(after)
            if read_from_here != live[index]:
                live[index] = read_from_here
                changed = True
    return tuple(live)


def live_locals(code: CodeType, index: int) -> frozenset[str]:
    """The locals that may be read from an instruction on; cells always may, by closures."""
    return _live(code)[index] | frozenset(code.co_cellvars)


def body_of(code: CodeType) -> tuple[bc.Bytecode, list[int]]:
    """The code, and where each of its instructions is in the list."""
    body = bc.Bytecode.from_code(code)
    body[:] = [
        part for row in body for part in (VERSION.split_row(row) if isinstance(row, bc.Instr) else [row])
    ]
    places: list[int] = []
    for place, row in enumerate(body):
        if isinstance(row, bc.TryBegin):
            handler = decode(code).handler_of(len(places))
            if handler is None:
                raise SkipFrame("its exception table cannot be rebuilt")
            row.stack_depth = handler.depth
        if not isinstance(row, bc.Instr):
            continue
        places.append(place)
        # The MAKE_CELLs at the start stay, though nothing reaches them: locals() asks which cells were made.
        if row.name in (Opcode.COPY_FREE_VARS, Opcode.RETURN_GENERATOR):
            body[place] = bc.Instr(Opcode.NOP, location=row.location)
    if len(places) != len(decode(code).instructions):
        raise SkipFrame("its instructions cannot be rebuilt")
    return body, places


def _taken(name: str, at: InstrLocation) -> list[Any]:
    """Moves a local to the stack: what a frame holds longer than the user's would, lives longer than in eager."""
    return [bc.Instr(Opcode.LOAD_FAST, name, location=at), bc.Instr(Opcode.DELETE_FAST, name, location=at)]


def start(body: bc.Bytecode, position: ResumePoint, label: bc.Label, line: int) -> int:
    """Puts the prologue in front; returns how many instructions it has."""
    rows: list[Any] = []
    at = InstrLocation(line, None, None, None)
    if body.freevars:
        rows.append(bc.Instr(Opcode.COPY_FREE_VARS, len(body.freevars), location=at))
    rows.append(bc.Instr(Opcode.RESUME, 0, location=at))
    for depth, is_null in enumerate(position.nulls):
        if is_null:
            rows.append(bc.Instr(Opcode.PUSH_NULL, location=at))
        else:
            rows += _taken(f"stack{depth}_", at)
    rows.append(bc.Instr(Opcode.JUMP_FORWARD, label, location=at))
    body[0:0] = rows
    body.argnames = list(parameters(position))
    body.argcount = len(body.argnames)
    body.posonlyargcount = 0
    body.kwonlyargcount = 0
    body.flags &= ~(0x04 | 0x08 | 0x20)
    return len(rows)


def assemble(body: bc.Bytecode, code: CodeType, word: str) -> CodeType:
    body.name = code.co_name
    if hasattr(body, "qualname"):
        body.qualname = code.co_qualname
    try:
        # What jumps into the middle makes code before it unreachable: depths and sizes are the user's code's.
        room = code.co_stacksize + body.argcount + len(code.co_varnames) + 8
        return body.to_code(stacksize=room, compute_exception_stack_depths=False)
    except Exception as error:
        raise SkipFrame(f"its {word} cannot be assembled ({type(error).__name__}: {error})") from None


@functools.lru_cache(maxsize=4096)
def continuation(position: ResumePoint) -> CodeType:
    """The function that continues at a position."""
    code = position.code
    body, places = body_of(code)
    label = bc.Label()
    line = decode(code).instructions[position.index].line
    body.insert(places[position.index], label)
    shift = start(body, position, label, line)
    made = assemble(body, code, "continuation")
    if len(decode(made).instructions) != shift + len(decode(code).instructions):
        raise SkipFrame(
            "its instructions cannot be rebuilt"
        )  # places in the one would be others in the user's
    _ORIGINS[id(made)] = (code, shift)
    weakref.finalize(made, _ORIGINS.pop, id(made)).atexit = False
    return made


@functools.lru_cache(maxsize=4096)
def step_code(position: ResumePoint) -> CodeType:
    """The function that runs the instruction at a position (and KW_NAMES with its call), then what continues."""
    code = position.code
    body, places = body_of(code)
    decoded = decode(code)
    first = last = position.index
    while decoded.instructions[last].name in CALL_PARTS:
        last += 1
    step = decoded.instructions[last]
    nulls = list(position.nulls)
    # What is entered is a copy: the instruction itself, which a loop may reach again by way of a handler, stays as it
    # is, for what is on the stack then may lie there in another form.
    copied: list[Any] = [body[place].copy() for place in places[first : last + 1]]  # type: ignore[union-attr]
    opened = _open_try(body, places[first])
    row = copied[-1]
    line = step.line
    at = InstrLocation(line, None, None, None)
    extra: list[Any] = []
    depth = len(nulls)
    if VERSION.pushes_null(step.name, step.arg):
        raise SkipFrame(f"a break at {step.name} of a method")
    if step.name in LOCAL_CHANGES:
        raise SkipFrame(f"a break at {step.name}")  # the continuation would not know which locals there are
    if step.target is not None:
        extra = _jump_part(row, step, position, depth, at)
    after: list[Any] = []
    if step.name not in JUMPS_AWAY:
        effect = _effect(row, step)
        after = continue_with(position, last + 1, depth + effect, at)
    label = bc.Label()
    if opened is not None:
        begin = bc.TryBegin(opened.target, opened.push_lasti, opened.stack_depth)
        copied = [begin, *copied, bc.TryEnd(begin)]
    body.extend([label, *copied, *after, *extra])
    start(body, position, label, line)
    return assemble(body, code, "step")


def _effect(row: bc.Instr, step: Instruction) -> int:
    """How the stack's depth changes when the instruction does not jump."""
    if step.name == Opcode.CALL:
        return -(step.arg + 1)
    has_argument = row.opcode >= dis.HAVE_ARGUMENT
    return dis.stack_effect(row.opcode, step.arg if has_argument else None, jump=False)


def _open_try(body: bc.Bytecode, place: int) -> Any:
    opened = None
    for row in body[:place]:
        if isinstance(row, bc.TryBegin):
            opened = row
        elif isinstance(row, bc.TryEnd) and row.entry is opened:
            opened = None
    return opened


def _jump_part(row: Any, step: Any, position: ResumePoint, depth: int, at: Any) -> list[Any]:
    """Sends the jump of the instruction to a continuation of its own."""
    if step.name in NO_BREAKS:
        raise SkipFrame(f"a break at {step.name}")
    label = bc.Label()
    row.set(VERSION.forward.get(row.name, row.name), label)  # what continues a loop stands behind it here
    target = step.target
    effect = dis.stack_effect(row.opcode, step.arg, jump=True)
    rows: list[Any] = [label]
    if step.name == Opcode.FOR_ITER:
        rows += [bc.Instr(name, location=at) for name in VERSION.loop_end]
        target += len(VERSION.loop_end)
        effect = -1
    return [*rows, *continue_with(position, target, depth + effect, at)]


def continue_with(position: ResumePoint, index: int, depth: int, at: Any) -> list[Any]:
    """Instructions that call the continuation at `index` with the stack and the live locals, and return its result."""
    code = position.code
    kept = min(depth, len(position.nulls))
    nulls = tuple(position.nulls[:kept]) + (False,) * (depth - kept)
    consumed = len(position.nulls) - kept
    if consumed < 0:
        raise SkipFrame("a break changes the stack in a way that is not known")
    nulls = tuple(flag and place < kept for place, flag in enumerate(nulls))
    step = decode(code).instructions[position.index]
    if nulls and step.name not in (Opcode.FOR_ITER,):
        nulls = _after(position, nulls)
    live = live_locals(code, index)
    names = tuple(name for name in position.locals if name in live or name == first_name(code))
    after = ResumePoint(code, index, nulls, names)
    made = continuation(after)
    cells = code.co_freevars
    constant: Any = made
    rows: list[Any] = [
        bc.Instr(Opcode.STORE_FAST, f"stack{place}_", location=at) for place in range(depth - 1, -1, -1)
    ]
    function: list[Any] = [bc.Instr(VERSION.closure, bc.FreeVar(name), location=at) for name in cells]
    if cells:
        function.append(bc.Instr(Opcode.BUILD_TUPLE, len(cells), location=at))
    function.append(bc.Instr(Opcode.LOAD_CONST, constant, location=at))
    function += VERSION.function_made(bool(cells), at)
    given = parameters(after)
    arguments = [row for name in given for row in _taken(name, at)]
    rows += VERSION.called(function, arguments, len(given), at)
    rows.append(bc.Instr(Opcode.RETURN_VALUE, location=at))
    return rows


def _after(position: ResumePoint, nulls: tuple[bool, ...]) -> tuple[bool, ...]:
    """What an instruction pushed is no NULL: the result of a call stands where the call's NULL was."""
    instructions = decode(position.code).instructions
    last = position.index
    while instructions[last].name in CALL_PARTS:
        last += 1
    step = instructions[last]
    popped = popped_by_call(step.name, step.arg)
    if popped is None:
        return nulls
    below = len(position.nulls) - popped
    return (*nulls[:below], *(False for _ in nulls[below:]))
