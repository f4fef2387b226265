"""What is known of a value is known in its own type: whole numbers wrap around in theirs, a filling is cast."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import longhand

Call = Callable[[torch.Tensor], torch.Tensor]


def everywhere() -> torch.Tensor:
    return torch.ones(4, 4, dtype=torch.bool)


CALLS: dict[str, Call] = {
    "a sum past the end": lambda x: x + ((torch.arange(4, dtype=torch.int32) + 2147483646) > 0),
    "a product past the end": lambda x: x + ((torch.arange(4) * 2**62) >= 0),
    "a sum of sums past the end": lambda x: x + (torch.full((4,), 2**30, dtype=torch.int32).cumsum(0) > 0),
    "a difference past the end": lambda x: x + ((-2 - torch.arange(4, dtype=torch.int32) * 2**30) < 0),
    "bools filled with a number": lambda x: (
        x + (everywhere().masked_fill(everywhere(), 0) & (torch.arange(4) > 1))
    ),
    "numbers rounded where all are filled": lambda x: (
        x + torch.zeros(4, 4).masked_fill(everywhere(), 0.1).double()
    ),
    "numbers rounded where all are chosen": lambda x: (
        x + torch.where(everywhere(), 0.1, torch.zeros(4, 4)).double()
    ),
    "positions chosen among fractions": lambda x: (
        x + torch.where(torch.ones(4, dtype=torch.bool), torch.arange(4), torch.full((4,), 0.5)) / 2
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_known_numbers_are_eagers(name: str) -> None:
    call, x = CALLS[name], torch.linspace(-1, 1, 16, dtype=torch.float64).view(4, 4)
    torch.testing.assert_close(longhand.compile(call)(x), call(x), rtol=1e-12, atol=1e-12)
