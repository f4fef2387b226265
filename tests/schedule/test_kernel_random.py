"""Random nests: permuted, broadcast, sliced, flipped and gathered accesses, one or two levels of reductions."""

from __future__ import annotations

import math
import random

import pytest
import torch

from longhand.lower.ir import Index, PointwiseOp, Reduce, ReduceOp, Store
from longhand.schedule.kernels.kernel import plan_kernel
from longhand.schedule.kernels.schedules.columns import COLUMNS
from longhand.schedule.memory.alias_legality import may_alias
from longhand.schedule.plan import Access
from longhand.schedule.targets import facts_of
from tests.schedule.execution import fresh_memory, run_nest, run_padded, run_plan
from tests.schedule.nests import DEVICES, NestMaker, Ref, bf16, f32, i64

WORDS = ("a", "b", "c", "d")


def random_load(make: NestMaker, chance: random.Random, number: int) -> Ref:
    """One access of a new or a known buffer."""
    axes = [axis for axis in make.sizes if chance.random() < 0.8]
    if chance.random() < 0.4:
        chance.shuffle(axes)
    shape, starts, steps = [], [], []
    for axis in axes:
        size = make.sizes[axis]
        kind = chance.choice(("whole", "whole", "whole", "slice", "step", "flip"))
        shape.append({"slice": size + 3, "step": 2 * size}.get(kind, size))
        starts.append({"slice": 2, "flip": size - 1}.get(kind, 0))
        steps.append({"step": 2, "flip": -1}.get(kind, 1))
    name, dtype = f"x{number}", chance.choice((f32, f32, bf16))
    values: tuple[tuple[int, int], ...] = ()
    stride = math.prod(shape)
    if chance.random() < 0.15:
        values = ((make.load(f"i{number}", make_dims(axes[:1]), i64), stride),)
        make.buffer(name, (9, *shape), dtype)
    else:
        make.buffer(name, shape, dtype)
    offset, coefficients = 0, {}
    for axis, size, start, step in zip(axes, shape, starts, steps, strict=True):
        stride //= size
        offset += start * stride
        coefficients[axis] = step * stride
    loaded = make.load(name, make.index(offset, values, **coefficients), dtype)
    if chance.random() < 0.2 and any(start for start in starts):
        again = make.load(name, make.index(0, values, **{a: abs(c) for a, c in coefficients.items()}), dtype)
        return loaded + again
    return loaded


def make_dims(axes: list[str]) -> str:
    return " ".join(axes)


def random_nest(seed: int) -> NestMaker:
    chance = random.Random(seed)
    names = WORDS[: chance.randint(1, 4)]
    make = NestMaker(**{name: chance.choice((2, 3, 4, 5, 7)) for name in names})
    values: list[Ref] = [random_load(make, chance, number) for number in range(chance.randint(1, 3))]
    if chance.random() < 0.3:
        values.append(make.op(PointwiseOp.CAST, make.position(**{names[-1]: 1}), dtype=f32))
    reduced = [name for name in names if chance.random() < 0.5] if chance.random() < 0.7 else []
    element = values[0]
    for value in values[1:]:
        element = chance.choice((element + value, element * value))
    # A plain load makes sure that there is something to reduce over every axis.
    element = element + make.load("whole", " ".join(names))
    kept = [name for name in names if name not in reduced]
    outer: list[Ref] = []
    for _ in range(chance.randint(1, 2) if reduced else 0):
        op = chance.choice((ReduceOp.SUM, ReduceOp.MAX))
        row = make.reduce(op, element, *reduced) * 0.25
        outer.append(row)
        shifted = element - row
        element = chance.choice((shifted, make.op(PointwiseOp.EXP, shifted * 0.1)))
    chance.shuffle(kept)
    if outer and chance.random() < 0.7:
        make.store("rows", " ".join(kept), outer[-1] + make.load("per_row", " ".join(kept)))
    if not outer or chance.random() < 0.7 or not any(isinstance(value, Store) for value in make.body):
        make.store("out", " ".join(names), element, chance.choice((f32, f32, bf16)))
        if chance.random() < 0.3:
            make.store("twice", " ".join(names), element + element)
    return make


@pytest.mark.parametrize("options", DEVICES, ids=("cpu", "cuda"))
@pytest.mark.parametrize("start", range(0, 120, 20))
def test_random_nests(start: int, options) -> None:
    for seed in range(start, start + 20):
        make = random_nest(seed)
        plan, launch = plan_kernel(make.nest(), make.buffers, options)
        memory = fresh_memory(make.nest().body, make.buffers, seed)
        expected = run_nest(make.nest(), memory)
        actual = run_plan(plan, launch, memory)
        for name in expected:
            torch.testing.assert_close(
                actual[name], expected[name], rtol=1e-4, atol=1e-4, msg=f"{seed} {name}"
            )
        _check_in_place(facts_of(options.target), plan, launch, memory, expected, seed)
        side = plan.rows if plan.schedule is COLUMNS else plan.cols
        if any(isinstance(value, Reduce) for value in plan.body) and len(side) == 1:
            padded = run_padded(plan, launch, memory)
            for name in expected:
                torch.testing.assert_close(
                    padded[name], expected[name], rtol=1e-4, atol=1e-4, msg=f"{seed} {name}"
                )


def _check_in_place(facts, plan, launch, memory, expected, seed) -> None:
    read = [p.name for p in plan.pointers if p.access is Access.READ]
    written = [p.name for p in plan.pointers if p.access is Access.WRITE and not p.scratch]
    for source in read:
        for target in written:
            if not may_alias(plan, source, target, facts) or memory[source].numel() != memory[target].numel():
                continue
            shared = _with_one_memory(memory, source, target)
            _run_in_place(plan, launch, shared)
            for name in written:
                torch.testing.assert_close(
                    shared[name], expected[name], rtol=1e-4, atol=1e-4, msg=f"{seed} {target} over {source}"
                )


def _with_one_memory(memory, source, target):
    copies = {name: tensor.clone() for name, tensor in memory.items()}
    copies[target] = copies[source]
    return copies


def _run_in_place(plan, launch, memory) -> None:
    memory.update(run_plan(plan, launch, memory, copy=False))


def test_random_nests_cover_much() -> None:
    """The generator makes what it says: indices with offsets, flips, gathers, two levels, several stores."""
    makers = [random_nest(seed) for seed in range(120)]
    indices = [
        value.index
        for make in makers
        for value in make.body
        if isinstance(getattr(value, "index", None), Index)
    ]
    assert any(index.offset for index in indices) and any(index.values for index in indices)
    assert any(factor < 0 for index in indices for _, factor in index.axes)
    shared = 0
    for make in makers:
        plan, _ = plan_kernel(make.nest(), make.buffers, DEVICES[0])
        names = [p.name for p in plan.pointers]
        shared += any(
            may_alias(plan, one, other, facts_of(DEVICES[0].target)) for one in names for other in names
        )
    assert shared >= 10
