"""Two kinds of layers in turn that end alike: sliding and global attention, say, before the same experts.

What comes last in both, and is the same but for the layers' own weights, is one function of their classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from longhand.lower.ir import Buffer
from longhand.schedule.layers.model_steps import Loop, LoopTail
from longhand.schedule.layers.peeled_first import find_first_run, read_from_outside
from longhand.schedule.plan import buffers_made


def with_shared_tails(
    loops: Mapping[int, Loop], outside: frozenset[str], memory: Mapping[str, Buffer]
) -> dict[int, Loop]:
    """The kinds of layers, told where they begin to do the same.

    Args:
        loops: Each kind's layers.
        outside: What the whole pass is given, which is the same for all.
        memory: The plan's buffers.
    """
    if len(loops) != 2 or any(loop.alternatives or loop.record or loop.own for loop in loops.values()):
        return dict(loops)
    if any(loop.repeat.numbers for loop in loops.values()):
        return dict(loops)
    (kind, first), (other_kind, other) = loops.items()
    paths = {path: name for name, path in other.own_inputs.items()}
    stands_for = {name: name for name in outside} | {
        name: paths.get(path, "") for name, path in first.own_inputs.items()
    }
    shared = find_first_run(other.run, first.run, stands_for, memory)
    if shared is None:
        return dict(loops)
    one, two = _tail(first, shared.n_head), _tail(other, shared.n_before)
    same = [
        [shared.buffers.get(name) for name in one.inputs] == list(two.inputs),
        [shared.buffers.get(name) for name in one.outputs] == list(two.outputs),
        bool(one.outputs and one.inputs),
    ]
    if not all(same):
        return dict(loops)
    return {kind: dataclasses.replace(first, tail=one), other_kind: dataclasses.replace(other, tail=two)}


def without_tails_called_inside(loops: Mapping[int, Loop]) -> dict[int, Loop]:
    """The kinds without what they do alike, if the layer before them calls one from a place in the middle of that."""
    if any(loop.tail is not None and loop.n_head >= loop.tail.start for loop in loops.values()):
        return {kind: dataclasses.replace(loop, tail=None) for kind, loop in loops.items()}
    return dict(loops)


def _tail(loop: Loop, start: int) -> LoopTail:
    steps = loop.run[start:]
    made = {name for step in steps for name in buffers_made(step)}
    inputs = read_from_outside(steps, frozenset(loop.own_weights))
    return LoopTail(start, inputs, tuple(name for name in loop.outputs if name in made))
