"""Layers of several kinds in turn: which of their calls are rounds of a loop.

for layer in range(0, 8, 2):
    x = self.layers[layer](x, window)
    x = self.layers[layer + 1](x)
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class TurnCall:
    """The call of one layer.

    Attributes:
        position: Of the layer in its list.
        says: What is called, what it is given and what its results are called, in words: equal for calls that differ
            in the place of the layer alone.
        names_layer: Whether that place is said in it.
    """

    position: int
    says: tuple[object, ...]
    names_layer: bool = True


@dataclasses.dataclass(frozen=True)
class Rounds:
    """Calls that repeat, or a single one.

    Attributes:
        start: The number of the first call.
        n_calls: How many there are.
        period: How many of them are a round.
        positions: The places of the layers in the order of the list: from the lowest on.
        lowest: The lowest place in the first round.
        is_reversed: Whether the layers run from the last one on.
        names_layer: Whether any of them says the place of its layer.
    """

    start: int
    n_calls: int
    period: int
    positions: range
    lowest: int
    is_reversed: bool
    names_layer: bool

    @property
    def is_loop(self) -> bool:
        """Whether they repeat."""
        return self.n_calls > self.period


def find_rounds(calls: Sequence[TurnCall]) -> list[Rounds]:
    """All calls in order, as the longest rounds that begin at each."""
    rounds: list[Rounds] = []
    begin = 0
    while begin < len(calls):
        n_calls, period = _longest(calls, begin)
        within = calls[begin : begin + n_calls]
        low = min(call.position for call in within)
        rounds.append(
            Rounds(
                begin,
                n_calls,
                period,
                range(low, low + n_calls),
                min(call.position for call in within[:period]),
                n_calls > 1 and within[1].position < within[0].position,
                any(call.names_layer for call in within[:period]),
            )
        )
        begin += n_calls
    return rounds


def _longest(calls: Sequence[TurnCall], begin: int) -> tuple[int, int]:
    """(how many calls from `begin` on are rounds, how many calls a round has); a single call is none."""
    best = (1, 1)
    for period in range(1, (len(calls) - begin) // 2 + 1):
        end = begin + period
        while end < len(calls) and calls[end].says == calls[end - period].says:
            end += 1
        length = (end - begin) // period * period
        if length >= 2 * period and length > best[0] and _are_in_order(calls[begin : begin + length]):
            best = (length, period)
    return best


def _are_in_order(calls: Sequence[TurnCall]) -> bool:
    steps = {other.position - one.position for one, other in itertools.pairwise(calls)}
    return steps in ({1}, {-1})
