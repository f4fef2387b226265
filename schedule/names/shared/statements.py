"""Statements of the user's that some of the layers come from, and others do not: the norm behind the last one."""

from __future__ import annotations

from collections.abc import Sequence

from longhand.lower.ir import Extern
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.call_frames import own_origins
from longhand.schedule.plan import Launch, PlanStep

Statement = tuple[str, str]  # the function's qualified name, and what stands there


def statements_of_some(
    runs: Sequence[Sequence[PlanStep]], pattern: int, words: BufferNamer
) -> dict[int, frozenset[Statement]]:
    """By the identity of a step of the run that a function is printed from: what it alone would say of it.

    Args:
        runs: Equal steps, of all layers that are called by the function.
        pattern: Which of them it is printed from.
        words: The captured graph's.
    """
    if len({len(run) for run in runs}) > 1:
        return {}
    found: dict[int, frozenset[Statement]] = {}
    for place, step in enumerate(runs[pattern]):
        said = [_statements(run[place], words) for run in runs]
        if said[pattern]:
            found[id(step)] = said[pattern] - frozenset.intersection(*said)
    return {step: statements for step, statements in found.items() if statements}


def _statements(step: PlanStep, words: BufferNamer) -> frozenset[Statement]:
    match step:
        case Launch():
            origins: Sequence[str] = own_origins(step.origins, words.nodes)
        case Extern():
            origins = (step.origin,)
        case _:
            return frozenset()
    known = map(words.provenance, origins)
    return frozenset((where.qualname, where.statement) for where in known if where.statement)
