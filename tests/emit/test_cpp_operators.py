"""Every pointwise operation and reduction in C++ means what it means in eager PyTorch, special values included."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch

from longhand.lower.ir import Pointwise, PointwiseOp, ReduceOp, compute_dtype
from longhand.schedule.kernels.kernel import plan_kernel
from tests.emit.cpp_kernels import run_cpp
from tests.schedule.nests import CPU, NestMaker

P = PointwiseOp
F32, F64, I8, U8, I16, I32, I64 = (
    torch.float32,
    torch.float64,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
)
HALVES = (torch.bfloat16, torch.float16)
DTYPES = (F32, F64, *HALVES, I8, U8, I16, I32, I64, torch.bool)

_EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    1e-40,
    -1e-40,
    3e38,
    -3e38,
    7.0,
    -7.0,
    1e-8,
    88.0,
    -104.0,
]
_EDGES += [math.inf, -math.inf, math.nan]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def floats(dtype: torch.dtype) -> torch.Tensor:
    """Edge values in every pair, then random ones of all magnitudes."""
    generator = torch.Generator().manual_seed(3)
    wide = torch.randn(501, generator=generator) * 10.0 ** torch.randint(-6, 7, (501,), generator=generator)
    return torch.cat(
        (torch.tensor(_EDGES, dtype=F64), wide.double(), torch.randn(1000, generator=generator).double())
    ).to(dtype)


def pairs(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of the edges, then the random values against themselves in another order."""
    edges = values[: len(_EDGES)]
    rest = values[len(_EDGES) :]
    a, b = torch.cartesian_prod(edges, edges).unbind(1)
    return torch.cat((a, rest)).contiguous(), torch.cat((b, rest.roll(7))).contiguous()


def run_pointwise(
    ops: Iterable[PointwiseOp], inputs: list[torch.Tensor], out_dtype: torch.dtype, folder: Path
) -> dict[PointwiseOp, torch.Tensor]:
    """One kernel over one axis that stores the result of each operation."""
    make = NestMaker(i=inputs[0].numel())
    memory = {f"x{k}": tensor for k, tensor in enumerate(inputs)}
    loads = tuple(int(make.load(name, "i", tensor.dtype)) for name, tensor in memory.items())
    for op in ops:
        make.store(
            f"{op.value}_out", "i", make.add(Pointwise(op, loads, compute_dtype(out_dtype))), out_dtype
        )
        memory[f"{op.value}_out"] = torch.empty(inputs[0].numel(), dtype=out_dtype)
    plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
    result = run_cpp(plan, launch, memory, folder)
    return {op: result[f"{op.value}_out"] for op in ops}


