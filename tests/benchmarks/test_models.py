"""benchmarks.models on the CPU: every model runs, what is wrong is not timed, and a run goes on where one ended."""

from __future__ import annotations

import dataclasses
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.models import __main__ as command
from benchmarks.models import written_out
from benchmarks.models.chains import CHAINS
from benchmarks.models.contenders import Work, exact_tensors, relative_distance, tensors_of
from benchmarks.models.families import FAMILIES, Family
from benchmarks.models.processes import measure_rows
from benchmarks.models.row import Figures, Row, RowResult, prepare, time_contenders
from benchmarks.models.tables import kernel_tables, tables
from longhand.errors import EagerWarning

TINY = {
    "mlp": Family(
        lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)),
        lambda batch: {"input": torch.randn(batch, 8)},
        2,
        4,
    )
}


class Spoilt(nn.Module):
    """The model, but for a hundredth."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        return self.model(**inputs) * 1.01


def broken(model: nn.Module) -> Any:
    raise RuntimeError("cannot be compiled")


def given_up(model: nn.Module) -> Any:
    def run(**inputs: torch.Tensor) -> Any:
        warnings.warn(EagerWarning("longhand: one graph runs in eager"), stacklevel=2)
        return model(**inputs)

    return run


@pytest.mark.parametrize("trains", [False, True])
def test_what_is_wrong_or_raises_is_told_and_not_timed(trains: bool) -> None:
    contenders = {"eager": lambda model: model, "spoilt": Spoilt, "broken": broken, "given up": given_up}
    ready = prepare(Row("mlp", 2, trains), "cpu", torch.float32, contenders, TINY)
    result = time_contenders(ready, "cpu", 2, kernels=False)
    assert set(result.figures) == {"eager"}
    assert result.failures["spoilt"].startswith("wrong: off by 1.0e-02")
    assert result.failures["broken"] == "RuntimeError: cannot be compiled"
    assert result.failures["given up"] == "EagerWarning: longhand: one graph runs in eager"
    eager = result.figures["eager"]
    assert eager.error < 1e-6 and eager.ms > 0 and eager.host_us > 0


def test_gradients_are_compared_too() -> None:
    model = TINY["mlp"].make()
    inputs = {"input": torch.randn(2, 8)}
    work = Work(model, model, inputs, trains=True)
    found = tensors_of(work)
    exact = exact_tensors(model, inputs, True, work.gradient)
    assert len(found) == 1 + 4, "the result and four gradients"
    assert relative_distance(found, exact) < 1e-6
    found[3] = found[3] * 1.1
    assert relative_distance(found, exact) > 0.05
    assert relative_distance(found[:-1], exact) == float("inf")


class TwoResults(nn.Module):
    """Only the first result is trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.used(input), self.unused(input)


class ZerosForAll(TwoResults):
    """As one autograd function, which gives zeros for what is not used."""

    def forward(self, input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        used, unused = super().forward(input)
        return used + 0.0 * unused, unused


def test_no_gradient_is_a_gradient_of_zeros() -> None:
    torch.manual_seed(0)
    eager, one = TwoResults(), ZerosForAll()
    one.load_state_dict(eager.state_dict())
    inputs = {"input": torch.randn(2, 3)}
    works = [Work(model, model, inputs, trains=True) for model in (eager, one)]
    ours, exact = [tensors_of(work) for work in works]
    assert relative_distance(ours, exact) < 1e-6


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (lambda: written_out.CachedDecoder(64, 2, 1), lambda: written_out.CachedDecoder.inputs(2, 2, 1, 16)),
        (lambda: written_out.DenseNet((1, 1), 4, 8), lambda: {"pixel_values": torch.randn(2, 3, 32, 32)}),
        (
            lambda: written_out.DiffusionUNet((8, 16)),
            lambda: written_out.DiffusionUNet.inputs(2, 16, 8),
        ),
        (lambda: written_out.DiT(32, 2, 4), lambda: written_out.DiT.inputs(2, 4, 32)),
        (lambda: written_out.Recommender(3, 20, 8), lambda: written_out.Recommender.inputs(2, 3, 20)),
        (lambda: written_out.GRUByHand(4, 8), lambda: written_out.GRUByHand.inputs(2, 3, 4)),
        (
            lambda: written_out.GraphConvolutions(4, 8),
            lambda: written_out.GraphConvolutions.inputs(2, 5, 9, 4),
        ),
    ],
    ids=["decoder", "densenet", "unet", "dit", "recommender", "gru", "gcn"],
)
def test_the_models_that_are_written_out_run_and_train(model: Any, inputs: Any) -> None:
    torch.manual_seed(0)
    made, given = model(), inputs()
    trains = not isinstance(made, written_out.CachedDecoder)
    work = Work(made, made, given, trains)
    found = tensors_of(work)
    assert all(one.isfinite().all() for one in found)
    assert relative_distance(found, exact_tensors(made, given, trains, work.gradient)) < 1e-3


