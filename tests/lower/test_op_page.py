"""docs/ops.md says what the tables of capture and lowering say, and what a captured call shows."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch

import longhand
from benchmarks.op_table import REFUSED, Fate, core_ops, fate, page
from tests.autograd.op_programs import every_program
from tests.autograd.op_sweep import Case, Door, Outcome, outcome
from tests.autograd.refusals import reason_of

aten = torch.ops.aten
PAGE = Path(__file__).parents[2] / "docs" / "ops.md"


def test_the_page_is_current():
    version = torch.__version__.partition("+")[0]
    if f"PyTorch {version}," in PAGE.read_text():
        assert PAGE.read_text() == page()
    else:  # another torch may tag other ops
        assert all(
            f"`{str(op).split('.')[1]}`" in PAGE.read_text() for op in core_ops() if fate(op) is Fate.KERNEL
        )


@pytest.mark.parametrize(
    ("function", "op", "kind"),
    [
        (
            lambda x: aten.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)[0],
            aten.native_group_norm.default,
            Fate.KERNEL,
        ),
        (lambda x: aten.gelu(x) + 1, aten.gelu.default, Fate.KERNEL),
        (lambda x: aten.sum.dim_IntList(x, [1]), aten.sum.dim_IntList, Fate.KERNEL),
        (lambda x: aten.permute(x, [2, 0, 1]) * 2, aten.permute.default, Fate.VIEW),
        (lambda x: aten.cumsum(x, 0), aten.cumsum.default, Fate.LIBRARY),
        (lambda x: aten.topk(x, 2)[0], aten.topk.default, Fate.LIBRARY),
    ],
)
def test_a_call_shows_it(function, op, kind, tmp_path):
    assert fate(op) is kind
    with torch.no_grad():
        summary = longhand.generate(function, (torch.randn(2, 4, 3),), out=tmp_path / "unit")
    assert bool(summary.library_bytes) == (kind is Fate.LIBRARY)


SWEPT = json.loads(REFUSED.read_text())
SHOWN = [
    (mode, reason, op, *witness.split())
    for mode, reasons in SWEPT["refused"].items()
    for reason, ops in reasons.items()
    for op, witness in ops.items()
]


@pytest.mark.skipif(
    f"PyTorch {torch.__version__.partition('+')[0]}," not in PAGE.read_text(), reason="other samples"
)
@pytest.mark.parametrize(
    ("mode", "reason", "op", "dtype", "number"),
    random.Random(3).sample(SHOWN, 8),
    ids=lambda value: str(value)[:40],
)
def test_a_sample_that_is_said_to_be_refused_is(mode, reason, op, dtype, number, hook):
    program = next(one for one in every_program(op, getattr(torch, dtype)) if one.number == int(number))
    door, step = mode.split(", ")
    kind, words = outcome(Case(program, Door(door), step == "training"))
    assert kind in (Outcome.REFUSED, Outcome.EAGER) and reason_of(words) == reason, words


def test_every_reason_of_the_page_is_in_words():
    reasons = {reason for _, reason, *_ in SHOWN}
    assert not [reason for reason in reasons if "Error" in reason or "/" in reason or "`" in reason]
    assert not SWEPT["bad"]
