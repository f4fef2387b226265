"""Calls of one function for one module of a list after the other: those that are a loop over the list.

for layer, stride in zip(range(1, 12), (2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2), strict=True):
    hidden_states = conv_layer(self.conv_layers[layer], hidden_states, stride=stride)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from longhand.schedule.functions.alike_numbers import Number

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
    """

    function: str
    owner: str
    position: int
    tensors: tuple[str, ...]
    numbers: tuple[tuple[str, Number], ...]
    targets: tuple[str, ...]
    channels: Mapping[str, int] = dataclasses.field(default_factory=dict)


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
    same = same and dict(call.channels) == dict(last.channels)
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
