"""What a backward pass computes again belongs to the module whose derivative reads it.

The activation that a convolution was given is its neighbour's, and not kept; its derivative begins with it. So the
derivative of one module stands together, although another one's operation stands in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from longhand.lower.ir import Extern
from longhand.schedule.layers.model_steps import ModelStep, plain_steps
from longhand.schedule.layers.outside import references
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.plan import Allocate, Launch, PlanStep, Reuse, buffers_read

Around = Callable[
    [PlanStep, BufferNamer], Mapping[str, str]
]  # the modules that a call stands in, and their classes


def modules_of_readers(
    steps: Sequence[ModelStep], words: BufferNamer, around: Around
) -> dict[int, dict[str, str]]:
    """By the place of each call that computes something again: the modules that all calls stand in that read it.

    Args:
        steps: Of a backward pass.
        words: The captured graph's.
        around: The modules that a call stands in.
    """
    made: dict[str, int] = {}  # by buffer: the call that makes it
    begun: set[str] = set()
    readers: dict[int, list[int]] = {}
    for place, step in enumerate(steps):
        if isinstance(step, Allocate | Reuse):
            begun.add(step.buffer)
        for name in _named(step):
            if name in made:
                readers.setdefault(made[name], []).append(place)
            elif name in begun or (isinstance(step, Extern) and name in step.outputs):
                made[name] = place
    modules: dict[int, dict[str, str]] = {}
    for place, read in readers.items():
        step = steps[place]
        if isinstance(step, Launch | Extern) and _is_again(step, words):
            each = [
                around(one, words) if isinstance(one := steps[at], Launch | Extern) else {} for at in read
            ]
            common = {path: kind for path, kind in each[0].items() if all(path in one for one in each)}
            modules[place] = common
    return modules


def _named(step: ModelStep) -> list[str]:
    if isinstance(step, Launch | Extern):
        return list(dict.fromkeys(references(step)))
    if isinstance(step, PlanStep):  # memory
        return []
    return [name for plain in plain_steps(step) for name in buffers_read(plain)]


def _is_again(step: Launch | Extern, words: BufferNamer) -> bool:
    """Whether all of a call is an operation of the forward pass."""
    origins = step.origins if isinstance(step, Launch) else (step.origin,)
    return all(origins) and not differentiates(step, words)


def differentiates(step: Launch | Extern, words: BufferNamer) -> bool:
    """Whether any of a call is a derivative."""
    origins = step.origins if isinstance(step, Launch) else (step.origin,)
    return any(origin and words.provenance(origin).differentiates for origin in origins)
