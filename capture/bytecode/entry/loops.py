"""A break in a loop that will come again at each turn: CPython runs what is left of the loop, then the rest goes on.

Where a turn depends on what a tensor holds (which experts were chosen, and by how many tokens), a capture of its pieces
serves that turn of that call and no other. What the loop calls is captured for itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from types import CodeType

import bytecode as bc
from bytecode.instr import InstrLocation

from longhand.capture.bytecode.entry import resume
from longhand.capture.bytecode.entry.resume import ResumePoint, live_locals, original_position
from longhand.capture.bytecode.frames.frame import decode
from longhand.capture.bytecode.versions.opcodes import Opcode
from longhand.capture.bytecode.versions.running import VERSION

__all__ = ["UserLoop", "loop_around", "loop_code"]

_GENERATORS = 0x20 | 0x80 | 0x200


@dataclasses.dataclass(frozen=True)
class UserLoop:
    """A ``for`` loop of a user's code.

    Attributes:
        end: The first instruction after it, where it is not left by a ``break``.
        depth: How much is on the stack there.
        made: Locals that each way to its end sets first.
    """

    end: int
    depth: int
    made: frozenset[str]


@functools.lru_cache(maxsize=1024)  # a forgotten code's loops are learned anew
def _depths(code: CodeType) -> dict[int, int]:
    """The FOR_ITERs of a code that ran, and how deep the stack was there: as deep as at any time."""
    return {}


def loop_around(position: ResumePoint, running: CodeType, depths: Mapping[int, int]) -> UserLoop | None:
    """The outermost loop around a place whose rest CPython can run; None if there is none.

    Args:
        position: The place, in the user's code.
        running: The code that is interpreted: the user's, or a continuation of it.
        depths: How deep the stack is at the FOR_ITERs of that code that ran.
    """
    code = position.code
    known = _depths(code)
    known.update((original_position(running, at)[1], depth) for at, depth in depths.items())
    if code.co_flags & _GENERATORS:
        return None
    steps = decode(code).instructions
    for head, depth in sorted(known.items()):
        last = max((at for at, step in enumerate(steps) if step.target == head and at > head), default=-1)
        target = steps[head].target
        if not head <= position.index <= last or target is None:
            continue
        end = target + len(VERSION.loop_end)
        before, after = live_locals(code, position.index), live_locals(code, end)
        missing = (after & before) - set(position.locals) - set(code.co_cellvars)
        deleted = {step.argval for step in steps[head:last] if step.name == Opcode.DELETE_FAST}
        if missing or deleted & after or any(position.nulls[: depth - 1]):
            return None
        return UserLoop(end, depth - 1, after - before)
    return None


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
