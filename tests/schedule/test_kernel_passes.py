"""Loops over rows: how many, what waits between them, what lanes past the end hold, and what may work in place."""

from __future__ import annotations

import dataclasses
import math

import pytest

from longhand.lower.ir import Load, Pointwise, PointwiseOp, ReduceOp, Store
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.memory.alias_legality import may_alias
from longhand.schedule.plan import KernelPlan, OnlineSoftmax, Stage
from longhand.schedule.targets import CPP, TRITON, facts_of
from tests.schedule import nests
from tests.schedule.nests import CPU, CUDA, NestMaker, bf16, f32


def planned(make: NestMaker, options=CUDA) -> KernelPlan:
    return plan_kernel(make.nest(), make.buffers, options)[0]


def find(plan: KernelPlan, op: PointwiseOp) -> int:
    return next(at for at, value in enumerate(plan.body) if isinstance(value, Pointwise) and value.op is op)


def load_of(plan: KernelPlan, name: str) -> int:
    return next(at for at, value in enumerate(plan.body) if isinstance(value, Load) and value.buffer == name)


def store_of(plan: KernelPlan, name: str) -> int:
    return next(at for at, value in enumerate(plan.body) if isinstance(value, Store) and value.buffer == name)


def test_exp_normalize_waits_in_the_output_row() -> None:
    plan = planned(nests.exp_normalize(64, 1024), CPU)
    exp = find(plan, PointwiseOp.EXP)
    first, second = plan.passes
    assert first.stages == (Stage(exp, store_of(plan, "weights")),)
    assert second.from_stage == (exp,) and second.compute == (find(plan, PointwiseOp.DIV),)


def test_layer_norm_keeps_the_residual_and_centers_again() -> None:
    plan = planned(nests.add_layer_norm(4, 16, 768), CPU)
    residual, centered = find(plan, PointwiseOp.ADD), find(plan, PointwiseOp.SUB)
    assert len(plan.passes) == 3
    assert [one.stages for one in plan.passes] == [(Stage(residual, store_of(plan, "h")),), (), ()]
    assert all(residual in one.from_stage and centered in one.compute for one in plan.passes[1:])


def test_a_stored_residual_is_read_back_from_its_own_row() -> None:
    plan = planned(nests.add_layer_norm(4, 16, 768, keep_residual=True), CPU)
    kept = store_of(plan, "residual")
    assert plan.passes[0].stores == (kept,)
    assert plan.passes[0].stages == (Stage(find(plan, PointwiseOp.ADD), kept),)


def test_bfloat16_rows_cannot_hold_float32() -> None:
    plan = planned(nests.softmax_with_bias(64, 1024, bf16), CPU)
    assert all(stage.store is None for one in plan.passes for stage in one.stages)
    assert plan.passes[1].stages == (Stage(find(plan, PointwiseOp.EXP), None),)


def test_the_gpu_finds_maximum_and_sum_in_one_loop() -> None:
    plan = planned(nests.cross_entropy(8192, 32768))
    (only,) = plan.passes
    assert isinstance(only.reductions[0], OnlineSoftmax)
    assert only.compute == (load_of(plan, "logits"),)
    target = load_of(plan, "target")
    assert plan.before == () and target in only.then, "what only the end of the row uses is loaded there"
    two = planned(nests.softmax_with_bias(512, 65536))
    assert len(two.passes) == 2 and not any(one.stages for one in two.passes)


def test_row_values_that_loops_use_come_before() -> None:
    make = NestMaker(row=8, col=64)
    scaled = make.load("x", "row col") * make.load("scale", "row")
    make.store("out", "row", make.reduce(ReduceOp.SUM, scaled, "col"))
    plan = planned(make, CPU)
    assert plan.before == (load_of(plan, "scale"),)


def test_softmax_needs_no_where() -> None:
    plan = planned(nests.softmax_with_bias(16384, 4096))
    assert plan.guards == ()
    assert plan.padding == {load_of(plan, "scores"): -math.inf, load_of(plan, "bias"): 0.0}