def test_rows_are_every_family_of_a_part_and_batch() -> None:
    rows = command.rows_of(["vit", "llama decode"], ["inference", "training"], ["small"])
    assert [row.name for row in rows] == ["vit B1", "llama decode B1", "vit B1 training"]
    assert len(command.rows_of([*FAMILIES], ["inference"], ["small", "large"])) == 2 * len(FAMILIES)


@pytest.mark.parametrize("name", CHAINS)
def test_every_chain_of_convolutions_runs(name: str) -> None:
    with torch.device("meta"):
        given = CHAINS[name].inputs(2)["images"]
        found = CHAINS[name].make()(given)
    assert found.shape[:2] == given.shape[:2] and found.dim() == given.dim()


FIGURES = Figures(2.0, 1.0, 100.0, 90.0, [], 2**20, 1e-3, 1.0)


def stand_in(row: Row, pipe: Any, *_: Any) -> None:
    if row.family == "dies":
        return
    if row.family == "slow":
        time.sleep(30)
    pipe.send("ready")
    pipe.recv()
    pipe.send(RowResult({"eager": FIGURES}, {}))


def measured(rows: list[Row], seconds: float = 3.0) -> tuple[list[str], list[str]]:
    told: list[str] = []
    left = measure_rows(
        rows,
        lambda row, result: told.append(row.name),
        device="cpu",
        n_processes=2,
        ready_seconds=1.0,
        deadline=time.monotonic() + seconds,
        n_turns=1,
        kernels=False,
        contenders=["eager"],
        work=stand_in,
    )
    return told, [row.name for row in left]


def test_rows_that_die_or_are_late_cost_only_themselves() -> None:
    rows = [Row(name, 1, False) for name in ("good", "dies", "slow", "also good")]
    assert measured(rows, 10.0) == (["good B1", "also good B1"], ["dies B1", "slow B1"])


def test_no_row_begins_when_the_time_is_up() -> None:
    assert measured([Row("good", 1, False)], -1.0) == ([], ["good B1"])


def test_a_run_goes_on_where_the_last_one_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[str] = []

    def measure(rows: list[Row], tell: Any, **_: Any) -> list[Row]:
        begun.extend(row.name for row in rows)
        if rows:
            tell(rows[0], RowResult({"eager": FIGURES}, {"longhand": "wrong"}))
        return rows[1:]

    monkeypatch.setattr(command, "measure_rows", measure)
    file = tmp_path / "models.json"
    words = ["models", "vit", "swin", "--json", str(file), "--parts", "inference", "--batches", "small"]
    monkeypatch.setattr("sys.argv", words)
    command.main()
    assert begun == ["vit B1", "swin B1"]
    assert "not measured: swin B1" in capsys.readouterr().out
    command.main()
    assert begun == ["vit B1", "swin B1", "swin B1"]
    assert set(command.read(file)) == {"vit B1", "swin B1"}
    command.main()
    assert len(begun) == 3


def test_ratios_are_mode_against_mode() -> None:
    fast = Figures(1.0, 1.0, 50.0, 50.0, [], 2**20, 1e-3, 1.0)
    results = {
        "a B1": RowResult({"torch.compile": FIGURES, "longhand": fast, "longhand graphs": fast}, {}),
        "b B1": RowResult({"torch.compile": fast, "longhand": FIGURES}, {"torch.compile graphs": "raised"}),
    }
    title, cells = tables(results)[0]
    assert title == "Inference: ms a call"
    assert cells[1] == ["a B1", "", "2.000", "1.000", "", "1.000", "2.00", ""]
    assert cells[2] == ["b B1", "", "1.000", "2.000", "failed", "", "0.50", ""]
    assert cells[3][-2:] == ["1.00", ""]


def test_kernels_are_shown_slowest_first() -> None:
    kernels = [("gelu_kernel", 10, 1.5), ("column_sum_kernel", 4, 0.25)]
    figures = dataclasses.replace(FIGURES, kernels=kernels)
    assert figures.kernel_ms == 1.75
    results = {"a B1": RowResult({"eager": FIGURES, "longhand": figures}, {})}
    assert "Inference: ms of kernels" in [title for title, _ in tables(results)]
    ((title, cells),) = kernel_tables(results, 1)
    assert title == "a B1: longhand, 1.750 ms in kernels"
    assert cells[1:] == [["1.500", "10", "gelu_kernel"]]


def test_an_unknown_family_is_told(monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["models", "bert", "--json", str(tmp_path / "m.json")])
    with pytest.raises(SystemExit):
        command.main()
    assert "no such family: bert; there are " in capsys.readouterr().err
