"""Which buffers a step reads and which it makes."""

from __future__ import annotations

from collections.abc import Iterator

from longhand.lower.ir import Extern
from longhand.schedule.plan import Allocate, Launch, Repeat, Reuse, UnitStep


def buffers_read(step: UnitStep) -> Iterator[str]:
    """Buffers whose contents a step uses, or that it writes into."""
    match step:
        case Launch():
            yield from step.touched
        case Extern():
            yield from (view.buffer for view in step.views())
            yield from step.measured
            yield from step.mutates
        case Reuse(of=of):
            yield of
        case Repeat(runs=runs):
            for run in runs:
                for inner in run:
                    yield from buffers_read(inner)


def buffers_made(step: UnitStep) -> tuple[str, ...]:
    """Buffers that begin with a step."""
    match step:
        case Allocate(buffer=buffer) | Reuse(buffer=buffer):
            return (buffer,)
        case Extern(outputs=outputs):
            return outputs
        case Repeat(outputs=outputs):
            return tuple(dict.fromkeys(name for run in outputs for name in run))
    return ()
