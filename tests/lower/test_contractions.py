"""Matmuls and convolutions as contractions: the loops that stand beside the library's call compute what it computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from longhand.lower.interpreter import bind_sizes, run_nest, run_program
from longhand.lower.ir import Contraction, Extern, Load, Reduce, Store
from tests.lower.conftest import Lowered, lowered

aten = torch.ops.aten


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype)


PRODUCTS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "mm": (torch.mm, (randn(4, 5), randn(5, 6))),
    "mm_of_views": (lambda x, y: x.t() @ y[:, 1:4], (randn(5, 4), randn(5, 6))),
    "mm_of_a_repeated_row": (lambda x, y: x.expand(4, 5) @ y, (randn(1, 5), randn(5, 6))),
    "mm_of_one_row": (torch.mm, (randn(1, 5), randn(5, 6))),
    "mm_in_double": (torch.mm, (randn(4, 5, dtype=torch.float64), randn(5, 6, dtype=torch.float64))),
    "mm_in_bfloat16": (torch.mm, (randn(4, 5, dtype=torch.bfloat16), randn(5, 6, dtype=torch.bfloat16))),
    "bmm": (torch.bmm, (randn(3, 4, 5), randn(3, 5, 6))),
    "mv": (torch.mv, (randn(4, 5), randn(5))),
    "dot": (torch.dot, (randn(5), randn(5))),
    "addmm": (torch.addmm, (randn(6), randn(4, 5), randn(5, 6))),
    "addmm_scaled": (
        lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2),
        (randn(4, 6), randn(4, 5), randn(5, 6)),
    ),
    "addmm_of_a_column": (torch.addmm, (randn(4, 1), randn(4, 5), randn(5, 6))),
    "baddbmm": (torch.baddbmm, (randn(4, 6), randn(3, 4, 5), randn(3, 5, 6))),
    "addmv": (torch.addmv, (randn(4), randn(4, 5), randn(5))),
    "linear": (torch.nn.functional.linear, (randn(2, 3, 5), randn(6, 5))),
    "linear_with_a_bias": (torch.nn.functional.linear, (randn(2, 3, 5), randn(6, 5), randn(6))),
    "linear_of_a_vector": (torch.nn.functional.linear, (randn(5), randn(6, 5), randn(6))),
    "matmul": (torch.matmul, (randn(2, 3, 4, 5), randn(2, 3, 5, 6))),
    "matmul_broadcast": (torch.matmul, (randn(2, 1, 4, 5), randn(3, 5, 6))),
    "matmul_of_a_vector": (torch.matmul, (randn(2, 4, 5), randn(5))),
}
CONVOLUTIONS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "conv1d": (torch.nn.functional.conv1d, (randn(2, 3, 8), randn(4, 3, 3))),
    "conv2d": (torch.nn.functional.conv2d, (randn(2, 3, 6, 7), randn(4, 3, 3, 2), randn(4))),
    "padded": (
        lambda x, w, b: torch.nn.functional.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        (randn(2, 3, 6, 7), randn(4, 3, 3, 2), randn(4)),
    ),
    "in_groups": (
        lambda x, w: torch.nn.functional.conv2d(x, w, padding=1, groups=2),
        (randn(2, 4, 5, 5), randn(6, 2, 3, 3)),
    ),
    "depthwise": (
        lambda x, w: torch.nn.functional.conv2d(x, w, padding=1, groups=4),
        (randn(2, 4, 5, 5), randn(4, 1, 3, 3)),
    ),
    "of_one_pixel": (torch.nn.functional.conv2d, (randn(2, 3, 4, 4), randn(5, 3, 1, 1))),
    "conv3d": (
        lambda x, w: torch.nn.functional.conv3d(x, w, padding=(1, 0, 1)),
        (randn(1, 2, 3, 4, 5), randn(3, 2, 2, 2, 3)),
    ),
}


def contraction_of(found: Lowered) -> Contraction:
    (step,) = (step for step in found.program.steps if isinstance(step, Contraction))
    return step


def of_loops(found: Lowered, step: Contraction) -> tuple[torch.Tensor, torch.Tensor]:
    """The result as the call makes it, and as the loops do."""
    buffers = run_program(found.program, found.inputs)
    (name,) = step.call.outputs
    by_call = buffers[name]
    buffers[name] = torch.full_like(by_call, torch.nan)
    run_nest(step.loops, buffers, sizes=bind_sizes(found.program, found.inputs))
    return by_call, buffers[name]


@pytest.mark.parametrize("name", [*PRODUCTS, *CONVOLUTIONS])
def test_loops_compute_what_the_call_does(name: str) -> None:
    function, args = {**PRODUCTS, **CONVOLUTIONS}[name]
    found = lowered(function, *args)
    step = contraction_of(found)
    by_call, by_loops = of_loops(found, step)
    torch.testing.assert_close(by_loops, by_call, rtol=1e-2 if by_call.dtype is torch.bfloat16 else None,
                               atol=1e-2 if by_call.dtype is torch.bfloat16 else None)  # fmt: skip
    assert not step.before and not step.after and step.steps == (step.call,)


@pytest.mark.parametrize("name", ["mm", "addmm", "linear", "matmul"])
def test_sizes_may_be_symbols(name: str) -> None:
    function, args = PRODUCTS[name]
    found = lowered(function, *args, symbolic=True)
    by_call, by_loops = of_loops(found, contraction_of(found))
    torch.testing.assert_close(by_loops, by_call)


def test_the_parts_of_a_contraction_are_told() -> None:
    function, args = PRODUCTS["linear_with_a_bias"]
    step = contraction_of(lowered(function, *args))
    body = step.body
    assert len(step.axes) == 4 and step.over == (step.axes[-1].name,)
    assert isinstance(body[step.sum], Reduce)
    operands = [body[factor] for factor in step.factors]
    assert [type(one) for one in operands] == [Load, Load] and len(step.prologue) == 2
    told = [body[position] for position in step.epilogue]
    assert isinstance(told[0], Load) and isinstance(told[-1], Store)  # the bias, and what is stored
    assert {*step.prologue, *step.epilogue} | {step.sum, body[step.sum].arg} == set(range(len(body)))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (torch.mm, (torch.arange(20).reshape(4, 5), torch.arange(30).reshape(5, 6))),
        (torch.mm, (randn(4, 1), randn(1, 6))),
        (torch.mm, (randn(4, 5), randn(5, 0))),
        (lambda b, x, y: torch.addmm(b, x, y, beta=0), (randn(6), randn(4, 5), randn(5, 6))),
        (torch.nn.functional.conv_transpose2d, (randn(2, 3, 4, 4), randn(3, 5, 2, 2))),
        (torch.nn.functional.conv2d, (randn(3, 4, 4), randn(5, 3, 2, 2))),
        (
            lambda x, w: torch.nn.functional.conv2d(x.to(memory_format=torch.channels_last), w),
            (randn(2, 3, 4, 4), randn(5, 3, 3, 3)),
        ),
        (lambda x, y: torch.mm(x, y), (randn(4, 5).to(torch.complex64), randn(5, 6).to(torch.complex64))),
    ],
    ids=[
        "whole_numbers",
        "nothing_is_summed",
        "empty",
        "beta_0",
        "transposed",
        "no_batch",
        "any_layout",
        "complex",
    ],
)
def test_what_has_no_loops_stays_a_call(
    function: Callable[..., torch.Tensor], args: tuple[torch.Tensor, ...]
) -> None:
    found = lowered(function, *args)
    assert not [step for step in found.program.steps if isinstance(step, Contraction)]
    assert [step for step in found.program.steps if isinstance(step, Extern)]
