"""Random numbers are drawn in the user's order, and also where nothing reads them: what comes later has eager's."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import longhand
from longhand.errors import UntidyWarning

Call = Callable[[torch.Tensor], tuple[torch.Tensor, ...]]

CALLS: dict[str, Call] = {
    "what waits for a kernel comes first": lambda x: (
        F.dropout(x.exp() * 2, 0.5).sum(),
        torch.rand(3) * F.dropout(x, 0.5),
    ),
    "a choice, then dropout": lambda x: (torch.multinomial(x.detach().abs(), 2), F.dropout(x, 0.5)),
    "dropout that nothing reads": lambda x: (F.dropout(x, 0.5), x * 2)[1:],
    "noise that nothing reads": lambda x: (torch.rand_like(x), torch.randperm(4), F.dropout(x, 0.3))[2:],
    "what is drawn is returned": lambda x: (
        torch.randn(3),
        torch.randperm(4),
        torch.randn_like(x, device="cpu"),
        x * 2,
    ),
    "nothing but draws": lambda x: (torch.rand(3),),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
def test_random_numbers_are_eagers(name: str, trains: bool, frontend: str) -> None:
    found = []
    for call in (CALLS[name], longhand.compile(CALLS[name], frontend=frontend)):
        x = torch.linspace(-1, 1, 12).view(4, 3).requires_grad_(trains)
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntidyWarning)
            results = call(x)
        found.append([*[one.detach() for one in results], torch.rand(1)])
    torch.testing.assert_close(*found)
