"""A unit is run once before it is kept; what is wrong is found, named, replaced or refused."""

import dataclasses
import errno
import os
import re
import signal

import pytest
import torch
from torch import nn

import longhand
from longhand.emit.unit import files as emit_unit_module
from longhand.errors import KernelWarning, VerificationError
from longhand.factory import Call
from longhand.options import Device
from longhand.proof import trial
from longhand.proof.smaller import smaller
from longhand.proof.trial import is_plainly_wrong, plainly_wrong, wrong_results
from longhand.proof.weights import told_apart
from longhand.verify.comparison import Comparison
from longhand.verify.eager_check import compare_whole, compare_with_eager
from longhand.verify.training_check import compare_training
from longhand.verify.verification import verify
from tests.longhand.proof import test_one_bad_kernel as models

WRONG = {"cpu": (" + bias", " - 1.5f * bias"), "cuda": ("tl.rsqrt(", "tl.sqrt(")}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_wrong_kernel_becomes_torch_calls(device, tmp_path, monkeypatch):
    models.spoiled(monkeypatch, device, "layer_norm", *WRONG[device])
    with pytest.warns(KernelWarning, match=r"layer_norm.*fails where it is run: wrong at \["):
        summary = models.generated(tmp_path / "unit", device=device)
    assert summary.in_torch == ("layer_norm",)
    assert summary.trial == "run once, on the example: it computes what eager does"


def test_a_kernel_that_crashes_becomes_torch_calls(tmp_path, monkeypatch):
    crash = "*(volatile int *)0 = 1;\n#pragma omp parallel"
    models.spoiled(monkeypatch, "cpu", "layer_norm", "#pragma omp parallel", crash)
    with pytest.warns(KernelWarning, match="layer_norm.*crashes the process"):
        summary = models.generated(tmp_path / "unit")
    assert summary.in_torch == ("layer_norm",)


def spoiled_model(monkeypatch, old, new):
    """What is written calls its kernels wrongly."""
    write_model = emit_unit_module.write_model

    def wrong(*args):
        model = write_model(*args)
        assert re.search(old, model.text)
        object.__setattr__(model, "text", re.sub(old, new, model.text))
        return model

    monkeypatch.setattr(emit_unit_module, "write_model", wrong)


def test_a_wrong_unit_is_not_written(tmp_path, monkeypatch):
    # The norm's weights are ones and its biases zeros until they are told apart.
    spoiled_model(monkeypatch, r"self\.first\.weight, self\.first\.bias", "self.first.weight, self.mix.bias")
    with pytest.raises(
        VerificationError, match=r"does not compute what the model does: result is wrong at \["
    ):
        models.generated(tmp_path / "unit")
    assert not (tmp_path / "unit").exists()


def test_a_list_where_a_tensor_belongs_is_wrong(tmp_path, monkeypatch):
    spoiled_model(monkeypatch, r"return weights\n", "return [weights]\n")
    with pytest.raises(VerificationError, match=r"of another form: expected tensor, got \(tensor\)"):
        models.generated(tmp_path / "unit")
    assert not (tmp_path / "unit").exists()


class InATuple(models.Normed):
    def forward(self, x):
        return (super().forward(x),)


@pytest.mark.parametrize("compared", [compare_with_eager, compare_training])
def test_a_step_of_another_form_is_wrong(compared):
    call = Call(*models.training(), {})
    assert not plainly_wrong(compared(models.Normed, call))
    (wrong,) = plainly_wrong(compared(InATuple, call))
    assert wrong.note == "of another form: expected tensor, got (tensor)"


def test_what_was_there_stays(tmp_path, monkeypatch):
    models.generated(tmp_path / "unit")
    before = {path: path.read_bytes() for path in (tmp_path / "unit").rglob("*") if path.is_file()}
    spoiled_model(monkeypatch, r"self\.first\.weight, self\.first\.bias", "self.first.weight, self.mix.bias")
    with pytest.raises(VerificationError):
        models.generated(tmp_path / "unit")
    assert {path: path.read_bytes() for path in (tmp_path / "unit").rglob("*") if path.is_file()} == before


