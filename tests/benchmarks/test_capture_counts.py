"""The counts of docs/architectures.md: longhand's and Dynamo's are of the same things."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.architectures import capture_counts
from benchmarks.architectures.capture_counts import dynamo_counts, longhand_counts
from benchmarks.architectures.rows import Verdict


def helper(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print(end="")
    return y * 3


class Called(nn.Module):
    """The line breaks in what is called and, because of it, in the caller: one place."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return helper(helper(x + 1)) - 2


class First(nn.Module):
    """It breaks before the first operation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print(end="")
        return x + 1


class Branches(nn.Module):
    """Two lines with one reason are two."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x * 2
        if x.sum() > 1:
            x = x * 3
        return x + 1


class Refused(nn.Module):
    """What breaks where no graph can go on: Dynamo leaves the function to CPython."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x + 1
            print(end="")
        return x * 2


class Whole(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    ("module", "lines", "ours", "theirs"),
    [(Called, 1, 4, 4), (First, 1, 1, 1), (Branches, 2, 3, 3), (Refused, 1, 4, 0), (Whole, 0, 1, 1)],
)
def test_both_count_the_same_places(
    module: Callable[[], nn.Module], lines: int, ours: int, theirs: int, train: bool
) -> None:
    example = (module(), (torch.ones(3),), {})
    found = longhand_counts(example, train=train).numbers
    dynamo = dynamo_counts(example, train=train).numbers
    assert (found["graphs"], len(found["breaks"])) == (ours, lines), found
    assert (dynamo["graphs"], len(dynamo["breaks"])) == (theirs, lines), dynamo
    assert bool(dynamo["left"]) == (module is Refused), dynamo
    assert all(left.endswith("py:forward") for left in dynamo["left"])
    places = [[one.split(": ")[0] for one in numbers["breaks"]] for numbers in (found, dynamo)]
    assert places[0] == places[1]


class AsksWhetherCompiled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.compiler.is_compiling() else x * 3


class Draws(nn.Module):
    """From numpy's generator and Python's, and what it gives depends on how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n.add_(1)
        return x * np.random.rand() + random.random() + self.n


class WritesItsArgument(nn.Module):
    """As UDOP adds to the embeddings that it is given: what the second call is given, the first has written."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x += 1
        return x * 2


@pytest.mark.parametrize("module", [AsksWhetherCompiled, Draws, WritesItsArgument])
def test_what_differs_from_eager_for_a_reason_is_right(module: Callable[[], nn.Module]) -> None:
    assert longhand_counts((module(), (torch.ones(3),), {}), train=False).verdict is Verdict.RIGHT


def test_what_differs_from_eager_and_from_torch_compile_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_counts, "_call_captured", lambda capture, module, *args: module(*args) + 1)
    found = longhand_counts((Whole(), (torch.ones(3),), {}), train=False)
    assert found.verdict is Verdict.WRONG and "error" in found.note