def test_what_is_below_the_maximum_of_another_value_is_guarded() -> None:
    """Where all x are -inf, y - max(x) is infinite in the row, and NaN past its end."""
    make = NestMaker(row=8, col=60)
    x, y = make.load("x", "row col"), make.load("y", "row col")
    shifted = y - make.reduce(ReduceOp.MAX, x, "col")
    make.store("out", "row", make.reduce(ReduceOp.SUM, make.op(PointwiseOp.EXP, shifted), "col"))
    assert len(planned(make).guards) == 1


def test_layer_norm_guards_the_centered_square_only() -> None:
    plan = planned(nests.add_layer_norm(4, 16, 768))
    (guard,) = plan.guards
    square = plan.body[plan.body[guard].arg]
    assert isinstance(square, Pointwise) and square.op is PointwiseOp.MUL
    assert plan.padding == {load_of(plan, "x"): 0.0, load_of(plan, "attn"): 0.0}, "weight feeds no reduction"


def test_a_masked_load_keeps_its_own_other() -> None:
    make = NestMaker(row=8, col=64)
    inside = make.op(PointwiseOp.LE, make.position(col=1), make.position(row=1))
    x = make.load("x", "row col", mask=inside)
    make.store("out", "row", make.reduce(ReduceOp.MAX, x, "col"))
    plan = planned(make)
    assert plan.padding == {load_of(plan, "x"): 0} and len(plan.guards) == 1


def test_elementwise_kernels_pad_nothing() -> None:
    assert planned(nests.gelu_bias(4, 64)).padding == {}


def test_a_sum_of_row_values_is_guarded() -> None:
    """Each lane past the end would count once more."""
    make = NestMaker(row=8, col=64)
    total = make.reduce(ReduceOp.SUM, make.load("scale", "row"), "col")
    make.store("out", "row col", make.load("x", "row col") * total)
    assert len(planned(make).guards) == 1


@pytest.mark.parametrize("options", nests.DEVICES)
def test_softmax_may_work_in_place(options) -> None:
    plan = planned(nests.softmax_with_bias(64, 1024, f32), options)
    target = facts_of(options.target)
    assert may_alias(plan, "scores", "weights", target)
    assert not may_alias(plan, "bias", "weights", target)


def test_in_place_ends_where_a_later_loop_reads_again() -> None:
    make = NestMaker(row=8, col=64)
    x = make.load("x", "row col")
    make.store("twice", "row col", x + x)
    make.store("out", "row col", x * make.reduce(ReduceOp.SUM, x, "col"))
    plan = planned(make, CPU)
    assert not may_alias(plan, "x", "twice", CPP), "the second loop loads x again"
    assert may_alias(plan, "x", "out", CPP)


@pytest.mark.parametrize("kept", ["row", "col"])
def test_what_a_stored_sum_adds_up_is_overwritten_by_one_thread_only(kept: str) -> None:
    """On a GPU a late warp, which holds the same elements, would add up what another has stored already."""
    make = NestMaker(row=608, col=16)
    x, scale = make.load("x", "row col"), make.load("scale", "row col")
    make.store("out", "row col", x * scale)
    make.store("sums", kept, make.reduce(ReduceOp.SUM, x * 2.0, "row" if kept == "col" else "col"))
    plan = planned(make, CUDA)
    assert not may_alias(plan, "x", "out", TRITON) and may_alias(plan, "scale", "out", TRITON)
    untuned = dataclasses.replace(plan, tunables=())
    assert not may_alias(untuned, "x", "out", TRITON), "what a tunable is called does not matter"
    assert may_alias(planned(make, CPU), "x", "out", CPP)


def test_an_updated_input_is_written_last() -> None:
    make = NestMaker(row=8, col=64)
    x = make.load("x", "row col")
    make.store("x", "row col", x * 2.0)
    make.store("out", "row col", x / make.reduce(ReduceOp.SUM, x, "col"))
    plan = planned(make, CPU)
    assert [store_of(plan, "x") in one.stores for one in plan.passes] == [False, True]


def test_transposed_reads_are_not_in_place() -> None:
    plan = planned(nests.transpose_add(64, 64))
    assert may_alias(plan, "y", "out", TRITON) and not may_alias(plan, "x", "out", TRITON)