UNARY: dict[PointwiseOp, Callable[..., torch.Tensor]] = {
    P.NEG: torch.neg, P.ABS: torch.abs, P.SIGN: torch.sign, P.RECIPROCAL: torch.reciprocal, P.FLOOR: torch.floor,
    P.CEIL: torch.ceil, P.TRUNC: torch.trunc, P.ROUND: torch.round, P.SQRT: torch.sqrt, P.RSQRT: torch.rsqrt,
    P.EXP: torch.exp, P.EXP2: torch.exp2, P.EXPM1: torch.expm1, P.LOG: torch.log, P.LOG2: torch.log2,
    P.LOG10: torch.log10, P.LOG1P: torch.log1p, P.SIN: torch.sin, P.COS: torch.cos, P.TAN: torch.tan,
    P.ASIN: torch.asin, P.ACOS: torch.acos, P.ATAN: torch.atan, P.SINH: torch.sinh, P.COSH: torch.cosh,
    P.TANH: torch.tanh, P.ASINH: torch.asinh, P.ACOSH: torch.acosh, P.ATANH: torch.atanh, P.ERF: torch.erf,
    P.ERFC: torch.erfc, P.SIGMOID: torch.sigmoid,
}  # fmt: skip
BINARY: dict[PointwiseOp, Callable[..., torch.Tensor]] = {
    P.ADD: torch.add, P.SUB: torch.sub, P.MUL: torch.mul, P.DIV: torch.div,
    P.FLOOR_DIV: lambda a, b: torch.div(a, b, rounding_mode="floor"),
    P.TRUNC_DIV: lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    P.REMAINDER: torch.remainder, P.FMOD: torch.fmod, P.MAXIMUM: torch.maximum, P.MINIMUM: torch.minimum,
    P.FMAX: torch.fmax, P.FMIN: torch.fmin, P.COPYSIGN: torch.copysign, P.NEXTAFTER: torch.nextafter,
    P.POW: torch.pow, P.ATAN2: torch.atan2, P.HYPOT: torch.hypot,
}  # fmt: skip
TESTS: dict[PointwiseOp, Callable[..., torch.Tensor]] = {
    P.EQ: torch.eq, P.NE: torch.ne, P.LT: torch.lt, P.LE: torch.le, P.GT: torch.gt, P.GE: torch.ge,
}  # fmt: skip
INTEGER: dict[PointwiseOp, Callable[..., torch.Tensor]] = {
    op: BINARY[op] for op in (P.ADD, P.SUB, P.MUL, P.MAXIMUM, P.MINIMUM, P.FLOOR_DIV, P.TRUNC_DIV, P.REMAINDER, P.FMOD)
} | {
    P.BITWISE_AND: torch.bitwise_and, P.BITWISE_OR: torch.bitwise_or, P.BITWISE_XOR: torch.bitwise_xor,
    P.SHIFT_LEFT: torch.bitwise_left_shift, P.SHIFT_RIGHT: torch.bitwise_right_shift, P.POW: torch.pow,
}  # fmt: skip
# Units in the last place of the exact result: libmvec promises 4; nothing may lose denormals or special values.
EXACT = {
    P.NEG,
    P.ABS,
    P.SIGN,
    P.FLOOR,
    P.CEIL,
    P.TRUNC,
    P.ROUND,
    P.MAXIMUM,
    P.MINIMUM,
    P.FMAX,
    P.FMIN,
    P.COPYSIGN,
}
EXACT |= {P.NEXTAFTER, P.FMOD, P.FLOOR_DIV, P.REMAINDER, P.TRUNC_DIV}


def assert_near(
    op: PointwiseOp, got: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype, ulps: float
) -> None:
    """Within so many units in the last place of the result; NaN, infinities and the zero's sign as given."""
    info = torch.finfo(dtype)
    expected = exact.to(dtype)
    got64, exact64 = got.double(), exact.double()
    same = (got == expected) | (got.isnan() & expected.isnan())
    step = exact64.abs().clamp(min=info.tiny) * info.eps
    near = (got64 - exact64).abs() <= ulps * step
    bad = ~(same | near)
    assert not bad.any(), (op, got[bad][:5], expected[bad][:5])


@pytest.mark.parametrize("dtype", [F32, F64])
def test_unary(dtype: torch.dtype, tmp_path: Path) -> None:
    x = floats(dtype)
    for op, got in run_pointwise(UNARY, [x], dtype, tmp_path).items():
        exact = UNARY[op](x.double())
        if op is P.SIGMOID:  # as in eager, what would be a denormal may be zero
            exact = torch.where(exact < torch.finfo(dtype).tiny, got.double(), exact)
        assert_near(op, got, exact, dtype, 0 if op in EXACT else 5)
        if op in EXACT:
            kept = ~exact.isnan()
            assert torch.equal(got[kept].signbit(), exact[kept].signbit()), op


@pytest.mark.parametrize("dtype", [F32, F64])
def test_binary(dtype: torch.dtype, tmp_path: Path) -> None:
    a, b = pairs(floats(dtype))
    for op, got in run_pointwise(BINARY, [a, b], dtype, tmp_path).items():
        in_own_type = op in (P.FLOOR_DIV, P.TRUNC_DIV, P.NEXTAFTER)
        exact = BINARY[op](a, b) if in_own_type else BINARY[op](a.double(), b.double())
        assert_near(op, got, exact, dtype, 0 if op in EXACT else 5)


