"""A unit and eager are compared without TF32, which cuDNN takes for one's convolutions and not for the other's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from longhand.factory import Call
from longhand.verify import eager_check
from longhand.verify.convolutions import without_tf32

SEEN: list[str] = []
CONV = torch.backends.cudnn.conv  # type: ignore[attr-defined]


class Told(nn.Module):
    """Notes what is allowed while it runs: the model, and a unit of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        SEEN.append(CONV.fp32_precision)
        return x * 2


@pytest.fixture(autouse=True, params=[False, True], ids=["", "frozen"])
def allowed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """TF32 is allowed; torch.testing lets nobody set these flags any more."""
    if request.param:
        monkeypatch.setattr(torch.backends, "flags_frozen", lambda: True)
    CONV.fp32_precision = "tf32"
    yield
    assert CONV.fp32_precision == "tf32"


@pytest.mark.parametrize("trains", [False, True])
def test_no_call_that_is_compared_may_take_tf32(trains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager_check, "_trains", lambda folder: trains)
    SEEN.clear()
    call = Call(Told(), (torch.ones(3, requires_grad=trains),), {})
    rows = eager_check.compare_whole(Path(), Told, call)
    n_compared = len(SEEN)
    eager_check.eager_noise(Path(), call, {"result": 1.0})
    assert 2 < n_compared < len(SEEN)
    assert "tf32" not in SEEN
    assert all(row.is_right for row in rows)


def test_what_was_allowed_is_allowed_again_after_an_error() -> None:
    with pytest.raises(KeyError), without_tf32():
        raise KeyError


def test_where_convolutions_have_a_precision_of_their_own() -> None:
    rnn = torch.backends.cudnn.rnn  # type: ignore[attr-defined]
    before, rnn.fp32_precision = rnn.fp32_precision, "ieee"
    try:
        with without_tf32():
            assert CONV.fp32_precision == rnn.fp32_precision == "ieee"
    finally:
        rnn.fp32_precision = before
