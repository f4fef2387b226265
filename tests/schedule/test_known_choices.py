"""Choices that are made already are read past, and what is stored stays the same, to the last bit."""

from __future__ import annotations

import random

import pytest
import torch

from longhand.lower.ir import PRIMITIVES, Index, Load, Nest, Pointwise, Reduce, ReduceOp, Store, Value
from longhand.lower.ir import PointwiseOp as Op
from longhand.schedule.simplification import simplify_nest
from tests.schedule.nests import NestMaker, Ref, f32, i64

N = 64


def maker() -> tuple[NestMaker, Ref, Ref, Ref]:
    """A nest over n elements, two conditions and a number."""
    make = NestMaker(n=N)
    return make, make.load("c", "n", torch.bool), make.load("d", "n", torch.bool), make.load("x", "n")


def choices(nest: Nest) -> list[Value]:
    return [value for value in nest.body if isinstance(value, Pointwise) and value.op is Op.WHERE]


def test_a_choice_inside_the_same_choice_goes() -> None:
    make, c, _, x = maker()
    inner = make.op(Op.WHERE, c, x, 0.0)
    make.store("y", "n", make.op(Op.WHERE, c, make.op(Op.EXP, inner * 2.0), x))
    nest = simplify_nest(make.nest())
    assert len(choices(nest)) == 1
    (exponential,) = [value for value in nest.body if isinstance(value, Pointwise) and value.op is Op.EXP]
    product = nest.body[exponential.args[0]]
    assert isinstance(product, Pointwise) and isinstance(nest.body[product.args[0]], Load)


def test_on_the_other_side_it_is_what_it_chooses_there() -> None:
    make, c, _, x = maker()
    inner = make.op(Op.WHERE, c, make.constant(3.0), x)
    make.store("y", "n", make.op(Op.WHERE, c, x, inner))
    assert simplify_nest(make.nest()).body == simplify_nest(plain_copy()).body


def plain_copy() -> Nest:
    make = NestMaker(n=N)
    make.store("y", "n", make.load("x", "n"))
    return make.nest()


def test_what_both_conditions_say_is_known() -> None:
    make, c, d, x = maker()
    both = make.op(Op.LOGICAL_AND, c, d, dtype=torch.bool)
    inner = make.op(Op.WHERE, d, x, 0.0)
    make.store("y", "n", make.op(Op.WHERE, both, inner + 1.0, x))
    assert len(choices(simplify_nest(make.nest()))) == 1


def test_a_condition_is_known_to_hold_where_its_opposite_does_not() -> None:
    make, c, _, x = maker()
    inner = make.op(Op.WHERE, make.op(Op.LOGICAL_NOT, c, dtype=torch.bool), x, 0.0)
    make.store("y", "n", make.op(Op.WHERE, c, make.op(Op.EXP, x), inner + 1.0))
    assert len(choices(simplify_nest(make.nest()))) == 1


def test_a_choice_that_others_look_at_stays() -> None:
    make, c, _, x = maker()
    inner = make.op(Op.WHERE, c, x, 0.0)
    make.store("y", "n", make.op(Op.WHERE, c, inner + 1.0, x))
    make.store("z", "n", inner)
    assert len(choices(simplify_nest(make.nest()))) == 2


def test_a_reduction_looks_at_all_elements() -> None:
    make, c, _, x = maker()
    total = make.reduce(ReduceOp.SUM, make.op(Op.WHERE, c, x, 0.0), "n")
    make.store("y", "n", make.op(Op.WHERE, c, total * 1.0, x))
    nest = simplify_nest(make.nest())
    (reduce,) = [value for value in nest.body if isinstance(value, Reduce)]
    assert nest.body[reduce.arg] in choices(nest)


@pytest.mark.parametrize("op", [Op.FLOOR_DIV, Op.REMAINDER], ids=str)
def test_what_keeps_zero_from_a_division_stays(op: Op) -> None:
    make = NestMaker(n=N)
    c, n = make.load("c", "n", torch.bool), make.load("k", "n", i64)
    one = make.constant(1, i64)
    divisor = make.op(Op.WHERE, c, n, one, dtype=i64)
    make.store("y", "n", make.op(Op.WHERE, c, make.op(op, n, divisor, dtype=i64), n, dtype=i64))
    assert len(choices(simplify_nest(make.nest()))) == 2


def test_where_a_position_is_read_stays_in_its_tensor() -> None:
    make = NestMaker(n=N)
    c, k = make.load("c", "n", torch.bool), make.load("k", "n", i64)
    at = make.op(Op.WHERE, c, k, make.constant(0, i64), dtype=i64)
    make.buffer("table", (N,), f32)
    gathered = make.add(Load("table", Index(0, (), ((at, 1),)), f32))
    make.store("y", "n", make.op(Op.WHERE, c, gathered, 0.0))
    assert len(choices(simplify_nest(make.nest()))) == 2