def test_tests_of_floats(tmp_path: Path) -> None:
    a, b = pairs(floats(F32))
    for op, got in run_pointwise(TESTS, [a, b], torch.bool, tmp_path).items():
        assert torch.equal(got, TESTS[op](a, b)), op
    kinds = {P.ISNAN: torch.isnan, P.ISINF: torch.isinf, P.SIGNBIT: torch.signbit}
    for op, got in run_pointwise(kinds, [a], torch.bool, tmp_path / "kinds").items():
        assert torch.equal(got, kinds[op](a)), op


@pytest.mark.parametrize("dtype", [I32, I64])
def test_integers(dtype: torch.dtype, tmp_path: Path) -> None:
    info = torch.iinfo(dtype)
    edges = torch.tensor([0, 1, -1, 2, -2, 7, -7, 31, 32, 63, 64, info.max, info.min], dtype=dtype)
    a, b = (side.contiguous() for side in torch.cartesian_prod(edges, edges).unbind(1))
    traps = (b == 0) | ((a == info.min) & (b == -1))  # eager raises or traps there; we must not trap
    divisions = (P.FLOOR_DIV, P.TRUNC_DIV, P.REMAINDER, P.FMOD)
    for op, got in run_pointwise(INTEGER, [a, b], dtype, tmp_path).items():
        kept = ~traps if op in divisions else torch.ones_like(traps)
        assert torch.equal(got[kept], INTEGER[op](a[kept], b[kept])), op


def test_integer_unary(tmp_path: Path) -> None:
    x = torch.tensor([0, 1, -1, 7, 2**31 - 1, -(2**31)], dtype=I32)
    eager = {P.NEG: torch.neg, P.ABS: torch.abs, P.SIGN: torch.sign, P.BITWISE_NOT: torch.bitwise_not}
    for op, got in run_pointwise(eager, [x], I32, tmp_path).items():
        assert torch.equal(got, eager[op](x)), op


def test_logic(tmp_path: Path) -> None:
    a, b = torch.rand(333) > 0.5, torch.rand(333) > 0.5
    eager = {
        P.LOGICAL_AND: torch.logical_and,
        P.LOGICAL_OR: torch.logical_or,
        P.LOGICAL_XOR: torch.logical_xor,
    }
    for op, got in run_pointwise(eager, [a, b], torch.bool, tmp_path).items():
        assert torch.equal(got, eager[op](a, b)), op


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_round_as_eager(dtype: torch.dtype, tmp_path: Path) -> None:
    """Every 16-bit pattern survives; float32 values round to the nearest even, denormals and overflow included."""
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(I16).view(dtype)
    got = run_pointwise([P.ABS], [patterns], dtype, tmp_path)[P.ABS]
    assert torch.equal(got.isnan(), patterns.isnan())
    kept = ~patterns.isnan()
    assert torch.equal(got[kept].view(I16), patterns.abs()[kept].view(I16))

    generator = torch.Generator().manual_seed(0)
    words = torch.randint(-(2**31), 2**31, (200_000,), generator=generator).to(I32).view(F32)
    halfway = (patterns.float() + patterns.float().roll(1)) / 2
    scaled = torch.randn(100_000, generator=generator) * 10.0 ** torch.randint(
        -8, 6, (100_000,), generator=generator
    )
    values = torch.cat(
        (words, halfway, scaled, torch.tensor([65519.996, 65520.0, -65520.0, 2.0**-25, 3 * 2.0**-26]))
    )
    got = run_pointwise([P.ABS], [values], dtype, tmp_path)[P.ABS]
    expected = values.abs().to(dtype)
    assert torch.equal(got.isnan(), expected.isnan())
    kept = ~expected.isnan()
    assert torch.equal(got[kept].view(I16), expected[kept].view(I16))


