"""Tiles that are transposed before they are read: every width of element, whole squares, edges and steps backwards."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from longhand.emit.cpp.kernel import print_cpp_kernel
from longhand.lower.ir import Load, PointwiseOp
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.schedules.transposed import TRANSPOSED
from tests.emit.cpp_kernels import plain_names, run_cpp, runtime_in, write_kernels
from tests.schedule.execution import fresh_memory, run_nest
from tests.schedule.nests import CPU, CUDA, NestMaker

SIZES = (
    (2, 64, 256),
    (1, 63, 257),
    (3, 65, 255),
    (2, 16, 700),
    (1, 300, 17),
    (1, 31, 1),
    (2, 0, 40),
    (2, 40, 0),
)
DTYPES = (
    *(torch.float64, torch.float32, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int16, torch.uint8, torch.bool),
)


def _copy(dtype: torch.dtype) -> NestMaker:
    make = NestMaker(batch=2, row=40, col=50)
    make.store("out", "batch row col", make.load("x", "batch col row", dtype), dtype)
    return make


@pytest.mark.parametrize("processor", [None, "x86-64", "x86-64-v3"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_transposed_copy(
    dtype: torch.dtype, processor: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make = _copy(dtype)
    plan, _ = plan_kernel(make.nest(), make.buffers, CPU)
    assert plan.schedule is TRANSPOSED and len(plan.transposed) == 1
    write_kernels(tmp_path, {"turn": print_cpp_kernel(plan, plain_names(plan, "turn"))})
    runtime = runtime_in(tmp_path)
    runtime.FLAGS += ["-Wall", "-Wextra", "-Werror"]
    if processor is not None:
        if not runtime.ON_X86:
            pytest.skip("another processor")
        runtime.FLAGS.append(f"-march={processor}")
    turn = runtime.load_kernel("turn.cpp")
    for n_batches, n_rows, n_cols in SIZES:
        x = _values(n_batches * n_cols * n_rows, dtype).view(n_batches, n_cols, n_rows)
        out = torch.zeros(n_batches, n_rows, n_cols, dtype=dtype)
        turn(x, out, n_batches, n_rows, n_cols)
        torch.testing.assert_close(out, x.transpose(1, 2), rtol=0, atol=0, equal_nan=True)


def _values(count: int, dtype: torch.dtype) -> torch.Tensor:
    values = torch.randint(0, 2**62, (count,))
    if not dtype.is_floating_point:
        return values % 2 == 0 if dtype is torch.bool else values.to(dtype)
    floats = torch.randn(count).to(dtype)
    floats[::7], floats[3::11], floats[5::13], floats[::17] = torch.nan, torch.inf, -torch.inf, -0.0
    return floats


def test_what_is_turned_and_what_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """x is read along both sides, z backwards; a masked load may not be read beyond its mask and stays in place."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    n_rows, n_cols = 45, 300
    make = NestMaker(row=n_rows, col=n_cols)
    for name in ("x", "z", "w"):
        make.buffer(name, (n_cols, n_rows))
    make.buffer("v", (400, 400))
    across = make.load("x", make.index(row=1, col=n_rows))
    backwards = make.load("z", make.index((n_cols - 1) * n_rows, row=1, col=-n_rows))
    is_early = make.op(PointwiseOp.LT, make.position(col=1), 20, dtype=torch.bool)
    masked = make.load("w", make.index(row=1, col=n_rows), mask=is_early)
    along = make.load("v", make.index(7, row=400, col=1))
    across_too = make.load("v", make.index(7, row=1, col=400))
    for name in ("a", "b", "c"):
        along = along + make.load(name, "row col")
    make.store("out", "row col", across + backwards + masked + along + across_too)
    plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
    transposed = [plan.body[position] for position in plan.transposed]
    assert [load.buffer for load in transposed if isinstance(load, Load)] == ["x", "z", "v"]
    assert not plan_kernel(make.nest(), make.buffers, CUDA)[0].transposed
    memory = fresh_memory(make.nest().body, make.buffers)
    expected = run_nest(make.nest(), memory)["out"]
    torch.testing.assert_close(run_cpp(plan, launch, memory, tmp_path)["out"], expected)
