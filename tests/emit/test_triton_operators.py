"""Every pointwise operation, as printed for Triton, agrees with eager PyTorch: NaN, infinities and signs included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from longhand.emit.triton.operators import OperatorTable
from longhand.lower.ir import Constant, Pointwise, PointwiseOp, ReduceOp
from longhand.schedule.kernels.kernel import plan_kernel
from tests.emit.triton_units import Job, interpret, job_for, printed, write_unit
from tests.schedule.nests import CUDA, NestMaker, f32, f64, i64

Op = PointwiseOp
N = 100

# What a float can be, and what makes integer division round.
FLOATS = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.0, -3.0, 7.25, float("inf"), float("-inf"), float("nan")]
)
UNARY: dict[PointwiseOp, Callable[..., torch.Tensor]] = {
    op: getattr(torch, name)
    for op, name in {
        **{
            op: op.value
            for op in (Op.NEG, Op.ABS, Op.RECIPROCAL, Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND, Op.SQRT)
        },
        **{op: op.value for op in (Op.RSQRT, Op.EXP, Op.EXP2, Op.EXPM1, Op.LOG, Op.LOG2, Op.LOG10, Op.LOG1P)},
        **{
            op: op.value
            for op in (Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.SINH, Op.COSH, Op.TANH)
        },
        **{op: op.value for op in (Op.ASINH, Op.ACOSH, Op.ATANH, Op.ERF, Op.ERFC, Op.SIGMOID, Op.SIGN)},
    }.items()
}
BINARY: dict[PointwiseOp, Callable[..., torch.Tensor]] = {
    **{
        op: getattr(torch, op.value)
        for op in (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.REMAINDER, Op.FMOD, Op.MAXIMUM)
    },
    **{
        op: getattr(torch, op.value)
        for op in (Op.MINIMUM, Op.FMAX, Op.FMIN, Op.COPYSIGN, Op.NEXTAFTER, Op.POW)
    },
    **{op: getattr(torch, op.value) for op in (Op.ATAN2, Op.HYPOT)},
    Op.FLOOR_DIV: torch.floor_divide,
    Op.TRUNC_DIV: lambda a, b: torch.div(a, b, rounding_mode="trunc"),
}
TESTS = {op: getattr(torch, op.value) for op in (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)}
FLAGS = {op: getattr(torch, op.value) for op in (Op.ISNAN, Op.ISINF, Op.SIGNBIT)}
INTEGER: dict[PointwiseOp, Callable[..., torch.Tensor]] = {
    **{op: getattr(torch, op.value) for op in (Op.ADD, Op.SUB, Op.MUL, Op.REMAINDER, Op.FMOD, Op.MAXIMUM)},
    **{op: getattr(torch, op.value) for op in (Op.MINIMUM, Op.BITWISE_AND, Op.BITWISE_OR, Op.BITWISE_XOR)},
    Op.FLOOR_DIV: torch.floor_divide,
    Op.TRUNC_DIV: lambda a, b: torch.div(a, b, rounding_mode="trunc"),
}


def op_nest(op: PointwiseOp, n_arguments: int, dtype: torch.dtype, result: torch.dtype) -> NestMaker:
    make = NestMaker(i=N)
    arguments = [make.load(name, "i", dtype) for name in "ab"[:n_arguments]]
    value = make.add(Pointwise(op, tuple(int(a) for a in arguments), result))
    make.store("out", "i", value, result)
    return make


def cases() -> dict[str, tuple[NestMaker, Callable[..., torch.Tensor], torch.dtype, int]]:
    found = {}
    for op, eager in UNARY.items():
        found[f"{op.value}_float"] = (op_nest(op, 1, f32, f32), eager, f32, 1)
    for op, eager in BINARY.items():
        found[f"{op.value}_float"] = (op_nest(op, 2, f32, f32), eager, f32, 2)
    for op, eager in UNARY.items():
        found[f"{op.value}_double"] = (op_nest(op, 1, f64, f64), eager, f64, 1)
    for op, eager in BINARY.items():
        found[f"{op.value}_double"] = (op_nest(op, 2, f64, f64), eager, f64, 2)
    for op, eager in TESTS.items():
        found[f"{op.value}_float"] = (op_nest(op, 2, f32, torch.bool), eager, f32, 2)
    for op, eager in FLAGS.items():
        found[f"{op.value}_float"] = (op_nest(op, 1, f32, torch.bool), eager, f32, 1)
    for op, eager in INTEGER.items():
        found[f"{op.value}_int"] = (op_nest(op, 2, i64, i64), eager, i64, 2)
    return found


def operands(dtype: torch.dtype, number: int) -> torch.Tensor:
    if dtype is i64:
        values = torch.arange(-5, 5)
        values = values if number == 0 else torch.where(values == 0, 3, values)
        return values.repeat_interleave(10) if number == 0 else values.repeat(10)
    values = torch.cat(
        [FLOATS, torch.randn(N - len(FLOATS), generator=torch.Generator().manual_seed(number)) * 3]
    )
    return (values if number == 0 else values.roll(5)).to(dtype)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[torch.Tensor] | str]:
    folder: Path = tmp_path_factory.mktemp("operators") / "unit"
    texts: dict[str, str] = {}
    jobs: list[Job] = []
    for name, (make, _, dtype, n_arguments) in cases().items():
        plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
        texts[name] = printed(name, plan)
        memory = {"ab"[number]: operands(dtype, number) for number in range(n_arguments)}
        memory["out"] = torch.empty(N, dtype=make.buffers["out"].dtype)
        jobs.append(job_for(name, plan, launch, memory))
    write_unit(folder, texts)
    return dict(zip(texts, interpret(folder, jobs), strict=True))


@pytest.mark.parametrize("name", cases())
def test_operation_agrees_with_eager(name: str, results: dict[str, list[torch.Tensor] | str]) -> None:
    _, eager, dtype, n_arguments = cases()[name]
    actual = results[name]
    assert not isinstance(actual, str), actual
    expected = eager(*(operands(dtype, number) for number in range(n_arguments)))
    torch.testing.assert_close(actual[-1], expected, rtol=2e-6, atol=1e-6, equal_nan=True)


def test_quotients_that_are_rounded_afterwards_are_exact() -> None:
    make = NestMaker(i=N)
    quotient = make.load("a", "i") / make.load("b", "i")
    make.store("out", "i", make.op(Op.FLOOR, quotient))
    plan, _ = plan_kernel(make.nest(), make.buffers, CUDA)
    assert "tl.floor(tl.div_rn(a, b))" in printed("floor", plan)


def test_exponentials_below_the_maximum_of_another_value_are_exact() -> None:
    """They may be large: tl.exp errs in proportion to its argument."""
    for x, exp in (("a", "tl.exp("), ("b", "libdevice.exp(")):
        make = NestMaker(row=20, col=100)
        a, b = make.load("a", "row col"), make.load("b", "row col")
        shifted = {"a": a, "b": b}[x] - make.reduce(ReduceOp.MAX, a, "col")
        make.store("out", "row col", make.op(Op.EXP, shifted) + b)
        plan, _ = plan_kernel(make.nest(), make.buffers, CUDA)
        assert exp in printed("exponentials", plan)


@pytest.mark.parametrize(("dtype", "way"), [(f32, ".to(tl.int64).to(tl.uint8)"), (i64, "a.to(tl.uint8)")])
def test_a_negative_float_wraps_as_an_unsigned_number(dtype: torch.dtype, way: str) -> None:
    """A GPU's own conversion makes 0 of it, eager PyTorch 255 of -1; the interpreter does as eager."""
    make = NestMaker(i=N)
    cast = make.add(Pointwise(Op.CAST, (int(make.load("a", "i", dtype)),), torch.int32, torch.uint8))
    make.store("out", "i", cast, torch.uint8)
    plan, _ = plan_kernel(make.nest(), make.buffers, CUDA)
    assert way in printed("to_bytes", plan)


def test_a_maximum_that_shows_keeps_nan() -> None:
    make = NestMaker(row=20, col=100)
    make.store("out", "row", make.reduce(ReduceOp.MAX, make.load("x", "row col"), "col"))
    plan, _ = plan_kernel(make.nest(), make.buffers, CUDA)
    assert "tl.reduce(x, 1, nan_maximum, keep_dims=True)" in printed("row_max", plan)


def test_long_integers_keep_their_digits() -> None:
    make = NestMaker(i=N)
    make.store("out", "i", make.op(Op.MAXIMUM, make.load("a", "i", i64), make.constant(2**40, i64)), i64)
    plan, _ = plan_kernel(make.nest(), make.buffers, CUDA)
    text = printed("clamp", plan)
    assert f"{2**40}" in text


def test_every_operation_is_written() -> None:
    unary = {*UNARY, *FLAGS, Op.LOGICAL_NOT, Op.BITWISE_NOT}
    for op in Op:
        if op is Op.CAST:
            continue
        count = 3 if op is Op.WHERE else 1 if op in unary else 2
        body = (Constant(1.0, f32), Pointwise(op, (0,) * count, f32))
        assert OperatorTable(body)(body[1]).template