@pytest.mark.parametrize("op, eager, n_units", [(P.ERF, torch.erf, 3.0), (P.EXP, torch.exp, 1.0)])
def test_functions_of_ours_are_as_exact_as_they_say(
    op: P, eager: Callable[..., torch.Tensor], n_units: float, tmp_path: Path
) -> None:
    """Over all magnitudes, denormal results included; infinities and NaN of every kind come out as they should."""
    magnitudes = torch.arange(0, 0x7F800000, 4001, dtype=I32).view(F32)
    dense = torch.cat((torch.linspace(0, 4.1, 200_000), torch.linspace(86, 105, 100_000)))
    x = torch.cat((magnitudes, dense, torch.tensor([math.inf, math.nan, 0.9, 4.0, 88.722839, 88.722847])))
    nan_with_payload = torch.tensor([0x7FFFFFFF, -1, 0x7F800001], dtype=I32).view(F32)
    x = torch.cat((x, -x, nan_with_payload))
    got = run_pointwise([op], [x], F32, tmp_path)[op]
    exact = eager(x.double())
    assert torch.equal(got.isnan(), x.isnan())
    assert torch.equal(got.isinf(), exact.to(F32).isinf())
    assert torch.equal(got.signbit()[~x.isnan()], exact.signbit()[~x.isnan()])
    if op is P.ERF:
        assert float(got.nan_to_num().abs().max()) == 1.0
    spacing = torch.ldexp(torch.ones_like(exact), (torch.frexp(exact).exponent - 24).clamp(min=-149))
    error = ((got.double() - exact).abs() / spacing)[got.isfinite()]
    assert float(error.max()) <= n_units


@pytest.mark.parametrize("shape, dim", [((7, 29), 1), ((3, 5003), 1), ((1, 300_001), 1), ((77, 40), 0)])
def test_sums_that_leave_the_kernel_are_exact_up_to_one_rounding(
    shape: tuple[int, int], dim: int, tmp_path: Path
) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(5)) + 25
    make = NestMaker(row=shape[0], col=shape[1])
    total = make.reduce(ReduceOp.SUM, make.load("x", "row col", F32), "row" if dim == 0 else "col")
    make.store("total", ("col" if dim == 0 else "row") if shape[1 - dim] != 1 else "", total, F32)
    plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
    memory = {"x": x.reshape(-1), "total": torch.empty(shape[1 - dim])}
    got = run_cpp(plan, launch, memory, tmp_path)["total"]
    assert torch.equal(got, x.double().sum(dim).float())


@pytest.mark.parametrize("source", DTYPES)
def test_casts(source: torch.dtype, tmp_path: Path) -> None:
    if source.is_floating_point:
        x = torch.tensor([0.0, -0.0, 0.4, -0.6, 1.0, 2.5, 100.7, 120.0], dtype=source)
    else:
        low, high = (0, 2) if source is torch.bool else (torch.iinfo(source).min, torch.iinfo(source).max)
        x = torch.randint(low, high, (100,)).to(source)
    make = NestMaker(i=x.numel())
    load = int(make.load("x", "i", source))
    memory = {"x": x}
    for target in DTYPES:
        narrow = target if target in (I8, U8, I16) else None
        value = make.add(Pointwise(P.CAST, (load,), compute_dtype(target), narrow))
        make.store(f"{target}_out"[6:], "i", value, target)
        memory[f"{target}_out"[6:]] = torch.empty(x.numel(), dtype=target)
    plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
    got = run_cpp(plan, launch, memory, tmp_path)
    for target in DTYPES:
        assert torch.equal(got[f"{target}_out"[6:]], x.to(target)), target


EAGER_REDUCTIONS: dict[ReduceOp, Callable[..., torch.Tensor]] = {
    ReduceOp.SUM: lambda x, dim: x.sum(dim, dtype=x.dtype),
    ReduceOp.PROD: lambda x, dim: x.prod(dim, dtype=x.dtype),
    ReduceOp.MAX: torch.amax,
    ReduceOp.MIN: torch.amin,
    ReduceOp.ARGMAX: torch.argmax,
    ReduceOp.ARGMIN: torch.argmin,
}


SHAPES = [((9, 130), 1), ((130, 9), 0), ((1, 70000), 1), ((700, 300), 0), ((3, 70000), 1)]


