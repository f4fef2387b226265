"""What a backward pass keeps for the calls of one function: a list for each, in place of a variable for each tensor.

d_x, d_conv_weight = conv_norm_act_backward(d_x, stride=2, **vars(saved.conv_norm_acts.pop()))

The forward pass keeps what one module's derivative reads side by side, in the order of the modules; the last one's is
taken first. So a call is a line, and memory is dropped where the function returns.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence

from longhand.schedule.functions.call_records import SharedCall
from longhand.schedule.layers.model_steps import ModelStep, plain_steps
from longhand.schedule.layers.saved_layers import SAVED
from longhand.schedule.names.reached import Reached
from longhand.schedule.names.words import first_free, further_names
from longhand.schedule.plan import buffers_read

FEWEST_CALLS = 2
FEWEST_KEPT = 2  # tensors that are worth a list


@dataclasses.dataclass(frozen=True)
class ListForCalls:
    """What the forward pass keeps for the calls of one function.

    Attributes:
        word: The list.
        function: What is called.
        n_before: How many tensors a call is given besides, before these.
        own: For each call, that of the first module first: placeholders of the backward graph.
    """

    word: str
    function: str
    n_before: int
    own: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class ListedCalls:
    """A backward pass whose calls are given lists.

    Attributes:
        calls: By the first of the steps that they stand for.
        lists: In the order in which they are saved.
        single: Placeholders that are read beside those calls.
    """

    calls: dict[int, SharedCall]
    lists: tuple[ListForCalls, ...]
    single: frozenset[str]


def lists_for_calls(
    steps: Sequence[ModelStep],
    calls: Mapping[int, SharedCall],
    kept: frozenset[str],
    returned: frozenset[str],
    names: Mapping[str, str],
    taken: Collection[str],
) -> ListedCalls:
    """The calls, and what is kept for those of them that take a list.

    Args:
        steps: Of the function that computes the gradients.
        calls: By the first of the steps that they stand for.
        kept: What the forward pass keeps.
        returned: What the function returns.
        names: By function: what the list is to be called.
        taken: Words that no list may have.
    """
    outer: dict[str, list[int]] = {}  # by function: the first steps of its calls, in order
    beside: set[str] = set()
    done = 0
    for place, step in enumerate(steps):
        call = calls.get(id(step))
        if place >= done and call is not None:
            done = place + call.n_steps
            outer.setdefault(call.name, []).append(id(step))
        elif place >= done:
            beside.update(name for plain in plain_steps(step) for name in buffers_read(plain))
    listed_calls = dict(calls)
    lists: list[ListForCalls] = []
    listed: list[int] = []
    used = {*taken}
    for function, firsts in outer.items():
        given = [calls[first].tensors for first in firsts]
        n_listed = _last_kept(given, kept) if len(firsts) >= FEWEST_CALLS else 0
        if n_listed < FEWEST_KEPT:
            n_listed = 0
        beside.update(name for one in given for name in one[: len(one) - n_listed] if name in kept)
        if not n_listed:
            continue
        own = [one[len(one) - n_listed :] for one in given]
        word = first_free(itertools.chain([names[function]], further_names(names[function])), used)
        used.add(word)
        lists.append(ListForCalls(word, function, len(given[0]) - n_listed, tuple(own[::-1])))
        listed += firsts
        for first in firsts:
            listed_calls[first] = _given_list(calls[first], word, n_listed)
    single = (frozenset(beside) | returned) & kept
    for first in listed:  # what has no variable is dropped nowhere
        gone = frozenset(calls[first].tensors) & kept - single
        listed_calls[first] = dataclasses.replace(listed_calls[first], made=listed_calls[first].made | gone)
    return ListedCalls(listed_calls, tuple(lists), single)


def _last_kept(given: Sequence[tuple[str, ...]], kept: frozenset[str]) -> int:
    """How many of the last tensors are kept ones in every call: one module may make what another one keeps."""
    columns = zip(*(reversed(one) for one in given), strict=True)
    return sum(1 for _ in itertools.takewhile(kept.issuperset, columns))


def _given_list(call: SharedCall, word: str, n_listed: int) -> SharedCall:
    """The call with a list in the place of the last tensors, which the forward pass keeps for it."""
    tensors = call.tensors[: len(call.tensors) - n_listed]
    channels = {number: place for number, place in call.channels.items() if place < len(tensors)}
    return dataclasses.replace(
        call, tensors=tensors, channels=channels, taken_from=Reached.field_of(SAVED, word)
    )
