"""The printed C++ kernel of every shape of nest computes what the nest means."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import torch

from longhand.emit.cpp.headers import CppSource
from longhand.emit.cpp.kernel import print_cpp_kernel
from longhand.lower.ir import PointwiseOp, ReduceOp
from longhand.schedule.kernels.kernel import plan_kernel
from tests.emit.cpp_kernels import arguments_of, plain_names, run_cpp, runtime_in, write_kernels
from tests.schedule import nests
from tests.schedule.execution import fresh_memory, run_nest
from tests.schedule.nests import CPU, NestMaker
from tests.schedule.test_kernel_execution import CASES


@pytest.mark.parametrize("name", CASES)
def test_kernel_computes_its_nest(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make = CASES[name]
    nest = make.nest()
    plan, launch = plan_kernel(nest, make.buffers, CPU)
    memory = fresh_memory(nest.body, make.buffers)
    expected = run_nest(nest, memory)
    got = run_cpp(plan, launch, memory, tmp_path)
    for buffer, tensor in expected.items():
        tolerance = {torch.bfloat16: 1.6e-2, torch.float32: 2e-5}.get(tensor.dtype, 0)
        torch.testing.assert_close(got[buffer], tensor, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_sizes_of_zero_touch_nothing_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    planned = {name: plan_kernel(make.nest(), make.buffers, CPU) for name, make in CASES.items()}
    sources = {name: print_cpp_kernel(plan, plain_names(plan, name)) for name, (plan, _) in planned.items()}
    # Without comments: by them, a tensor with elements is refused where there are to be none.
    bare = {name: CppSource(re.sub("  //.*", "", source), source.needs) for name, source in sources.items()}
    write_kernels(tmp_path, bare)
    runtime = runtime_in(tmp_path)
    for name, (plan, launch) in planned.items():
        make = CASES[name]
        for axis in range(len(plan.axes)):
            sizes = tuple(0 if place == axis else size for place, size in enumerate(launch.sizes))
            memory = fresh_memory(make.nest().body, make.buffers)
            before = {buffer: tensor.clone() for buffer, tensor in memory.items()}
            empty = dataclasses.replace(launch, sizes=sizes)
            runtime.load_kernel(f"{name}.cpp")(*arguments_of(plan, empty, memory))
            for pointer in plan.pointers:
                is_written = pointer.access.value != "read"
                if not is_written or (pointer.dims and plan.axes[axis].name in pointer.dims):
                    assert pointer.scratch or torch.equal(memory[pointer.name], before[pointer.name])


MADE_FOR_OTHER_SIZES = {
    "softmax": (nests.softmax_with_bias(5, 33), nests.softmax_with_bias(64, 1000)),
    "layer_norm": (nests.add_layer_norm(2, 3, 29), nests.add_layer_norm(4, 40, 257)),
    "cross_entropy": (nests.cross_entropy(6, 50), nests.cross_entropy(70, 999)),
    "column_sum": (nests.column_sum(700, 100), nests.column_sum(3000, 1037)),
    "full_sum": (nests.full_sum(300, 300), nests.full_sum(1000, 1001)),
    "transpose_add": (nests.transpose_add(35, 21), nests.transpose_add(130, 333)),
    "rotary": (nests.rotary(2, 5, 3, 4), nests.rotary(3, 50, 4, 32)),
    "softmax_over_channels": (nests.softmax_over_channels(2, 6, 19), nests.softmax_over_channels(3, 30, 700)),
    "channel_statistics": (
        nests.channel_statistics(3, 5, 30000),
        nests.channel_statistics(7, 3, 31111),
    ),
}


@pytest.mark.parametrize("name", MADE_FOR_OTHER_SIZES)
def test_one_text_serves_other_sizes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    small, large = MADE_FOR_OTHER_SIZES[name]
    plan, _ = plan_kernel(small.nest(), small.buffers, CPU)
    same, launch = plan_kernel(large.nest(), large.buffers, CPU)
    assert plan.key == same.key
    memory = fresh_memory(large.nest().body, large.buffers)
    expected = run_nest(large.nest(), memory)
    got = run_cpp(plan, launch, memory, tmp_path)
    for buffer, tensor in expected.items():
        tolerance = 1.6e-2 if tensor.dtype is torch.bfloat16 else 1e-4
        torch.testing.assert_close(got[buffer], tensor, rtol=tolerance, atol=tolerance)


def test_a_place_is_found_before_its_row_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make = NestMaker(row=5, col=77)
    x = make.load("x", "row col")
    make.store("best", "row", make.reduce(ReduceOp.ARGMAX, x, "col"), torch.int64)
    make.store("out", "row col", make.op(PointwiseOp.NEG, x))
    plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
    launch = dataclasses.replace(
        launch, buffers=tuple("x" if name == "out" else name for name in launch.buffers)
    )
    x_given = torch.randn(5, 77)
    memory = {"x": x_given.reshape(-1), "best": torch.empty(5, dtype=torch.int64)}
    got = run_cpp(plan, launch, memory, tmp_path)
    assert torch.equal(got["best"], x_given.argmax(1))
    assert torch.equal(got["x"].view(5, 77), -x_given)
