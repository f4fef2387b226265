"""A unit and eager are compared without TF32, which cuDNN takes for one's convolutions and not for the other's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from longhand.factory import Call
from longhand.verify import eager_check
from longhand.verify.convolutions import without_tf32

SEEN: list[bool] = []


class Told(nn.Module):
    """Notes what is allowed while it runs: the model, and a unit of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        SEEN.append(torch.backends.cudnn.allow_tf32)
        return x * 2


@pytest.fixture(autouse=True)
def allowed() -> None:
    torch.backends.cudnn.allow_tf32 = True


@pytest.mark.parametrize("trains", [False, True])
def test_no_call_that_is_compared_may_take_tf32(trains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager_check, "_trains", lambda folder: trains)
    SEEN.clear()
    call = Call(Told(), (torch.ones(3, requires_grad=trains),), {})
    rows = eager_check.compare_whole(Path(), Told, call)
    n_compared = len(SEEN)
    eager_check.eager_noise(Path(), call, {"result": 1.0})
    assert 2 < n_compared < len(SEEN)
    assert not any(SEEN)
    assert all(row.is_right for row in rows)
    assert torch.backends.cudnn.allow_tf32


def test_what_was_allowed_is_allowed_again_after_an_error() -> None:
    with pytest.raises(KeyError), without_tf32():
        raise KeyError
    assert torch.backends.cudnn.allow_tf32


def test_where_convolutions_have_a_precision_of_their_own() -> None:
    try:
        torch.backends.cudnn.conv.fp32_precision = "tf32"
        torch.backends.cudnn.rnn.fp32_precision = "ieee"
        with without_tf32():
            assert torch.backends.cudnn.conv.fp32_precision == "ieee"
            assert torch.backends.cudnn.rnn.fp32_precision == "ieee"
        assert torch.backends.cudnn.conv.fp32_precision == "tf32"
    finally:
        torch.backends.cudnn.allow_tf32 = True