def computed(nest: Nest, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What a nest without reductions stores, and which elements of each tensor it reads."""
    values: list[torch.Tensor] = []
    stored = {}
    for value in nest.body:
        match value:
            case Load(buffer=name, mask=mask):
                under = torch.ones(N, dtype=torch.bool) if mask is None else values[mask]
                values.append(given[name].where(under, torch.tensor(value.other, dtype=value.dtype)))
                stored[f"{name} is read"] = under | stored.get(f"{name} is read", under)
            case Pointwise(op=op, args=args):
                values.append(PRIMITIVES[op].in_torch(*(values[argument] for argument in args)))
            case Store(buffer=name, value=at):
                stored[name] = values[at]
                values.append(values[at])
            case _:
                values.append(torch.full((N,), value.value, dtype=value.dtype))  # type: ignore[union-attr]
    return stored


@pytest.mark.parametrize("seed", range(60))
def test_random_choices_store_the_same(seed: int) -> None:
    draw = random.Random(seed)
    make = NestMaker(n=N)
    truths = [make.load(name, "n", torch.bool) for name in "cde"]
    numbers = [make.load(name, "n") for name in "xyz"]
    for _ in range(30):
        match draw.randrange(7):
            case 0:
                op = draw.choice([Op.LOGICAL_AND, Op.LOGICAL_OR])
                truths.append(make.op(op, draw.choice(truths), draw.choice(truths), dtype=torch.bool))
            case 1:
                truths.append(make.op(Op.LOGICAL_NOT, draw.choice(truths), dtype=torch.bool))
            case 2:
                numbers.append(draw.choice(numbers) + draw.choice(numbers))
            case 3 | 4:
                chosen = make.op(Op.WHERE, draw.choice(truths), draw.choice(numbers), draw.choice(numbers))
                numbers.append(chosen)
            case 5 | 6:
                condition = draw.choice(truths)
                opposite = make.op(Op.LOGICAL_NOT, condition, dtype=torch.bool)
                both = make.op(Op.LOGICAL_AND, draw.choice(truths), condition, dtype=torch.bool)
                rest = make.body[both].args[0]  # type: ignore[union-attr]
                neither = make.op(Op.LOGICAL_AND, rest, opposite, dtype=torch.bool)
                one, other = (make.load("t", "n", mask=mask) for mask in (both, neither))
                numbers.append(make.op(Op.WHERE, condition, one * 2.0, draw.choice(numbers) + other))
    for name, value in zip("uvw", numbers[-3:], strict=True):
        make.store(name, "n", value)
    nest = make.nest()
    generator = torch.Generator().manual_seed(seed)
    given = {name: torch.rand(N, generator=generator) > 0.5 for name in "cde"}
    given |= {name: torch.randn(N, generator=generator) for name in "xyzt"}
    wanted, cleaned = computed(nest, given), simplify_nest(nest)
    assert len(cleaned.body) <= len(nest.body)
    for name, found in computed(cleaned, given).items():
        if name.endswith("is read"):
            assert not (found & ~wanted[name]).any()  # where a mask kept it from, there may be no memory
        else:
            assert torch.equal(found, wanted[name])


def test_a_choice_by_two_conditions_is_known_where_both_are() -> None:
    make, c, d, x = maker()
    opposite = make.op(Op.LOGICAL_NOT, d, dtype=torch.bool)
    inner = make.op(Op.WHERE, make.op(Op.LOGICAL_AND, c, opposite, dtype=torch.bool), x, 0.0)
    make.store("y", "n", make.op(Op.WHERE, d, x, make.op(Op.WHERE, c, inner + 1.0, x)))
    assert len(choices(simplify_nest(make.nest()))) == 2


def of_both(make, c, rest):
    """Two loads of one place: where c holds, and where it does not, within what `rest` says."""
    masks = [c, make.op(Op.LOGICAL_NOT, c, dtype=torch.bool)]
    if rest is not None:
        masks = [make.op(Op.LOGICAL_AND, mask, rest, dtype=torch.bool) for mask in masks]
    one, other = (make.load("t", "n", mask=mask) for mask in masks)
    make.store("y", "n", make.op(Op.WHERE, c, one * 2.0, other + 1.0))
    return one


def loads_of_t(nest):
    return [value for value in nest.body if isinstance(value, Load) and value.buffer == "t"]


def test_what_two_branches_load_is_loaded_once_for_both() -> None:
    make, c, d, _ = maker()
    of_both(make, c, d)
    nest = simplify_nest(make.nest())
    (load,) = loads_of_t(nest)
    assert load.mask is not None and getattr(nest.body[load.mask], "buffer", None) == "d"


def test_what_two_halves_load_is_told_of_each() -> None:
    make, c, _, _ = maker()
    of_both(make, c, None)
    assert len(loads_of_t(simplify_nest(make.nest()))) == 2


def test_what_is_looked_at_elsewhere_too_is_loaded_twice() -> None:
    make, c, d, _ = maker()
    one = of_both(make, c, d)
    make.store("z", "n", one)
    assert len(loads_of_t(simplify_nest(make.nest()))) == 2
