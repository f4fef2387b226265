"""Functions that CPython calls, and whose first calls do nothing with tensors: later ones are captured all the same."""

import re

import torch

from tests.capture.bytecode.running import Captured

X = torch.ones(3)


class Calling:
    """A call that capture leaves to CPython (re.sub calls back), and what it calls."""

    def __init__(self):
        self.is_on, self.result = False, X

    def part(self, match):
        if self.is_on:
            self.result = self.result * 2 + 1
        return ""

    def run(self):
        re.sub("a", self.part, "a")
        return self.result


def seen_in(calls):
    """(graphs of the part after each call, what was told) of calls that are on or off."""
    owner = Calling()
    captured = Captured(owner.run)
    counts = []
    for owner.is_on in calls:
        captured()
        counts.append(sum(event.kind.value == "graph" and "part" in event.text for event in captured.events))
    torch.testing.assert_close(owner.result, expected(calls))
    return counts, [event.text for event in captured.events if event.kind.value == "eager"]


def expected(calls):
    result = X
    for is_on in calls:
        result = result * 2 + 1 if is_on else result
    return result


def test_a_function_whose_first_calls_do_nothing_is_captured_later():
    counts, told = seen_in([False, True])
    assert counts == [0, 1] and not told
    counts, told = seen_in([False, False, False, True, True, True])
    assert counts[-1] == 1 and not told


def test_a_call_that_does_nothing_closes_no_function_that_has_graphs():
    owner = Calling()
    captured = Captured(owner.run)
    for owner.is_on, n in ((True, 3), (False, 3), (True, 4), (False, 4), (True, 5)):
        owner.result = torch.ones(n, n)[0] if n == 5 else torch.ones(n)
        captured()
    assert sum(event.kind.value == "graph" and "part" in event.text for event in captured.events) >= 2


def test_what_never_does_anything_is_cpythons_in_the_end_and_that_is_told():
    _, told = seen_in([False] * 40)
    assert len(told) == 1 and "did anything with tensors" in told[0]
