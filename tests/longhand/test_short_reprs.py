"""What a call or a command answers with shows itself in a line: in a notebook, in a debugger, in a log."""

import dataclasses
import sys
from pathlib import Path

import pytest
import torch

import longhand
from longhand.compiled.parts import write_parts
from longhand.deploy.building import build
from longhand.handoff.acceptance import Judgement
from longhand.handoff.writing import hand_off
from longhand.staleness.file_check import check_files
from longhand.staleness.renewal import make
from longhand.tune.bench import ModelTimes, Times
from longhand.tune.kernel_times import time_kernels
from longhand.tune.tuning import Tuning
from longhand.verify.verification import verify
from tests.longhand.test_ci import MODEL

MOST = 160


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reprs")
    (folder / "repr_net.py").write_text(MODEL.format(factor=0.5))
    sys.path.insert(0, str(folder))
    import repr_net

    summary = make("repr_net:make", folder / "unit")
    yield folder / "unit", summary, repr_net.make()
    sys.path.remove(str(folder))
    sys.modules.pop("repr_net", None)


def held(value, *words):
    shown = repr(value)
    assert len(shown) <= MOST and "\n" not in shown and " at 0x" not in shown, shown
    assert all(word in shown for word in words), shown


def test_generate_check_verify_and_explain(unit):
    folder, summary, (model, args) = unit
    held(summary, "1 kernel")
    held(check_files(folder), "CheckResult")
    held(verify(folder), "right", "1 results")
    held(longhand.explain(model)(*args), "1 graph")


def test_several_graphs(unit, tmp_path):
    def cut(x):
        y = x * 2
        print("here")
        return y + 1

    held(write_parts(cut, (torch.ones(3),), {}, tmp_path / "parts", mode="default", train=False), "2 graphs")


def test_build_handoff_and_times(unit, tmp_path):
    folder, _, _ = unit
    short = Path("built")
    held(dataclasses.replace(build(folder, tmp_path / "built"), folder=short), "1 kernel")
    held(dataclasses.replace(hand_off(folder, (), tmp_path / "given"), folder=short), "scaled")
    for time in time_kernels(folder, n_turns=1).values():
        held(time, "% of a copy")
    times = {name: Times(0.123456, 0.1, 7) for name in ("eager", "torch.compile", "longhand")}
    held(ModelTimes(times, {"x" * 400: "y" * 400}), "longhand 0.123 ms")
    before = {"BLOCK": 64, "num_warps": 4}
    held(Tuning("softmax", "kernels/softmax.py", before, {"BLOCK": 128, "num_warps": 4}), "BLOCK 64 -> 128;")
    held(
        Tuning("softmax", "kernels/softmax.py", before, before, skipped=(({"BLOCK": 1}, "x" * 300),)), "kept"
    )
    held(Judgement("softmax", "it is wrong"), "it is wrong")
