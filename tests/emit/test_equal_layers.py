"""A unit is the same text whether all of its equal layers were planned or only the first few of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks.diff_size import MODEL
from examples.gpt import GPT
from longhand.capture.frontends.export import capture_export
from longhand.emit.unit.files import emit_unit
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from longhand.schedule.names.unit import name_plans
from longhand.schedule.scheduler import schedule

TARGETS = {"cpu": Target(Device.CPU), "cuda": Target(Device.CUDA, "sm_90")}


def gpt() -> tuple[nn.Module, torch.Tensor]:
    return GPT(n_tokens=64, max_seq=16, dim=32, n_heads=2, n_layers=8), torch.randint(64, (2, 8))


def odd() -> tuple[nn.Module, torch.Tensor]:
    """A transformer in which one layer differs."""
    scope: dict[str, type[nn.Module]] = {"__name__": "transformer"}
    exec(compile(MODEL, "transformer", "exec"), scope)
    module = scope["Transformer"](dim=32, n_heads=2, n_layers=16)
    module.blocks[8].mlp.act = nn.ReLU()
    return module, torch.randn(2, 4, 32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [gpt, odd])
def test_the_text_is_the_same(make: type, target: str) -> None:
    module, argument = make()
    options = Options(TARGETS[target])
    with torch.no_grad():
        graph = capture_export(module.eval(), (argument,), {}, target=options.target)
    programs = [lower(graph, options, every_layer=every) for every in (True, False)]
    assert not programs[0].layers
    assert programs[1].layers
    whole, made = (emit_unit(name_plans(schedule(program, options))) for program in programs)
    assert made == whole
