"""Operations of a tensor and a number, on either side: right in the interpreter, and compiled for sm_90.

A number has no dtype in Triton, and for libdevice it is float32: what takes two tensors must be given one.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import longhand
from longhand.errors import KernelWarning
from longhand.lower.ir import Pointwise, PointwiseOp
from longhand.proof.trial import TrialPlace
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.telling.summary import Summary
from tests.emit.test_triton_operators import BINARY, INTEGER, TESTS, N, operands
from tests.emit.triton_units import interpret, job_for, printed, write_unit
from tests.schedule.nests import CUDA, NestMaker, f32, f64, i64
from tests.triton_compile import compile_launches

Op = PointwiseOp
Eager = Callable[..., torch.Tensor]
SIDES = ("left", "right")
NUMBERS = {f32: 2.5, f64: 0.1, i64: 3}


def operations(dtype: torch.dtype) -> dict[PointwiseOp, Eager]:
    return {**(INTEGER if dtype is i64 else BINARY), **TESTS}


def nest(dtype: torch.dtype, side: str, scalar: bool) -> NestMaker:
    """Every operation with the number on one side, each stored: one kernel for all is compiled once."""
    make = NestMaker(i=N)
    tensor = make.load("a", "i", dtype)
    number = make.scalar(NUMBERS[dtype], "number", dtype) if scalar else make.constant(NUMBERS[dtype], dtype)
    for op in operations(dtype):
        result = torch.bool if op in TESTS else dtype
        pair = (number, tensor) if side == "left" else (tensor, number)
        make.store(f"out_{op.value}", "i", make.add(Pointwise(op, tuple(map(int, pair)), result)), result)
    return make


CASES = {
    f"{str(dtype).rpartition('.')[2]}_{side}_{'scalar' if scalar else 'constant'}": (dtype, side, scalar)
    for dtype in (f32, f64, i64)
    for side in SIDES
    for scalar in (False, True)
    if not (scalar and dtype is i64)
}


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    folder = tmp_path_factory.mktemp("numbers") / "unit_of_numbers"
    texts, jobs = {}, {}
    for name, (dtype, side, scalar) in CASES.items():
        make = nest(dtype, side, scalar)
        plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
        texts[name] = printed(name, plan)
        memory = {
            buffer: torch.empty(N, dtype=made.dtype) for buffer, made in make.buffers.items() if buffer != "a"
        }
        jobs[name] = job_for(name, plan, launch, {"a": operands(dtype, 1), **memory})
    write_unit(folder, texts)
    return folder, jobs


@pytest.fixture(scope="module")
def results(unit: tuple[Path, dict[str, object]]) -> dict[str, list[torch.Tensor] | str]:
    folder, jobs = unit
    return dict(zip(jobs, interpret(folder, list(jobs.values())), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_number_is_as_exact_as_the_tensor_beside_it(name: str, results) -> None:
    dtype, side, _ = CASES[name]
    actual = results[name]
    assert not isinstance(actual, str), actual
    tensor = operands(dtype, 1)
    pair = [tensor, torch.full_like(tensor, NUMBERS[dtype])]
    for found, (op, eager) in zip(actual[1:], operations(dtype).items(), strict=True):
        expected = eager(*(pair[::-1] if side == "left" else pair))
        rtol = 1e-12 if dtype is f64 else 2e-6
        told = f"{op}: {{}}".format
        torch.testing.assert_close(found, expected, rtol=rtol, atol=rtol / 2, equal_nan=True, msg=told)


@pytest.mark.parametrize("name", CASES)
def test_every_operation_with_a_number_compiles(name: str, unit, monkeypatch) -> None:
    folder, jobs = unit
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    try:
        module = importlib.import_module(f"{folder.name}.kernels.{name}")
        job = jobs[name]
        tensors = [torch.empty(N, dtype=tensor.dtype, device="meta") for tensor in job.tensors]
        assert compile_launches(module, name, tensors, *job.numbers)
    finally:
        for one in [one for one in sys.modules if one.startswith(folder.name)]:
            del sys.modules[one]


def alone(dtype: torch.dtype) -> NestMaker:
    """Functions of nothing but numbers: of a constant, of a size."""
    make = NestMaker(i=N)
    tensor = make.load("a", "i", dtype)
    for op in (Op.ATAN, Op.EXP, Op.LOG, Op.LOG1P, Op.EXPM1, Op.SINH, Op.ERF, Op.TANH, Op.RSQRT):
        for word, number in (
            ("constant", make.constant(0.1, dtype)),
            ("size", make.axis_size("i", dtype=dtype)),
        ):
            small = make.add(Pointwise(Op.MUL, (int(number), int(make.constant(1 / 3, dtype))), dtype))
            known = make.add(Pointwise(op, (int(small),), dtype))
            result = make.add(Pointwise(Op.ADD, (int(tensor), int(known)), dtype))
            make.store(f"{word}_{op.value}", "i", result, dtype)
    return make


@pytest.mark.parametrize("dtype", [f32, f64], ids=["float32", "float64"])
def test_functions_of_numbers_alone_are_as_exact_as_the_tensor(dtype: torch.dtype, tmp_path: Path) -> None:
    make = alone(dtype)
    plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
    folder = tmp_path / f"unit_of_numbers_alone_{dtype.itemsize}"
    memory = {name: torch.empty(N, dtype=dtype) for name in make.buffers if name != "a"}
    job = job_for("alone", plan, launch, {"a": torch.zeros(N, dtype=dtype), **memory})
    write_unit(folder, {"alone": printed("alone", plan)})
    (results,) = interpret(folder, [job])
    assert not isinstance(results, str), results
    for name, result in zip(launch.buffers, results, strict=True):
        if name == "a":
            continue
        word, _, op = name.partition("_")
        number = torch.tensor(0.1 if word == "constant" else N, dtype=dtype)
        expected = getattr(torch, op)(number * torch.tensor(1 / 3, dtype=dtype)).expand(N)
        torch.testing.assert_close(result, expected, rtol=1e-15 if dtype is f64 else 1e-6, atol=0)


class FoldedCount(torch.nn.Module):
    """Divides by twice a count that no input decides: a float that is 32, and rounds the quotient."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        count = (~torch.zeros_like(x, dtype=torch.bool)).to(x.dtype).sum(-1)
        twice = count + count
        quotient = torch.where(twice == 0, 0.0, (x.sum(-1) / count + y) / twice)
        return torch.floor(quotient * 3)


