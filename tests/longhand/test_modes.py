"""A unit is for the mode that its model was captured in, where the model computes otherwise in the other one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.capture.modes import mode_of
from longhand.loading import bound


class Asks(nn.Module):
    """Reads its mode in code of its own."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return F.dropout(self.fc(x), 0.5, self.training)


class Plain(nn.Module):
    """Is the same in both modes."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.0)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(self.drop(self.fc(x)))


MODELS = {
    "dropout": lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)),
    "batch norm": lambda: nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)),
    "code that asks": Asks,
}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_the_other_mode_is_an_error_that_says_what_to_do(name, train, tmp_path):
    torch.manual_seed(0)
    model, x = MODELS[name]().train(train), torch.randn(4, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=train)
    made = longhand.load(tmp_path / "unit")
    unit = made()
    unit.load_state_dict(model.state_dict())
    with torch.set_grad_enabled(train):
        unit(x)  # new, it is in its own mode
        for other in (unit.train(not train), bound(made, model.train(not train))):
            with pytest.raises(
                RuntimeError, match=r"call eval\(\), or .* --train" if not train else r"call train\(\)"
            ):
                other(x)
            other.train(train)(x)


def test_a_model_that_is_the_same_in_both_modes_runs_in_both(tmp_path):
    model, x = Plain().eval(), torch.randn(4, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit")
    unit = bound(longhand.load(tmp_path / "unit"), model)
    with torch.no_grad():
        assert torch.equal(unit.eval()(x), unit.train()(x))


def test_what_makes_a_difference():
    assert mode_of(lambda x: x) is None
    assert mode_of(nn.BatchNorm1d(4)) is True and mode_of(nn.BatchNorm1d(4).eval()) is False
    assert mode_of(nn.BatchNorm1d(4, track_running_stats=False)) is None
    assert mode_of(nn.LSTM(4, 4, num_layers=2)) is None and mode_of(nn.LSTM(4, 4, 2, dropout=0.1)) is True
    frozen = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4).eval())
    assert mode_of(frozen) is None  # calling train() is not what it was captured with either
