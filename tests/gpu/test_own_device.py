"""A unit whose call takes no tensor, on a GPU: weights on ``cuda:0`` are where its results are made."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import longhand
from longhand.emit.unit.loading import load_unit
from tests.emit.test_own_device import Scales

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def test_the_unit_takes_weights_on_a_numbered_device(tmp_path: Path) -> None:
    model = Scales().to("cuda:0")
    longhand.generate(model, (), out=tmp_path / "unit", device="cuda")
    ours = load_unit(tmp_path / "unit")().to("cuda:0")
    ours.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(ours(), model())