def test_a_folded_count_divides_a_float(tmp_path: Path) -> None:
    """Triton takes a number's type from the number, and divides no float by an int as IEEE says."""
    example = (torch.randn(7, 32), torch.randn(7))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a kernel that does not compile would be PyTorch calls, and told
        longhand.generate(
            FoldedCount(), example, out=tmp_path / "counted", device="cuda", arch="sm_90", run=False
        )


class ScaledBySizes(torch.nn.Module):
    """Multiplies and divides by sizes that vary."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        n = x.shape[0]
        return torch.floor(x.sin() / n * 10), x.softmax(-1) * n**-0.5


@pytest.mark.parametrize("dtype", [f32, f64])
def test_no_kernel_is_compiled_for_one_value_of_a_size_that_varies(
    dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for float64, whose numbers Triton would round; the trial runs the kernels in Triton's interpreter."""
    monkeypatch.setattr("longhand.api.TrialPlace", TrialPlace)
    folder = tmp_path / "scaled"
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        summary = longhand.generate(
            ScaledBySizes(),
            (torch.randn(7, 5, dtype=dtype),),
            out=folder,
            device="cuda",
            arch="sm_90",
            dynamic_shapes=({0: torch.export.Dim("n")},),
        )
    assert isinstance(summary, Summary) and summary.trial.startswith("run once"), summary
    is_compiled_for = "scale: tl.constexpr" in "".join(
        path.read_text() for path in folder.glob("kernels/*.py")
    )
    assert is_compiled_for == (dtype is f64)
    assert ("=float(n)" in (folder / "model.py").read_text()) == (dtype is f32)