def test_a_unit_that_raises_is_not_written(tmp_path, monkeypatch):
    spoiled_model(monkeypatch, r"return weights\n", "return weights.no_such_thing\n")
    with pytest.raises(VerificationError, match=r"it raises AttributeError: .* \(model\.py:\d+\)"):
        models.generated(tmp_path / "unit")


def test_it_can_be_left_out(tmp_path, monkeypatch):
    spoiled_model(monkeypatch, r"self\.first\.weight, self\.first\.bias", "self.first.weight, self.mix.bias")
    model, args = models.small()
    summary = longhand.generate(model, args, out=tmp_path / "unit", run=False)
    assert summary.trial == "" and (tmp_path / "unit" / "model.py").exists()


class Slow(nn.Module):
    """Its original cannot be waited for."""

    def forward(self, x):
        return torch.softmax(x @ x.t() * 2, -1)


def test_what_takes_long_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("longhand.proof.keeping._LEAST", 0.01)
    monkeypatch.setattr("longhand.telling.clock.Timings.total", property(lambda self: 0.0))
    summary = longhand.generate(Slow(), (torch.randn(500, 500),), out=tmp_path / "unit")
    assert summary.trial.startswith("not run: it takes longer than 0 s here.")


class Picky(nn.Module):
    """Runs while it is captured, and then no more."""

    def forward(self, x):
        if not torch.compiler.is_compiling():
            raise OSError("no such file")
        return torch.softmax(x * 2, -1)


def test_an_original_that_does_not_run_here_is_no_fault(tmp_path):
    summary = longhand.generate(Picky(), (torch.randn(5, 5),), out=tmp_path / "unit")
    assert summary.trial.startswith("not run: the original does not run here: OSError: no such file")


def test_an_example_without_values(tmp_path):
    summary = longhand.generate(
        Slow(), (torch.empty(5, 5, device="meta"),), out=tmp_path / "unit", device="cpu"
    )
    assert summary.trial.startswith("not run: the example has shapes and no values")


def test_layers_are_told_apart():
    model = nn.Sequential(nn.LayerNorm(5), nn.LayerNorm(5), nn.BatchNorm1d(5))
    told_apart(model)
    assert not torch.equal(model[0].weight, model[1].weight)
    assert not torch.equal(model[0].bias, model[1].bias)
    assert (model[2].running_var > 0).all()
    assert model[2].num_batches_tracked == 0


def test_a_smaller_example():
    part = smaller(Call(Slow(), (torch.randn(4, 3), torch.randn(4, 5)), {"scale": 2}))
    assert part.call.args[0].shape == (1, 3) and part.call.kwargs == {"scale": 2}
    assert part.how == "on the first row of 4 in the batch"
    assert smaller(Call(Slow(), (torch.randn(4, 3), torch.randn(2, 5)), {})) is None


@pytest.mark.parametrize(
    ("error", "eager_error", "bound", "note", "is_wrong"),
    [
        (3e-6, 1e-6, 2e-6, "", False),  # rounding
        (1e-2, 1e-6, 2e-6, "", True),
        (float("inf"), float("inf"), 1e-6, "", False),  # eager overflows, too
        (float("inf"), 0.0, 0.0, "expected torch.float32 (2,), got torch.float32 (3,)", True),
        (1.0, 0.0, 0.0, "1 elements differ", True),
        (3.0, 2.0, 0.0, "3 elements differ", False),  # ties
    ],
)
def test_what_is_plainly_wrong(error, eager_error, bound, note, is_wrong):
    assert is_plainly_wrong(Comparison("result", error, eager_error, bound, note)) is is_wrong


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine with a GPU runs it there")
def test_the_interpreter_is_given_a_part(tmp_path):
    summary = models.generated(tmp_path / "unit", device="cuda", factory=models.large)
    assert summary.trial == "run once, on the first row of 60000 in the batch: it computes what eager does"
    result = verify(tmp_path / "unit")
    assert result.is_right and result.part == "on the first row of 60000 in the batch"
    assert all(check.seconds > 0 for check in result.kernels if not check.name.startswith("the model"))
    assert {check.sizes[0] for check in result.kernels if not check.name.startswith("the model")} == {1}


