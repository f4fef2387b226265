"""Calls of one function for one module of a list after the other: those that are a loop over the list.

for layer, stride in zip(range(1, 12), (2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2), strict=True):
    hidden_states = conv_layer(self.conv_layers[layer], hidden_states, stride=stride)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from longhand.lower.ir import View
from longhand.schedule.functions.alike_numbers import Number
from longhand.schedule.functions.call_records import SharedCall
from longhand.schedule.layers.model_steps import ModelStep, plain_steps
from longhand.schedule.plan import Release, UnitPlan, buffers_made, buffers_read

FEWEST_OF_PART = 3  # calls that are a loop over a part of a list; over a whole one two are


@dataclasses.dataclass(frozen=True)
class CallOfMany:
    """A call that may be one of several in a loop.

    Attributes:
        function: What is called.
        owner: The path of the list that holds the module.
        position: The module's place in it.
        tensors: The variables of what else it is given.
        numbers: (parameter, what it is given for it).
        targets: The variables of its results.
        channels: By parameter: which of the tensors tells it, by how many channels it has.
        is_handed_on: Whether nothing but the next call reads what it makes: a loop keeps the last one's alone.
    """

    function: str
    owner: str
    position: int
    tensors: tuple[str, ...]
    numbers: tuple[tuple[str, Number], ...]
    targets: tuple[str, ...]
    channels: Mapping[str, int] = dataclasses.field(default_factory=dict)
    is_handed_on: bool = True


@dataclasses.dataclass(frozen=True)
class CallLoop:
    """Calls that are one loop.

    Attributes:
        calls: In order, of one module after the other.
        is_whole: Whether they are all of the list.
        differing: By parameter: the numbers that are not the same in all calls.
    """

    calls: tuple[CallOfMany, ...]
    is_whole: bool
    differing: dict[str, tuple[Number, ...]]


def find_call_loops(
    calls: Sequence[CallOfMany | None], n_held: Callable[[str], int], variables: Collection[str]
) -> dict[int, CallLoop]:
    """The loops, by the place of the first call.

    Args:
        calls: What a function does, one after the other; None for what is no such call by itself.
        n_held: How many modules the list of a path holds.
        variables: The function's: a loop would bind the number of that name in place of one.
    """
    loops: dict[int, CallLoop] = {}
    place = 0
    while place < len(calls):
        run = _run_from(calls, place)
        is_whole = bool(run) and len(run) == n_held(run[0].owner)
        differing = _differing(run)
        is_free = all(word not in variables for word in differing)
        if is_free and len(run) >= (2 if is_whole else FEWEST_OF_PART):
            loops[place] = CallLoop(tuple(run), is_whole, differing)
            place += len(run)
        else:
            place += 1
    return loops


@dataclasses.dataclass(frozen=True)
class CallsOfFunction:
    """What becomes of what the calls in a function make.

    Attributes:
        plan: The unit's: what is saved for a backward pass is one of its results.
        calls: By the first of the steps that they stand for.
        variables: The variable of each buffer.
        returned: The variables that the function returns.
    """

    plan: UnitPlan
    calls: Mapping[int, SharedCall]
    variables: Mapping[str, str]
    returned: Collection[str]

    def is_handed_on(self, call: SharedCall, later: Sequence[ModelStep]) -> bool:
        """Whether nothing but the call that comes next reads what a call makes; `later` is what is done behind it."""
        n_dropped = next((n for n, step in enumerate(later) if not isinstance(step, Release)), len(later))
        following = self.calls.get(id(later[n_dropped])) if n_dropped < len(later) else None
        behind = later[n_dropped + (following.n_steps if following else 0) :]
        plain = [one for step in behind if not isinstance(step, Release) for one in plain_steps(step)]
        read = {name for one in plain for name in buffers_read(one)}
        read |= {result.buffer for result in self.plan.results if isinstance(result, View)}
        rebound = {
            self.variables.get(name)
            for step in later
            for one in plain_steps(step)
            for name in buffers_made(one)
        }
        ends = {name for name in call.results if self.variables[name] in {*self.returned} - rebound}
        return not read.intersection(call.results) and not ends


def _run_from(calls: Sequence[CallOfMany | None], start: int) -> list[CallOfMany]:
    """The calls from a place on that are one in a loop."""
    run: list[CallOfMany] = []
    for call in calls[start:]:
        if call is None or (run and not _follows(run, call)):
            break
        run.append(call)
        if run[0].targets != call.targets:  # the last one hands on what it makes under another name
            break
    return run


def _follows(before: Sequence[CallOfMany], call: CallOfMany) -> bool:
    last = before[-1]
    is_next = (call.function, call.owner, call.position) == (last.function, last.owner, last.position + 1)
    same = len(call.targets) == len(last.targets) and [w for w, _ in call.numbers] == [
        w for w, _ in last.numbers
    ]
    same = same and dict(call.channels) == dict(last.channels) and last.is_handed_on
    if not is_next or not same or len(call.tensors) != len(last.tensors):
        return False
    pairs = zip(call.tensors, last.tensors, strict=True)
    if len(before) > 1:
        return call.tensors == last.tensors
    # What the first call is given is bound to the variable that the others read, before the loop.
    return all(one == other or one in last.targets for one, other in pairs)


def _differing(calls: Sequence[CallOfMany]) -> dict[str, tuple[Number, ...]]:
    columns = (
        {
            word: tuple(dict(call.numbers)[word] for call in calls)
            for word, _ in calls[0].numbers
            if word not in calls[0].channels
        }
        if calls
        else {}
    )
    return {word: values for word, values in columns.items() if len(set(map(repr, values))) > 1}
