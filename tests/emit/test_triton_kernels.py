"""Printed Triton kernels compute in Triton's interpreter what their nest means."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from longhand.schedule.kernels.kernel import plan_kernel
from tests.emit.triton_units import Job, interpret, job_for, printed, write_unit, written
from tests.schedule import nests
from tests.schedule.execution import Memory, fresh_memory, run_nest
from tests.schedule.nests import CUDA, NestMaker

# Rows not a multiple of a block, columns not a power of two; each kernel once small and once larger.
CASES: dict[str, tuple[NestMaker, ...]] = {
    "exp_normalize": (nests.exp_normalize(6, 37), nests.exp_normalize(130, 100)),
    "softmax": (nests.softmax_with_bias(5, 33), nests.softmax_with_bias(67, 300)),
    "add_layer_norm": (nests.add_layer_norm(2, 3, 29), nests.add_layer_norm(3, 7, 1000)),
    "add_layer_norm_residual": (nests.add_layer_norm(2, 3, 29, keep_residual=True),),
    "gelu_bias": (nests.gelu_bias(5, 40), nests.gelu_bias(13, 1100)),
    "transpose_add": (nests.transpose_add(35, 21), nests.transpose_add(130, 150)),
    "rotary": (nests.rotary(2, 5, 3, 4), nests.rotary(2, 9, 3, 20)),
    "split_gate": (nests.split_gate(7, 12), nests.split_gate(9, 1500)),
    "channel_affine": (nests.channel_affine(2, 5, 18), nests.channel_affine(3, 5, 300)),
    "masked_softmax": (nests.masked_softmax(8, 8), nests.masked_softmax(33, 33)),
    "flip_columns": (nests.flip_columns(4, 9),),
    "embedding": (nests.embedding(6, 10), nests.embedding(70, 130)),
    "rms_norm": (nests.rms_norm(6, 40), nests.rms_norm(50, 500)),
    "integer_rows": (nests.integer_rows(6, 20), nests.integer_rows(67, 300)),
    "softmax_long": (nests.softmax_with_bias(2, 40000),),
    "add_layer_norm_long": (nests.add_layer_norm(1, 2, 40000),),
    "cross_entropy": (nests.cross_entropy(6, 50), nests.cross_entropy(50, 3000)),
    "cross_entropy_few": (nests.cross_entropy(3, 40000),),
    "column_sum": (nests.column_sum(70, 9), nests.column_sum(700, 100)),
    "full_sum": (nests.full_sum(9, 11), nests.full_sum(300, 300)),
    "channel_statistics": (nests.channel_statistics(3, 5, 18), nests.channel_statistics(3, 5, 30000)),
    "layer_norm_backward": (
        nests.layer_norm_backward(70, 37, torch.float32),
        nests.layer_norm_backward(1333, 300, torch.float32),
    ),
    "mean_of_stacked": (nests.mean_of_stacked(2, 10), nests.mean_of_stacked(3, 70)),
    "softmax_of_halves": (nests.softmax_of_halves(6, 19), nests.softmax_of_halves(80, 70)),
    "softmax_over_channels": (nests.softmax_over_channels(2, 6, 19), nests.softmax_over_channels(2, 40, 70)),
}


@dataclasses.dataclass
class Run:
    """What one call of a kernel left, and what it should have."""

    actual: list[torch.Tensor] | str
    expected: Memory
    names: tuple[str, ...]
    written: list[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Run]:
    folder: Path = tmp_path_factory.mktemp("triton") / "unit"
    texts: dict[str, str] = {}
    jobs: list[Job] = []
    found: dict[tuple[str, int], Run] = {}
    for name, makers in CASES.items():
        for number, make in enumerate(makers):
            plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
            kernel = f"{name}_{plan.schedule.name}"
            texts[kernel] = printed(kernel, plan)
            memory = fresh_memory(make.nest().body, make.buffers)
            jobs.append(job_for(kernel, plan, launch, memory))
            expected = run_nest(make.nest(), memory)
            found[name, number] = Run("", expected, launch.buffers, written(plan, launch))
    write_unit(folder, texts)
    for run, actual in zip(found.values(), interpret(folder, jobs), strict=True):
        run.actual = actual
    return found


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, makers in CASES.items() for number in range(len(makers))]
)
def test_kernel_computes_what_its_nest_means(
    name: str, number: int, runs: dict[tuple[str, int], Run]
) -> None:
    run = runs[name, number]
    assert not isinstance(run.actual, str), run.actual
    assert run.written
    actual = dict(zip(run.names, run.actual, strict=True))
    for buffer, expected in run.expected.items():
        rtol = 1e-2 if expected.dtype is torch.bfloat16 else 2e-5
        torch.testing.assert_close(actual[buffer], expected, rtol=rtol, atol=rtol, equal_nan=True)