def test_a_part_that_a_unit_of_one_size_dies_of_is_no_fault(tmp_path, monkeypatch):
    def tried(_folder, _call, _enter, _is_interpreted, may_cut):
        if may_cut:
            os.kill(os.getpid(), signal.SIGKILL)
        return trial.Trial(trial.TrialVerdict.RIGHT)

    monkeypatch.setattr(trial, "_tried", tried)
    with trial.TrialPlace(Call(nn.Linear(2, 2), (torch.ones(2),), {}), Device.CPU) as place:
        assert place.run({"x.py": ""}, 60) == trial.Trial(trial.TrialVerdict.RIGHT)


def test_where_no_process_can_be_begun_nothing_is_run_and_that_is_said(monkeypatch):
    def refuse():
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(trial.os, "fork", refuse)
    n_open = len(os.listdir("/proc/self/fd"))
    with trial.TrialPlace(Call(nn.Linear(2, 2), (torch.ones(2),), {}), Device.CPU) as place:
        said = place.run({"x.py": ""}, 60)
    assert said.verdict is trial.TrialVerdict.NOT_RUN
    assert said.what == "a process that should run it could not be begun: Cannot allocate memory"
    assert len(os.listdir("/proc/self/fd")) == n_open


def test_what_eager_hits_exactly_is_held_against_the_others():
    lucky = Comparison("d_bias", 1.2e-7, 0.0, 8e-9, scale=0.068)
    other = Comparison("d_weight", 2e-7, 3e-7, 6e-7, scale=0.5)
    assert plainly_wrong([lucky]) == [lucky]
    assert not plainly_wrong([lucky, other])
    wrong = dataclasses.replace(lucky, error=1e-3)
    assert plainly_wrong([wrong, other]) == [wrong]


def cancelling(x, y):
    return x - y


def test_what_eager_moves_by_in_its_last_bits_is_no_fault(tmp_path):
    """Eager hits a difference of large numbers exactly, which says nothing of how exact it is where they come from."""
    y = torch.full((4, 8), 1000.0)
    call = Call(cancelling, (y + 1, y), {})
    longhand.generate(cancelling, call.args, out=tmp_path / "unit", run=False)

    def off(by):
        return lambda x, y: cancelling(x, y) + by

    assert plainly_wrong(compare_whole(tmp_path / "unit", off(1e-4), call))
    assert not wrong_results(tmp_path / "unit", off(1e-4), call)
    assert wrong_results(tmp_path / "unit", off(1e-2), call)


def held_positions(x):
    return x.index_copy(0, torch.tensor([5, 2], device=x.device), x[:2])


def nothing_to_compute(x):
    return x - x.mean(0, keepdim=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="it runs on the GPU there")
@pytest.mark.parametrize(
    ("function", "given"), [(held_positions, torch.arange(9)), (nothing_to_compute, torch.ones(3, 0, 4))]
)
def test_what_a_function_makes_on_cuda_is_made_on_the_cpu_where_there_is_no_gpu(function, given, tmp_path):
    """The positions are held from the import on; the empty tensor is ATen's call."""
    summary = longhand.generate(function, (given,), out=tmp_path / "unit", device="cuda", arch="sm_90")
    assert '"cuda' in (tmp_path / "unit" / "model.py").read_text().partition("import torch")[2]
    assert summary.trial == "run once, on the example: it computes what eager does"
