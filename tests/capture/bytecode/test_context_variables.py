"""A ContextVar that a call sets and resets: what is read between is what was set; else the call is no unit."""

from __future__ import annotations

import contextvars

import pytest
import torch
from torch import fx, nn

from longhand.capture.frontends.bytecode import capture_bytecode
from longhand.errors import GraphBreakError
from longhand.options import Device, Target
from tests.capture.bytecode.running import check

X = torch.randn(3, 4)
COLLECTED: contextvars.ContextVar[dict[str, torch.Tensor] | None] = contextvars.ContextVar(
    "COLLECTED", default=None
)
SCALE: contextvars.ContextVar[float] = contextvars.ContextVar("SCALE")


def layer(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    if (found := COLLECTED.get()) is not None:
        found["layer"] = y
    return y * 2


class Collecting(nn.Module):
    """As transformers collects what its layers give, one call inside of another."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
        found: dict[str, torch.Tensor] = {}
        token = COLLECTED.set(found)
        try:
            inner = COLLECTED.set(None)
            x = layer(x)
            COLLECTED.reset(inner)
            y = layer(x)
        finally:
            COLLECTED.reset(token)
        return y, found["layer"], COLLECTED.get() is None


class Scaled(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "set":
            SCALE.set(3.0)
        return x * (SCALE.get() if self.how == "get" else SCALE.get(2.0))


def results(model: nn.Module) -> list[torch.Tensor]:
    graph = capture_bytecode(model, (X,), target=Target(Device.CPU))
    return list(fx.Interpreter(fx.GraphModule(nn.Module(), graph.graph)).run(X))


def test_what_is_set_is_read_until_it_is_reset():
    for mine, theirs in zip(results(Collecting()), Collecting()(X)[:2], strict=False):
        assert torch.equal(mine, theirs)
    assert COLLECTED.get() is None


def test_the_default_of_the_one_who_asks():
    assert torch.equal(results(Scaled("default"))[0], X * 2)


@pytest.mark.parametrize("how", ["set", "get"])
def test_what_stays_set_and_what_nothing_has_set_is_no_unit(how):
    with pytest.raises(GraphBreakError, match=r"of a ContextVar that comes from outside"):
        contextvars.copy_context().run(results, Scaled(how))


class Reading(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * len(COLLECTED.get() or "none")


def test_what_others_may_change_is_no_unit():
    def read() -> None:
        COLLECTED.set({"layer": X})
        results(Reading())

    with pytest.raises(GraphBreakError, match="of a ContextVar that comes from outside"):
        contextvars.copy_context().run(read)


def test_with_graph_breaks_the_variable_is_cpythons():
    check(Collecting(), (X,))
