"""A plan and its launch, executed literally, compute what the nest computes."""

from __future__ import annotations

import pytest
import torch

from longhand.options import Options
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.schedules.columns import COLUMNS
from longhand.schedule.kernels.schedules.elementwise import ELEMENTWISE
from longhand.schedule.kernels.schedules.transposed import TRANSPOSED
from tests.schedule import nests
from tests.schedule.execution import all_arguments_earlier, fresh_memory, run_nest, run_padded, run_plan
from tests.schedule.nests import DEVICES, NestMaker, f32

CASES = {
    "exp_normalize": nests.exp_normalize(6, 37),
    "softmax_with_bias": nests.softmax_with_bias(5, 33),
    "softmax_float32": nests.softmax_with_bias(5, 33, f32),
    "softmax_long": nests.softmax_with_bias(2, 40000),
    "add_layer_norm": nests.add_layer_norm(2, 3, 29),
    "add_layer_norm_long": nests.add_layer_norm(1, 2, 40000),
    "add_layer_norm_residual": nests.add_layer_norm(2, 3, 29, keep_residual=True),
    "gelu_bias": nests.gelu_bias(5, 40),
    "cross_entropy": nests.cross_entropy(6, 50),
    "cross_entropy_long": nests.cross_entropy(3, 40000),
    "column_sum": nests.column_sum(70, 9),
    "column_sum_split": nests.column_sum(700, 100),
    "transpose_add": nests.transpose_add(35, 21),
    "rotary": nests.rotary(2, 5, 3, 4),
    "split_gate": nests.split_gate(7, 12),
    "full_sum": nests.full_sum(9, 11),
    "full_sum_split": nests.full_sum(300, 300),
    "channel_affine": nests.channel_affine(2, 5, 18),
    "channel_statistics": nests.channel_statistics(3, 5, 18),
    "channel_statistics_split": nests.channel_statistics(3, 5, 30000),
    "softmax_over_channels": nests.softmax_over_channels(2, 6, 19),
    "integer_rows": nests.integer_rows(6, 20),
    "masked_softmax": nests.masked_softmax(8, 8),
    "flip_columns": nests.flip_columns(4, 9),
    "embedding": nests.embedding(6, 10),
    "rms_norm": nests.rms_norm(6, 40),
}


def compare(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    for name, tensor in expected.items():
        torch.testing.assert_close(actual[name], tensor, rtol=2e-5, atol=2e-5, equal_nan=False, msg=name)


@pytest.mark.parametrize("options", DEVICES, ids=("cpu", "cuda"))
@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_plan_means_what_the_nest_means(make: NestMaker, options: Options) -> None:
    plan, launch = plan_kernel(make.nest(), make.buffers, options)
    assert all_arguments_earlier(plan.body)
    memory = fresh_memory(make.nest().body, make.buffers)
    compare(run_plan(plan, launch, memory), run_nest(make.nest(), memory))


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_lanes_past_the_end_change_nothing(make: NestMaker) -> None:
    plan, launch = plan_kernel(make.nest(), make.buffers, nests.CUDA)
    side = plan.rows if plan.schedule is COLUMNS else plan.cols
    if plan.schedule in (ELEMENTWISE, TRANSPOSED) or len(side) != 1:
        assert not plan.guards or len(side) > 1
        return
    memory = fresh_memory(make.nest().body, make.buffers)
    compare(run_padded(plan, launch, memory), run_nest(make.nest(), memory))
