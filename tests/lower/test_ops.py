"""The walk over the ops: each is in every table that must know it, and means the same in all of them.

A primitive that is new to the enum fails here with the table's name, until it has its entry in lower/ops and a
spelling in each language; docs/adding_an_op.md says where they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import pytest
import torch

from longhand.emit.cpp.operators import cpp_operator
from longhand.emit.cpp.reductions import accumulators, value_reduction
from longhand.emit.text.expression import Text
from longhand.emit.text.reference import reduction
from longhand.emit.text.reference_ops import operation
from longhand.emit.triton.operators import OperatorTable, reduce_identity
from longhand.errors import LonghandError
from longhand.lower.ir import Constant, Pointwise, PointwiseOp, Reduce, ReduceOp, Value
from longhand.lower.ops import PRIMITIVES, REDUCTIONS
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.names.operation_names import noun_of
from longhand.schedule.simplification import simplify_body
from tests.schedule.execution import run_plan
from tests.schedule.nests import CPU, NestMaker

P = PointwiseOp
FLOATS, INTEGERS = (torch.float32, torch.float64), (torch.int32, torch.int64)
DTYPES = (*FLOATS, *INTEGERS, torch.bool)
ODD_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -7.0, 1e-40, 3e38, 88.0, math.inf, -math.inf, math.nan)
# Of truth values these are made; all other operations are of numbers.
OF_BOOLS = {P.LOGICAL_AND, P.LOGICAL_OR, P.LOGICAL_XOR, P.LOGICAL_NOT, P.EQ, P.NE, P.WHERE, P.CAST}
OF_BOOLS_ALONE = {P.LOGICAL_AND, P.LOGICAL_OR, P.LOGICAL_XOR, P.LOGICAL_NOT}
DIVISIONS = {P.FLOOR_DIV, P.TRUNC_DIV, P.REMAINDER, P.FMOD}
# What torch calls otherwise than the body does.
EAGER: dict[PointwiseOp, Callable[..., torch.Tensor]] = {
    P.DIV: lambda a, b: a / b,
    P.FLOOR_DIV: torch.floor_divide,
    P.TRUNC_DIV: lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    P.SHIFT_LEFT: lambda a, b: a << b,
    P.SHIFT_RIGHT: lambda a, b: a >> b,
    P.CAST: lambda a: a.clone(),
}
Case = tuple[PointwiseOp, torch.dtype, list[torch.Tensor]]


def eager(op: PointwiseOp) -> Callable[..., torch.Tensor]:
    return EAGER.get(op) or getattr(torch, op.value)  # type: ignore[no-any-return]


def odd_values(dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.tensor(ODD_FLOATS, dtype=dtype)
    if dtype is torch.bool:
        return torch.tensor([False, True])
    extremes = torch.iinfo(dtype)
    return torch.tensor([0, 1, -1, 2, 7, -7, 31, extremes.max, extremes.min], dtype=dtype)


def arguments_of(op: PointwiseOp, dtype: torch.dtype) -> list[torch.Tensor]:
    """Odd values in each combination, but for what eager leaves undefined: n / 0, shifts by less than nothing."""
    values = odd_values(dtype)
    count = PRIMITIVES[op].n_arguments
    if op is P.WHERE:
        condition, yes, no = torch.cartesian_prod(torch.arange(2), *[torch.arange(len(values))] * 2).unbind(1)
        return [condition.bool(), values[yes], values[no]]
    if count == 1:
        return [values]
    given = [
        values[places] for places in torch.cartesian_prod(*[torch.arange(len(values))] * count).unbind(1)
    ]
    kept = torch.ones(len(given[0]), dtype=torch.bool)
    if dtype in INTEGERS and op in DIVISIONS:
        kept = (given[1] != 0) & (given[1] != -1)
    if op in (P.SHIFT_LEFT, P.SHIFT_RIGHT):
        kept = (given[1] >= 0) & (given[1] < torch.iinfo(dtype).bits)
    return [one[kept].contiguous() for one in given]


def cases() -> Iterator[Case]:
    """Each operation on each type that it is an operation of: torch computes it and the result stays in the type."""
    for op, dtype in itertools.product(P, DTYPES):
        is_of = op in OF_BOOLS if dtype is torch.bool else op not in OF_BOOLS_ALONE
        if op not in PRIMITIVES or not is_of:
            continue
        try:
            given = arguments_of(op, dtype)
            made = eager(op)(*given)
        except (RuntimeError, TypeError):
            continue
        if made.dtype is (torch.bool if PRIMITIVES[op].yields_bool else dtype):
            yield op, dtype, given


CASES = list(cases())


def nest_of(op: PointwiseOp, given: list[torch.Tensor]) -> tuple[NestMaker, dict[str, torch.Tensor]]:
    make = NestMaker(i=len(given[0]))
    memory = {f"x{number}": one for number, one in enumerate(given)}
    args = tuple(int(make.load(name, "i", one.dtype)) for name, one in memory.items())
    dtype = torch.bool if PRIMITIVES[op].yields_bool else given[-1].dtype
    make.store("out", "i", make.add(Pointwise(op, args, dtype)), dtype)
    return make, memory | {"out": torch.empty(len(given[0]), dtype=dtype)}


def operation_of(case: Case) -> tuple[tuple[Value, ...], Pointwise]:
    make, _ = nest_of(case[0], case[2])
    value = make.body[-2]
    assert isinstance(value, Pointwise)
    return tuple(make.body), value


def assert_same(got: torch.Tensor, expected: torch.Tensor, what: object) -> None:
    torch.testing.assert_close(
        got, expected, rtol=0, atol=0, equal_nan=True, msg=lambda text: f"{what}: {text}"
    )
    if got.dtype.is_floating_point:
        kept = ~expected.isnan()
        assert torch.equal(got[kept].signbit(), expected[kept].signbit()), what


# Integer powers are left to ATen: Triton has none.
IN_TRITON = {case[:2] for case in CASES} - {(P.POW, torch.int32), (P.POW, torch.int64)}


def spelled_in_triton(case: Case) -> None:
    body, value = operation_of(case)
    if case[:2] in IN_TRITON:
        OperatorTable(body)(value)


def spelled_in_cpp(case: Case) -> None:
    body, value = operation_of(case)
    cpp_operator(value, body)


def spelled_in_torch(case: Case) -> None:
    op, dtype, given = case
    _, value = operation_of(case)
    names = [Text(f"x{number}") for number in range(len(given))]
    text = operation(value, names, [one.dtype for one in given], [False] * len(given)).text
    made = eval(text, {"torch": torch} | {f"x{number}": one for number, one in enumerate(given)})
    assert_same(made, eager(op)(*given), (op, dtype, text))


SPELLINGS = {
    "emit/triton/operators": spelled_in_triton,
    "emit/cpp/operators": spelled_in_cpp,
    "emit/text/reference_ops": spelled_in_torch,
}


def missing(tables: dict[str, Callable[[Case], None]], walked: list[Case]) -> list[str]:
    """Which table lacks which op."""
    found = [f"lower/ops has no {op.name}" for op in P if op not in {case[0] for case in walked}]
    for (table, spell), case in itertools.product(tables.items(), walked):
        try:
            spell(case)
        except (KeyError, AttributeError, LonghandError) as problem:
            found.append(f"{table} has no {case[0].name} of {case[1]}: {problem}")
    return found


def test_each_op_is_in_each_table() -> None:
    assert not missing(SPELLINGS, CASES)
    nouns = [noun_of(Pointwise(op, (), torch.float32)) for op in P]
    assert all(noun.isidentifier() for noun in nouns)


def test_the_walk_names_the_table_that_lacks_an_op(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(cpp_operator.__globals__["VECTOR_FUNCTIONS"], P.TANH)
    first, second = missing(SPELLINGS, CASES)
    assert first.startswith("emit/cpp/operators has no TANH of torch.float32")
    assert second.startswith("emit/cpp/operators has no TANH of torch.float64")
    assert missing({}, [case for case in CASES if case[0] is not P.ERF]) == ["lower/ops has no ERF"]


def test_each_op_on_odd_values_in_a_plan() -> None:
    """The plan of a kernel, executed literally, against eager."""
    for op, dtype, given in CASES:
        make, memory = nest_of(op, given)
        plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
        run_plan(plan, launch, memory, copy=False)
        assert_same(memory["out"], eager(op)(*given), (op, dtype))


def folded(op: PointwiseOp, given: list[torch.Tensor]) -> Value:
    """What a body of constants becomes."""
    make = NestMaker(i=2)
    args = tuple(int(make.constant(one.item(), one.dtype)) for one in given)
    dtype = torch.bool if PRIMITIVES[op].yields_bool else given[-1].dtype
    make.store("out", "i", make.add(Pointwise(op, args, dtype)), dtype)
    return simplify_body(tuple(make.body))[0]


def test_what_is_folded_is_what_eager_computes() -> None:
    walked = 0
    for op, dtype, given in CASES:
        if not PRIMITIVES[op].folds:
            continue
        for one in range(0, len(given[0]), 5):
            constants = [values[one] for values in given]
            value = folded(op, constants)
            assert isinstance(value, Constant), (op, dtype, constants)
            walked += 1
            made = torch.tensor([value.value], dtype=value.dtype)
            assert_same(made, eager(op)(*constants).reshape(1), (op, dtype, constants))
    assert walked > 300


def test_what_is_known_of_numbers_is_what_eager_computes() -> None:
    """Of float64, whose rounding is Python's; what raises is unknown."""
    for op, dtype, given in CASES:
        on_numbers = PRIMITIVES[op].on_numbers
        if on_numbers is None or dtype not in (torch.float64, torch.bool):
            continue
        known, places = [], []
        for place, one in enumerate(zip(*(values.tolist() for values in given), strict=True)):
            try:
                known.append(on_numbers(*one))
            except (ArithmeticError, ValueError):
                continue
            places.append(place)
        assert places, op
        expected = eager(op)(*given)[torch.tensor(places)]
        made = torch.tensor(known, dtype=expected.dtype)
        torch.testing.assert_close(made, expected, equal_nan=True, msg=lambda text, op=op: f"{op}: {text}")


