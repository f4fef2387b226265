"""Weights, buffers and constants that do not lie in memory as a new tensor of their shape would."""

import warnings

import pytest
import torch
from torch import nn

import longhand
from tests.models.fresh_state import differences


class Transposed(nn.Module):
    """A weight that is another one's transpose: read by a library and by kernels."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16).t())

    def forward(self, x):
        return torch.tanh(x @ self.weight) * self.weight.sum(0) + x[:, :8] * self.weight[:3]


class Buffers(nn.Module):
    """A transposed table in the state_dict, a transposed one that is not, and one that repeats a row."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(8, 3).t())
        self.register_buffer("turned", torch.randn(8, 3).t(), persistent=False)
        self.register_buffer("positions", torch.arange(8.0).expand(3, 8), persistent=False)

    def forward(self, x):
        return torch.tanh(x + self.positions) * self.table - self.turned.exp()


def channels_last_convolution():
    model = nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 5, 1))
    return model.to(memory_format=torch.channels_last)


MODELS = {
    "transposed": (Transposed, lambda: torch.randn(3, 16)),
    "buffers": (Buffers, lambda: torch.randn(3, 8)),
    "channels last": (channels_last_convolution, lambda: torch.randn(2, 4, 9, 9)),
    "channels last, and so are the images": (
        channels_last_convolution,
        lambda: torch.randn(2, 4, 9, 9).to(memory_format=torch.channels_last),
    ),
}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("name", ["transposed", "channels last"])
@pytest.mark.parametrize("train", [False, True])
def test_units_with_weights_loaded(name, train, tmp_path):
    make, inputs = MODELS[name]
    assert not differences(make(), ((inputs(),), {}), tmp_path / "unit", train=train)


def test_units_with_buffers_of_their_own(tmp_path):
    assert not differences(Buffers(), ((torch.randn(3, 8),), {}), tmp_path / "unit")


@pytest.mark.parametrize("name", MODELS)
def test_units_on_the_users_own_memory(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make, inputs = MODELS[name]
    model, x = make().eval().requires_grad_(False), inputs()
    compiled = longhand.compile(model, options={"strict": True})
    for change in (1.0, 1.5):  # the unit reads the model's memory, not a copy
        for parameter in model.parameters():
            parameter.mul_(change)
        torch.testing.assert_close(compiled(x), model(x))


def test_a_library_call_that_only_raises_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled = longhand.compile(lambda a, b: torch.linalg.solve(a + 1, b) * 2)
    a, b = torch.randn(4, 4), torch.randn(4, 2)
    torch.testing.assert_close(compiled(a, b), torch.linalg.solve(a + 1, b) * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", longhand.errors.EagerWarning)
        with pytest.raises(torch.linalg.LinAlgError, match="singular"):
            compiled(torch.zeros(4, 4), b)
