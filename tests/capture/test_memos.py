"""What a module keeps for later calls is computed in each call of a unit, where no argument decides it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import longhand
from longhand.errors import CaptureError, KeptTensorWarning


class ByDevice(nn.Module):
    """As timm's attention does: a dict of tables, by device."""

    def __init__(self) -> None:
        super().__init__()
        self.biases = nn.Parameter(torch.randn(4, 6))
        self.register_buffer("places", torch.randint(0, 6, (5,)))
        self.cache: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        if str(x.device) not in self.cache:
            self.cache[str(x.device)] = self.biases[:, self.places]
        return x.softmax(-1) + self.cache[str(x.device)]


class Cosines(nn.Module):
    """As a rotary embedding does: an attribute that is None at first, and how far it goes."""

    def __init__(self) -> None:
        super().__init__()
        self.frequency = nn.Parameter(torch.rand(1))
        self.cosines: Tensor | None = None
        self.length = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.cosines is None or self.length < x.shape[-1]:
            self.length = x.shape[-1]
            self.cosines = (torch.arange(self.length) * self.frequency).cos()
        return x * self.cosines[: x.shape[-1]]


class Registered(nn.Module):
    """As x-transformers' ALiBi does: a buffer that is registered by the call that needs it first."""

    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.rand(1))
        self.register_buffer("bias", None, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.bias is None:
            self.register_buffer("bias", torch.arange(5.0), persistent=False)
        return x + self.bias * self.slope


class Total(nn.Module):
    """Keeps what it was given."""

    total: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.total is None:
            self.total = x.sum()
        return x + self.total


class Drawn(nn.Module):
    """Keeps what it drew."""

    noise: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.noise is None:
            self.noise = torch.rand(5)
        return x + self.noise


class WrittenInto(nn.Module):
    """Writes into what it keeps."""

    seen: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.seen is None:
            self.seen = torch.zeros(5)
        self.seen.add_(x[0])
        return x + self.seen


class OtherwiseTheSecondTime(nn.Module):
    """Does something else once the table is there."""

    table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.ones(5)
            return x + self.table
        return x - self.table


class Counts(nn.Module):
    """Keeps a table, and counts its calls."""

    table: Tensor | None = None
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.table is None:
            self.table = torch.ones(5)
        return x + self.table


class Windows(nn.Module):
    """As transformers' Swin does: the first call notes that no window is shifted where one is as large as the image."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = 2

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] <= 5:
            self.shift = 0
        return x.roll(self.shift, -1) * 2.0 if self.shift else x * 3.0


class Initialized(nn.Module):
    """As ActNorm does: the first call is another one."""

    def __init__(self) -> None:
        super().__init__()
        self.is_initialized = False

    def forward(self, x: Tensor) -> Tensor:
        if not self.is_initialized:
            self.is_initialized = True
            return x * 2.0
        return x * 2.0 * 1.0


class Alternates(nn.Module):
    """Does the same in each second call."""

    def __init__(self) -> None:
        super().__init__()
        self.is_odd = False

    def forward(self, x: Tensor) -> Tensor:
        self.is_odd = not self.is_odd
        return x + 1.0 if self.is_odd else 1.0 + x


def unit_of(model: nn.Module, out: Path, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    options = {"frontend": "bytecode", **options}
    longhand.generate(model.eval(), (torch.randn(4, 5),), out=out, device="cpu", **options)
    return longhand.load(out)()


@pytest.mark.parametrize("frontend", ["bytecode", None])
@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.parametrize("kind", (ByDevice, Cosines, Registered))
def test_a_unit_computes_it_each_time(
    kind: type[nn.Module], is_warm: bool, frontend: str | None, tmp_path: Path
) -> None:
    """Also where the model was called before, and has kept it: as a constant it would outlive other weights."""
    model = kind().eval()
    if is_warm:
        with torch.no_grad():
            model(torch.randn(4, 5))
    before = {name: id(kept) for name, kept in vars(model).items()}
    unit = unit_of(model, tmp_path / "unit", frontend=frontend)
    assert {name: id(kept) for name, kept in vars(model).items()} == before  # the user's model is as it was
    x = torch.randn(4, 5)
    for scale in (1.0, -2.0):  # weights that are loaded later count, too
        weights = {
            name: value * scale if value.is_floating_point() else value
            for name, value in kind().state_dict().items()
        }
        fresh = kind().eval()
        fresh.load_state_dict(weights)
        unit.load_state_dict(weights)
        with torch.no_grad():
            expected = fresh(x)
            torch.testing.assert_close(unit(x), expected)
            torch.testing.assert_close(fresh(x), expected)


def test_what_the_first_call_notes_and_later_ones_find_again_is_left_out(tmp_path: Path) -> None:
    model = Windows()
    unit = unit_of(model, tmp_path / "unit")
    assert model.shift == 2  # the user's model is as it was
    x = torch.randn(4, 5)
    for _ in range(2):
        torch.testing.assert_close(unit(x), model(x))


def test_what_it_notes_of_a_size_that_varies_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="changes shift while it runs"):
        unit_of(Windows(), tmp_path / "unit", dynamic_shapes={"x": {0: torch.export.Dim("n", min=2, max=64)}})


@pytest.mark.parametrize(
    "kind", (Total, Drawn, WrittenInto, OtherwiseTheSecondTime, Counts, Initialized, Alternates)
)
def test_what_is_no_memo_is_refused(kind: type[nn.Module], tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="while it runs, which a unit would not do"):
        unit_of(kind(), tmp_path / "unit")
    assert not (tmp_path / "unit").exists()


def test_a_size_that_varies_makes_it_none(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="which a unit would not do"):
        unit_of(Cosines(), tmp_path / "unit", dynamic_shapes={"x": {1: torch.export.Dim("n", min=2, max=64)}})


class Given(nn.Module):
    """Holds a table that no call makes, and a mask that may be missing."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.mask = torch.arange(5.0), torch.ones(5)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table if self.mask is None else x * self.mask + self.table


def test_what_no_call_makes_again_is_a_constant(tmp_path: Path) -> None:
    model, x = Given(), torch.randn(4, 5)
    torch.testing.assert_close(unit_of(model, tmp_path / "unit", frontend=None)(x), model(x))


def test_where_no_capture_makes_it_again_a_warning_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ByDevice().eval()
    with torch.no_grad():
        model(torch.randn(4, 5))
    monkeypatch.setattr("longhand.capture.frontends.bytecode._settles", lambda *told: False)
    with pytest.warns(KeptTensorWarning, match="ByDevice keeps tensors of earlier calls"):
        unit_of(model, tmp_path / "unit")


@pytest.mark.parametrize("kind", (ByDevice, Registered))
def test_torch_export_leaves_the_users_model_as_it_was(kind: type[nn.Module], tmp_path: Path) -> None:
    """A fake tensor in its cache would have been found by the next call."""
    model, x = kind().eval(), torch.randn(4, 5)
    with pytest.raises(CaptureError, match=r"which a (unit|graph) would not do.*computes in each call"):
        longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu", frontend="export")
    fresh = kind().eval()
    fresh.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(x), fresh(x))


def test_torch_export_names_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="frontend='bytecode' computes in each call"):
        longhand.generate(Cosines(), (torch.randn(4, 5),), out=tmp_path / "unit", frontend="export")
    longhand.generate(Cosines(), (torch.randn(4, 5),), out=tmp_path / "unit")  # and takes it, if it may