@pytest.mark.parametrize("shape, dim", SHAPES)
@pytest.mark.parametrize("dtype", [F32, F64, I64])
def test_reductions(dtype: torch.dtype, shape: tuple[int, int], dim: int, tmp_path: Path) -> None:
    """Every reduction of one tensor in one kernel; ties, NaN (the first wins) and infinities in the extreme ones."""
    generator = torch.Generator().manual_seed(1)
    plain = torch.randint(-1, 2, shape, generator=generator).to(dtype)
    hard = plain.clone()
    if dtype.is_floating_point:
        hard = torch.randn(shape, generator=generator, dtype=dtype).mul(8).round() / 8
        lanes = hard if dim == 1 else hard.T
        lanes[0, lanes.shape[1] // 2] = math.nan
        lanes[0, lanes.shape[1] // 2 + 3] = math.nan
        if lanes.shape[0] > 2:
            lanes[1] = -math.inf
            lanes[2] = math.inf
    signs = plain.abs() * 2 - 1
    make = NestMaker(row=shape[0], col=shape[1])
    memory = {"hard": hard.reshape(-1), "plain": plain.reshape(-1), "signs": signs.reshape(-1)}
    loads = {name: make.load(name, "row col", dtype) for name in memory}
    expected: dict[str, torch.Tensor] = {}
    for op, eager in EAGER_REDUCTIONS.items():
        name = {ReduceOp.SUM: "plain", ReduceOp.PROD: "signs"}.get(op, "hard")
        expected[op.value] = eager(memory[name].view(shape), dim).reshape(-1)
        value = make.reduce(op, loads[name], "row" if dim == 0 else "col")
        kept = ("col" if dim == 0 else "row") if shape[1 - dim] != 1 else ""
        make.store(op.value, kept, value, expected[op.value].dtype)
    memory |= {name: torch.empty_like(tensor) for name, tensor in expected.items()}
    plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
    got = run_cpp(plan, launch, memory, tmp_path)
    for name, tensor in expected.items():
        assert torch.equal(got[name].nan_to_num(99), tensor.nan_to_num(99)), name


@pytest.mark.parametrize("shape, dim", SHAPES)
def test_any_and_all(shape: tuple[int, int], dim: int, tmp_path: Path) -> None:
    x = torch.ones(shape, dtype=torch.bool)
    (x if dim == 1 else x.T)[0, -1] = False
    make = NestMaker(row=shape[0], col=shape[1])
    load = make.load("x", "row col", torch.bool)
    flipped = make.op(P.LOGICAL_NOT, load)
    kept = ("col" if dim == 0 else "row") if shape[1 - dim] != 1 else ""
    over = "row" if dim == 0 else "col"
    make.store("all", kept, make.reduce(ReduceOp.ALL, load, over), torch.bool)
    make.store("any", kept, make.reduce(ReduceOp.ANY, flipped, over), torch.bool)
    plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
    memory = {"x": x.reshape(-1)} | {
        name: torch.empty(shape[1 - dim], dtype=torch.bool) for name in ("all", "any")
    }
    got = run_cpp(plan, launch, memory, tmp_path)
    assert torch.equal(got["all"], x.all(dim)) and torch.equal(got["any"], (~x).any(dim))


def test_numbers_that_are_chosen_have_64_bits(tmp_path: Path) -> None:
    """Bare, C++ multiplies them in int."""
    make = NestMaker(i=4)
    a = make.load("a", "i", I64)
    product = make.op(P.WHERE, make.op(P.GT, a, 0), make.constant(1000, I64), make.constant(1, I64))
    for limit in (1, 2, 3):
        chosen = make.op(P.WHERE, make.op(P.GT, a, limit), make.constant(999, I64), make.constant(2, I64))
        product = product * chosen
    make.store("out", "i", product, I64)
    plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
    memory = {"a": torch.arange(1, 5), "out": torch.empty(4, dtype=I64)}
    got = run_cpp(plan, launch, memory, tmp_path)["out"]
    assert got.tolist() == [1000 * 2 * 2 * 2, 1000 * 999 * 2 * 2, 1000 * 999 * 999 * 2, 1000 * 999**3]
