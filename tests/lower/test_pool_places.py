"""Max pooling in training on CUDA: places within windows, and the gradients that go back there, as eager's.

The images hold ties, NaN, several of them in a window, and windows of nothing but minus infinity at the padded border.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from longhand.capture.autograd.max_pooling.pool_operators import max_pool2d_backward_op, max_pool2d_op
from longhand.lower.interpreter import results_of, run_program
from longhand.lower.ir import Buffer, Nest, Program
from longhand.lower.lowering import lower
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.schedules.windows import WINDOWS
from tests.emit.triton_units import Job, interpret, job_for, printed, write_unit
from tests.lower.conftest import traced
from tests.lower.test_pooling import CUDA, image
from tests.schedule.execution import run_plan


@dataclasses.dataclass(frozen=True)
class Window:
    """What is pooled, and how."""

    shape: tuple[int, ...]
    size: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (2, 2)
    padding: tuple[int, int] = (0, 0)
    ceil_mode: bool = False

    @property
    def each(self) -> tuple[list[int], list[int], list[int]]:
        """Size, stride and padding as the operators take them."""
        return list(self.size), list(self.stride), list(self.padding)


WINDOWS_OF = {
    "resnet's": Window((2, 5, 13, 10), padding=(1, 1)),
    "one image without a batch": Window((3, 9, 7), padding=(1, 1)),
    "unlike sides": Window((1, 4, 8, 9), (3, 2), (1, 2), (1, 0)),
    "wide steps": Window((2, 3, 11, 10), (2, 2), (3, 3)),
    "squeezenet's": Window((2, 3, 10, 12), ceil_mode=True),
    "rounded up and padded": Window((2, 3, 10, 12), padding=(1, 1), ceil_mode=True),
    "googlenet's": Window((2, 3, 7, 7), stride=(1, 1), padding=(1, 1), ceil_mode=True),
    "5 x 5": Window((1, 3, 6, 7), (5, 5), (1, 1), (2, 2)),
    "halves": Window((2, 3, 8, 6), (2, 2)),
    "one place": Window((2, 3, 7, 7), (1, 1)),
    "one side only": Window((2, 3, 7, 7), (3, 1), (1, 1), (1, 0)),
    "to one pixel": Window((2, 3, 4, 4), (4, 4), (4, 4)),
}
DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.float16)


@dataclasses.dataclass(frozen=True)
class Expected:
    """What eager makes of images: results, their gradients, and those of the images."""

    x: torch.Tensor
    largest: torch.Tensor
    places: torch.Tensor
    d_out: torch.Tensor
    d_x: torch.Tensor


@functools.cache
def expected(case: str, dtype: torch.dtype, is_last: bool) -> Expected:
    window = WINDOWS_OF[case]
    x = image(window.shape, dtype, is_last)
    size, stride, padding = window.each
    wide = x.float() if dtype.itemsize == 2 else x.clone()
    wide.requires_grad_()
    largest, indices = F.max_pool2d(
        wide, size, stride, padding, ceil_mode=window.ceil_mode, return_indices=True
    )
    d_out = torch.randn(largest.shape, dtype=dtype)
    d_out = d_out.contiguous(memory_format=torch.channels_last) if is_last else d_out
    (d_x,) = torch.autograd.grad(largest, wide, d_out.to(wide.dtype))
    first_lines = (torch.arange(largest.shape[-2]) * stride[0] - padding[0])[:, None]
    first_columns = torch.arange(largest.shape[-1]) * stride[1] - padding[1]
    width = window.shape[-1]
    places = (indices // width - first_lines) * size[1] + indices % width - first_columns
    return Expected(x, largest.detach().to(dtype), places.to(torch.int8), d_out, d_x.to(dtype))


def layouts(case: str) -> tuple[bool, ...]:
    return (False, True) if len(WINDOWS_OF[case].shape) == 4 else (False,)


def forward(case: str, x: torch.Tensor) -> tuple[Program, list[str]]:
    size, stride, padding = WINDOWS_OF[case].each

    def pooled(x: torch.Tensor) -> Sequence[torch.Tensor]:
        return max_pool2d_op(x, size, stride, padding, WINDOWS_OF[case].ceil_mode)

    graph = traced(pooled, (x,))
    return lower(graph, CUDA), [entry.node for entry in graph.inputs]


def backward(case: str, d_out: torch.Tensor, places: torch.Tensor) -> tuple[Program, list[str]]:
    sides = list(WINDOWS_OF[case].shape[-2:])

    def gathered(d_out: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return max_pool2d_backward_op(d_out, places, sides, *WINDOWS_OF[case].each)

    graph = traced(gathered, (d_out, places))
    return lower(graph, CUDA), [entry.node for entry in graph.inputs]


def both(
    case: str, dtype: torch.dtype, is_last: bool
) -> list[tuple[Program, dict[str, torch.Tensor], list[torch.Tensor]]]:
    """Programs of one kernel each, with what they are given and must make."""
    of = expected(case, dtype, is_last)
    found = []
    program, names = forward(case, of.x)
    found.append((program, dict(zip(names, [of.x], strict=True)), [of.largest, of.places]))
    program, names = backward(case, of.d_out, of.places)
    found.append((program, dict(zip(names, [of.d_out, of.places], strict=True)), [of.d_x]))
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", WINDOWS_OF)
def test_places_and_gradients_are_those_of_eager(case: str, dtype: torch.dtype) -> None:
    for is_last in layouts(case):
        for program, given, made in both(case, dtype, is_last):
            assert all(isinstance(step, Nest) for step in program.steps)
            results = results_of(program, run_program(program, given), given)
            for result, wanted in zip(results, made, strict=True):
                torch.testing.assert_close(result, wanted, equal_nan=True)


@pytest.mark.parametrize("case", WINDOWS_OF)
def test_the_operators_are_those_of_eager(case: str) -> None:
    """What they are by themselves, where no kernel of ours runs."""
    of, window = expected(case, torch.float32, False), WINDOWS_OF[case]
    largest, places = max_pool2d_op(of.x, *window.each, window.ceil_mode)
    torch.testing.assert_close(largest, of.largest, equal_nan=True)
    assert torch.equal(places, of.places)
    d_x = max_pool2d_backward_op(of.d_out, of.places, list(window.shape[-2:]), *window.each)
    torch.testing.assert_close(d_x, of.d_x, equal_nan=True)


def memory(buffer: Buffer) -> torch.Tensor:
    """A tensor as a buffer lies."""
    shape, stride = ([int(n) for n in sizes] for sizes in (buffer.shape, buffer.stride))
    return torch.empty_strided(shape, stride, dtype=buffer.dtype)


def planned(
    word: str, program: Program, given: dict[str, torch.Tensor], made: list[torch.Tensor]
) -> tuple[Job, str]:
    """A call of the printed kernel, and its text; its plan makes the same, pass by pass."""
    (nest,) = program.steps
    assert isinstance(nest, Nest)
    plan, launch = plan_kernel(nest, program.buffers, CUDA)
    assert plan.schedule is WINDOWS or "one" in word or "halves" in word or "wide" in word
    buffers = [program.buffers[result.buffer] for result in program.results]  # type: ignore[union-attr]
    tensors = given | {buffer.name: memory(buffer) for buffer in buffers}
    flat = {name: tensor.as_strided((tensor.numel(),), (1,)) for name, tensor in tensors.items()}
    executed = run_plan(plan, launch, flat)
    for buffer, wanted in zip(buffers, made, strict=True):
        result = executed[buffer.name].as_strided(wanted.shape, tensors[buffer.name].stride())
        torch.testing.assert_close(result, wanted, equal_nan=True)
    return job_for(word, plan, launch, tensors), printed(word, plan)


def test_the_kernels_are_right_in_tritons_interpreter(tmp_path: Path) -> None:
    jobs, texts, wanted = [], {}, []
    for place, case in enumerate(WINDOWS_OF):
        for is_last in layouts(case):
            dtype = DTYPES[place % len(DTYPES)]
            for step, (program, given, made) in zip(
                ("forward", "backward"), both(case, dtype, is_last), strict=True
            ):
                word = "".join(c if c.isalnum() else "_" for c in f"{step}_{case}_{is_last}_{str(dtype)[6:]}")
                job, texts[word] = planned(word, program, given, made)
                jobs.append(job)
                wanted.append(made)
    write_unit(tmp_path, texts)
    for job, results, made in zip(jobs, interpret(tmp_path, jobs), wanted, strict=True):
        assert not isinstance(results, str), f"{job.kernel}: {results}"
        for result, one in zip(results[-len(made) :], made, strict=True):
            torch.testing.assert_close(result, one, equal_nan=True, msg=lambda m, j=job: f"{j.kernel}: {m}")


def test_images_of_more_than_31_bits_are_counted_in_64() -> None:
    d_out, places = (
        torch.empty(4096, 64, 512, 512, device="meta", dtype=d) for d in (torch.float32, torch.int8)
    )
    graph = traced(
        lambda d_out, places: max_pool2d_backward_op(d_out, places, [1024, 1024], [3, 3], [2, 2], [1, 1]),
        (d_out, places),
    )
    program = lower(graph, CUDA)
    (nest,) = program.steps
    assert isinstance(nest, Nest)
    plan, _ = plan_kernel(nest, program.buffers, CUDA)
    text = printed("large", plan)
    assert "row = tl.program_id(0).to(tl.int64) * ROWS" in text
