"""Positions that rotate some columns of a join: one kernel, whatever pieces they walk; sums of columns stay whole."""

from __future__ import annotations

import pytest
import torch

from longhand.schedule.plan import Launch, UnitPlan
from tests.schedule.test_scheduler import planned

TARGETS = ("cpu", "cuda")


def _pairs_rotated(x: torch.Tensor) -> torch.Tensor:
    return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)


def _halves_rotated(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def _twice(x: torch.Tensor) -> torch.Tensor:
    return x[..., None].expand(*x.shape, 2).flatten(-2)


def pairs_first(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    cos, sin = _twice(cos), _twice(sin)
    rotated, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    return torch.cat((rotated * cos + _pairs_rotated(rotated) * sin, rest), dim=-1)


def halves_first(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)
    rotated, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    return torch.cat((rotated * cos + _halves_rotated(rotated) * sin, rest), dim=-1)


def d_halves_first(d_out: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)
    d_rotated, d_rest = d_out[..., : cos.shape[-1]], d_out[..., cos.shape[-1] :]
    return torch.cat((d_rotated * cos - _halves_rotated(d_rotated * sin), d_rest), dim=-1)


def pairs_last(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    cos, sin = _twice(cos), _twice(sin)
    rest, rotated = x[..., : -cos.shape[-1]], x[..., -cos.shape[-1] :]
    return torch.cat((rest, rotated * cos + _pairs_rotated(rotated) * sin), dim=-1)


def _launches(plan: UnitPlan) -> list[Launch]:
    return [step for step in plan.steps if isinstance(step, Launch)]


def _inputs(n_cols: int, n_pairs: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(2, 3, 5, n_cols), torch.randn(5, n_pairs), torch.randn(5, n_pairs)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("function", [pairs_first, halves_first, d_halves_first, pairs_last])
def test_one_kernel_rotates_and_joins(function, target):
    assert len(_launches(planned(function, *_inputs(16, 4), target=target))) == 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("function", [pairs_first, pairs_last, halves_first, d_halves_first])
@pytest.mark.parametrize(("n_cols", "n_pairs"), [(17, 4), (11, 5), (7, 3), (6, 2)])
def test_columns_that_are_no_whole_pairs(function, target, n_cols, n_pairs):
    planned(function, *_inputs(n_cols, n_pairs), target=target)  # compared with eager there


def _projection_backward(
    d_out: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of a projection's bias and input, behind positions that rotate its heads in part."""
    d_heads = pairs_first(d_out, cos, sin)
    d_rows = d_heads.transpose(1, 2).reshape(-1, weight.shape[0])
    return d_rows @ weight, d_heads.sum((0, 2)).flatten()


@pytest.mark.parametrize("target", TARGETS)
def test_a_sum_of_columns_walks_no_pairs_and_reads_what_the_product_reads(target):
    plan = planned(_projection_backward, *_inputs(16, 4), torch.randn(48, 7), target=target)
    rotary, total = _launches(plan)
    of_columns = plan.kernels[total.kernel]
    assert of_columns.schedule.is_down_columns and len(of_columns.cols) == 1
    written = [name for name in rotary.buffers if name not in {"arg0_1", "arg1_1", "arg2_1"}]
    assert len(written) == 1 and written[0] in total.buffers  # the heads lie in no other layout


def test_a_value_that_the_caller_sees_keeps_its_layout():
    def both(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        heads = x * 2
        rows = heads.transpose(1, 2).reshape(-1, weight.shape[0])
        return heads, rows @ weight, heads.sum((0, 2))

    plan = planned(both, torch.randn(2, 3, 5, 16), torch.randn(48, 7))
    assert plan.results
