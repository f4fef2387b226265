"""A break in a loop that will come again at each turn: CPython runs what is left of the loop, then the rest goes on.

Where a turn depends on what a tensor holds (which experts were chosen, and by how many tokens), a capture of its pieces
serves that turn of that call and no other. What the loop calls is captured for itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from types import CodeType

import bytecode as bc
from bytecode.instr import InstrLocation

from longhand.capture.bytecode.entry import resume
from longhand.capture.bytecode.entry.resume import ResumePoint, live_locals, original_position
from longhand.capture.bytecode.frames.frame import Instruction, decode
from longhand.capture.bytecode.versions.opcodes import BRANCHES, Opcode
from longhand.capture.bytecode.versions.running import VERSION

__all__ = ["UserLoop", "loop_around", "loop_code"]

_GENERATORS = 0x20 | 0x80 | 0x200


@dataclasses.dataclass(frozen=True)
class UserLoop:
    """A loop of a user's code.

    Attributes:
        end: The first instruction after it, where it is not left by a ``break``; of a ``while True`` where it is.
        depth: How much is on the stack there.
        made: Locals that each way to its end sets first.
    """

    end: int
    depth: int
    made: frozenset[str]


@functools.lru_cache(maxsize=1024)  # a forgotten code's loops are learned anew
def _depths(code: CodeType) -> dict[int, int]:
    """The beginnings of turns of a code that ran, and how deep the stack was there: as deep as at any time."""
    return {}


def loop_around(position: ResumePoint, running: CodeType, depths: Mapping[int, int]) -> UserLoop | None:
    """The outermost loop around a place whose rest CPython can run; None if there is none.

    Args:
        position: The place, in the user's code.
        running: The code that is interpreted: the user's, or a continuation of it.
        depths: How deep the stack is at the beginnings of turns of that code that ran.
    """
    code = position.code
    known = _depths(code)
    known.update((original_position(running, at)[1], depth) for at, depth in depths.items())
    if code.co_flags & _GENERATORS:
        return None
    steps = decode(code).instructions
    for head, depth in sorted(known.items()):
        last = max((at for at, step in enumerate(steps) if step.target == head and at > head), default=-1)
        end = _end(steps, head, last) if head <= position.index <= last else None
        if end is None:
            continue
        is_for = steps[head].name == Opcode.FOR_ITER
        before, after = live_locals(code, position.index), live_locals(code, end)
        missing = (after & before) - set(position.locals) - set(code.co_cellvars)
        deleted = {step.argval for step in steps[head:last] if step.name == Opcode.DELETE_FAST}
        kept = depth - is_for  # the iterator goes
        if missing or deleted & after:
            return None
        return UserLoop(end, kept, after - before)
    return None


def _end(steps: Sequence[Instruction], head: int, last: int) -> int | None:
    """The first instruction after a loop, whose turns begin at `head` and end at `last`; None where none is known."""
    if (target := steps[head].target) is not None and steps[head].name == Opcode.FOR_ITER:
        return target + len(VERSION.loop_end)
    tests = (
        step for step in steps[head : last + 1] if step.name in BRANCHES or step.name == Opcode.JUMP_FORWARD
    )
    ways = [step.target for step in tests if step.target is not None and step.target > last]
    if steps[last].name in BRANCHES:  # the test is below the loop's body
        ways.append(last + 1)
    return min(ways, default=None)


@functools.lru_cache(maxsize=1024)
def loop_code(position: ResumePoint, loop: UserLoop) -> CodeType:
    """The function that runs what is left of a loop, then what continues."""
    code = position.code
    body, places = resume.body_of(code)
    line = decode(code).instructions[position.index].line
    at = InstrLocation(line, None, None, None)
    begins, ends = bc.Label(), bc.Label()
    known = dataclasses.replace(position, locals=tuple(sorted({*position.locals, *loop.made})))
    # Outside of all try blocks: what the continuation raises is none of this function's business.
    body.extend([ends, *resume.continue_with(known, loop.end, loop.depth, at)])
    body.insert(places[loop.end], bc.Instr(Opcode.JUMP_FORWARD, ends, location=at))
    body.insert(places[position.index], begins)  # lies before it
    resume.start(body, position, begins, line)
    return resume.assemble(body, code, "loop")
