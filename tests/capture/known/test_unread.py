"""What nobody reads is no part of a unit, unless the state_dict has it."""

from __future__ import annotations

import torch
from torch import nn

import longhand
from longhand.capture.frontends.export import capture_export
from longhand.compiled.from_bytecode import captured
from longhand.options import Device, Target


class Rotary(nn.Module):
    """Keeps its frequencies twice, as many models do that may scale them."""

    def __init__(self) -> None:
        super().__init__()
        frequencies = 1.0 / 100.0 ** (torch.arange(4) / 4)
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.register_buffer("original", frequencies, persistent=False)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.tensor(3.0)
        return x * self.frequencies.clone() + torch.tensor([1.0, 2.0, 3.0, 5.0])


def test_only_what_is_read_or_saved_is_held() -> None:
    graph = capture_export(Rotary(), (torch.randn(3, 4),), target=Target(Device.CPU))
    held = {entry.target for entry in graph.inputs}
    assert "original" not in held
    assert {"frequencies", "steps"} <= held
    assert "original" not in graph.constants and len(graph.constants) == 2


def test_a_compiled_call_does_what_eager_does(hook: object) -> None:
    model, x = Rotary(), torch.randn(3, 4)
    compiled = captured(model)
    torch.testing.assert_close(compiled(x), model(x))
    model.original += 1
    model.frequencies += 1
    torch.testing.assert_close(compiled(x), model(x))


def test_a_unit_loads_what_the_model_saves(tmp_path) -> None:  # type: ignore[no-untyped-def]
    model, x = Rotary(), torch.randn(3, 4)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu")
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))