def test_what_keeps_nan_does() -> None:
    for op, dtype, given in CASES:
        if PRIMITIVES[op].keeps_nan and dtype.is_floating_point:
            has_nan = torch.stack([one.isnan() for one in given]).any(0)
            assert eager(op)(*given)[has_nan].isnan().all(), op


@pytest.mark.parametrize("op", ReduceOp)
def test_each_reduction_is_in_each_table(op: ReduceOp) -> None:
    of_bools = op in (ReduceOp.ANY, ReduceOp.ALL)
    for dtype in (torch.bool,) if of_bools else (*FLOATS, *INTEGERS):
        make = NestMaker(row=3, col=len(odd_values(dtype)))
        result = make.reduce(op, make.load("x", "row col", dtype), "col")
        make.store("out", "row", result, make.dtype(result))
        reduce = make.body[result]
        assert isinstance(reduce, Reduce)
        values = torch.stack([odd_values(dtype).roll(by) for by in (0, 1, 2)])
        values[1:] = values[1:].nan_to_num(0.5)
        memory = {"x": values.flatten(), "out": torch.empty(3, dtype=reduce.dtype)}
        plan, launch = plan_kernel(make.nest(), make.buffers, CPU)
        run_plan(plan, launch, memory, copy=False)
        text = reduction(op, "x", [-1]).text
        expected = eval(text, {"x": values}).flatten().to(reduce.dtype)
        assert_same(memory["out"], expected, (op, dtype, text))
        assert_same(REDUCTIONS[op].of_rows(values).to(reduce.dtype), expected, (op, dtype))
        reduce_identity(tuple(make.body), int(result))
        accumulators(value_reduction(reduce), "total", dtype)
        assert noun_of(reduce).isidentifier()


@pytest.mark.parametrize("op", ReduceOp)
def test_the_identity_changes_nothing(op: ReduceOp) -> None:
    entry = REDUCTIONS[op]
    dtype = torch.bool if isinstance(entry.identity, bool) else torch.float64
    values = odd_values(dtype)[:10]
    values = torch.cat((values, torch.tensor([entry.identity], dtype=dtype)))
    assert_same(entry.of_rows(values), entry.of_rows(values[:-1]), op)
