"""Pooling of small windows on CUDA: which are loops of ours, and that these compute what eager does."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.readability.units import text_of
from longhand.lower.interpreter import results_of, run_program
from longhand.lower.ir import Extern, Nest, Program, in_parts
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.schedules.windows import WINDOWS
from tests.emit.triton_units import Job, interpret, job_for, printed, write_unit
from tests.lower.conftest import traced
from tests.schedule.execution import run_plan

CPU, CUDA = Options(Target(Device.CPU)), Options(Target(Device.CUDA, "sm_90"))
INF, NAN = float("inf"), float("nan")

Pooling = Callable[[torch.Tensor], torch.Tensor]


def pooled(function: Callable[..., torch.Tensor], *args: object, **options: object) -> Pooling:
    def call(x: torch.Tensor) -> torch.Tensor:
        return function(x, *args, **options)

    return call


# Each with the shape that it pools.
CASES: dict[str, tuple[Pooling, tuple[int, ...]]] = {
    "resnet's": (pooled(F.max_pool2d, 3, 2, 1), (2, 5, 13, 10)),
    "one image without a batch": (pooled(F.max_pool2d, 3, 2, 1), (3, 9, 7)),
    "unlike sides": (pooled(F.max_pool2d, (3, 2), (1, 2), (1, 0)), (1, 4, 8, 9)),
    "dilated": (pooled(F.max_pool2d, 3, 1, 1, dilation=(2, 1)), (2, 3, 9, 8)),
    "wide steps": (pooled(F.max_pool2d, 2, 3), (2, 3, 11, 10)),
    "rounded up": (pooled(F.max_pool2d, 3, 2, ceil_mode=True), (2, 3, 10, 12)),
    "rounded up, dilated and padded": (
        pooled(F.max_pool2d, 3, 2, 1, dilation=2, ceil_mode=True),
        (1, 3, 10, 12),
    ),
    "5 x 5": (pooled(F.max_pool2d, 5, 1, 2), (1, 3, 6, 7)),
    "a line": (pooled(F.max_pool1d, 3, 2, 1), (2, 3, 11)),
    "a volume": (pooled(F.max_pool3d, 2, 2, ceil_mode=True), (2, 3, 5, 4, 7)),
    "one place": (pooled(F.max_pool2d, 1, 2), (2, 3, 7, 7)),
    "one side only": (pooled(F.max_pool2d, (3, 1), 1, (1, 0)), (2, 3, 7, 7)),
    "one channel": (pooled(F.max_pool2d, 3, 2, 1), (1, 1, 9, 9)),
    "to one pixel": (pooled(F.max_pool2d, 4), (2, 3, 4, 4)),
    "densenet's": (pooled(F.avg_pool2d, 2, 2), (2, 5, 8, 6)),
    "a mean with padding": (pooled(F.avg_pool2d, 3, 2, 1), (2, 3, 9, 12)),
    "a mean without padding": (pooled(F.avg_pool2d, 3, 2, 1, count_include_pad=False), (2, 3, 9, 12)),
    "a mean rounded up": (pooled(F.avg_pool2d, 3, 2, 1, ceil_mode=True), (2, 3, 10, 12)),
    "a mean rounded up without padding": (
        pooled(F.avg_pool2d, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        (2, 3, 10, 12),
    ),
    "a mean with a divisor": (pooled(F.avg_pool2d, 3, 1, 1, divisor_override=5), (2, 3, 7, 6)),
    "a mean along a line": (pooled(F.avg_pool1d, 3, 2, 1, ceil_mode=True), (2, 3, 12)),
    "a mean of a volume": (pooled(F.avg_pool3d, 2, 2, 1), (1, 2, 4, 5, 6)),
}
LEFT: dict[str, tuple[Pooling, tuple[int, ...], torch.dtype]] = {
    "a large window": (pooled(F.max_pool2d, 7, 1, 3), (1, 2, 9, 9), torch.float32),
    "places are wanted": (pooled(F.max_pool2d, 3, return_indices=True), (1, 2, 9, 9), torch.float32),
    "nothing": (pooled(F.max_pool2d, 3), (0, 2, 9, 9), torch.float32),
    "whole numbers": (pooled(F.max_pool2d, 3), (1, 2, 9, 9), torch.int32),
}


def image(shape: tuple[int, ...], dtype: torch.dtype = torch.float32, is_last: bool = False) -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(shape)
    special = torch.tensor([NAN, INF, -INF, -INF, -INF, 0.0, -0.0])
    x.view(-1)[:: max(1, x.numel() // 20)] = special.repeat(20)[: len(x.view(-1)[:: max(1, x.numel() // 20)])]
    x[..., -4:] = -INF
    x = x.to(dtype)
    return x.contiguous(memory_format=torch.channels_last) if is_last else x


def eager(function: Pooling, x: torch.Tensor) -> torch.Tensor:
    """What it computes; of 16 bits in float32, since not all of it takes them on the CPU."""
    return function(x.float()).to(x.dtype) if x.dtype.itemsize == 2 else function(x)


def library_calls(program: Program) -> list[Extern]:
    return [step for step in in_parts(program.steps) if isinstance(step, Extern)]


def lowered(function: Pooling, x: torch.Tensor, options: Options = CUDA) -> tuple[Program, str]:
    graph = traced(function, (x,))
    return lower(graph, options), graph.inputs[0].node


@functools.cache
def layouts(case: str) -> tuple[bool, ...]:
    return (False, True) if len(CASES[case][1]) == 4 else (False,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("case", CASES)
def test_loops_over_windows_compute_what_eager_does(case: str, dtype: torch.dtype) -> None:
    function, shape = CASES[case]
    for is_last in layouts(case):
        x = image(shape, dtype, is_last)
        program, name = lowered(function, x)
        assert not library_calls(program)
        (found,) = results_of(program, run_program(program, {name: x}), {name: x})
        expected = eager(function, x)
        torch.testing.assert_close(found, expected, equal_nan=True)
        assert found.stride() == expected.stride()


@pytest.mark.parametrize("why", LEFT)
def test_what_is_left_to_the_library(why: str) -> None:
    function, shape, dtype = LEFT[why]
    program, _ = lowered(function, torch.ones(shape, dtype=dtype))
    (call,) = library_calls(program)
    assert "pool" in str(call.target) and call.reason is None


def test_the_cpu_keeps_the_librarys() -> None:
    (call,) = library_calls(lowered(CASES["resnet's"][0], image((2, 5, 13, 10)), CPU)[0])
    assert "max_pool2d" in str(call.target)


def test_a_sum_over_a_batch_and_its_positions_walks_no_window() -> None:
    def bias_gradient(x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).sum((0, 1))

    program, _ = lowered(bias_gradient, torch.ones(2, 4, 5, 64))
    (nest,) = (step for step in in_parts(program.steps) if isinstance(step, Nest))
    assert plan_kernel(nest, program.buffers, CUDA)[0].schedule is not WINDOWS


def planned(case: str, dtype: torch.dtype, is_last: bool) -> tuple[Job, str, torch.Tensor]:
    """A call of the printed kernel, its text, and what eager computes."""
    function, shape = CASES[case]
    x = image(shape, dtype, is_last)
    program, name = lowered(function, x)
    (nest,) = program.steps
    assert isinstance(nest, Nest)
    plan, launch = plan_kernel(nest, program.buffers, CUDA)
    (result,) = program.results
    buffer = program.buffers[result.buffer]  # type: ignore[union-attr]
    out = torch.empty_strided([int(n) for n in buffer.shape], [int(n) for n in buffer.stride], dtype=dtype)
    flat = {name: x.as_strided((x.numel(),), (1,)), buffer.name: out.as_strided((out.numel(),), (1,))}
    executed = run_plan(plan, launch, flat)[buffer.name].as_strided(out.shape, out.stride())
    torch.testing.assert_close(executed, eager(function, x), equal_nan=True)
    if "one" not in case:
        assert plan.schedule is WINDOWS
    word = f"{case.replace(' ', '_')}_{is_last}_{str(dtype)[6:]}".replace("'", "").replace(",", "")
    word = f"case_{word}"
    return job_for(word, plan, launch, {name: x, buffer.name: out}), printed(word, plan), eager(function, x)


def test_the_kernels_are_right_in_tritons_interpreter(tmp_path: Path) -> None:
    made = [
        planned(case, dtype, is_last)
        for place, case in enumerate(CASES)
        for is_last in layouts(case)
        for dtype in ([torch.float32, torch.bfloat16, torch.float16][place % 3],)
    ]
    write_unit(tmp_path, {job.kernel: text for job, text, _ in made})
    found = interpret(tmp_path, [job for job, _, _ in made])
    for (job, _, expected), result in zip(made, found, strict=True):
        assert not isinstance(result, str), f"{job.kernel}: {result}"
        torch.testing.assert_close(
            result[-1], expected, equal_nan=True, msg=lambda m, j=job: f"{j.kernel}: {m}"
        )


def test_images_of_more_than_31_bits_are_counted_in_64() -> None:
    x = torch.empty(4096, 64, 1024, 1024, device="meta")
    program, _ = lowered(pooled(F.max_pool2d, 3, 2, 1), x)
    (nest,) = program.steps
    assert isinstance(nest, Nest)
    plan, _ = plan_kernel(nest, program.buffers, CUDA)
    assert not plan.has_wide_index(axis.name for axis in (*plan.rows, plan.cols[-1]))
    assert plan.has_wide_index(axis.name for axis in plan.cols[:-1])
    assert "row = tl.program_id(0).to(tl.int64) * ROWS" in printed("large", plan)


def test_sides_that_are_equally_long_are_two_numbers() -> None:
    """Whoever changes the image of a kernel changes its height or its width."""
    pool = nn.Sequential(nn.Hardtanh(), nn.MaxPool2d(3, 2, 1), nn.Hardtanh())
    files = text_of((pool.eval(), (torch.randn(2, 3, 19, 19),), {}), "cuda", train=False)
    kernel = next(text for text in files.values() if "window_line" in text and "tl.load" in text)
    assert re.search(r"line[^&|]*< height\)", kernel) and re.search(r"column[^&|]*< width\)", kernel)
