"""Each rule of programs catches a fault after the very pass that planted it; and what the rules let pass is sound."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch

from longhand.capture.frontends.export import capture_export
from longhand.errors import BrokenPlanError
from longhand.lower import lowering
from longhand.lower.draft import LoweringDraft
from longhand.lower.ir import (
    Axis,
    BufferKind,
    Constant,
    Contraction,
    Extern,
    Index,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    Step,
    Store,
    View,
)
from longhand.lower.lowering import lower
from longhand.lower.passes import PASSES, LoweringPass
from longhand.lower.rules.breaches import PlanRule
from longhand.lower.rules.masks import escapes
from tests.lower.conftest import OPTIONS, traced

Change = Callable[[LoweringDraft], LoweringDraft]


def attention(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A product, a reduction, a join of parts with its mask, and a view that a call reads."""
    scores = torch.softmax(torch.mm(x, w), -1)
    shifted = torch.cat([scores, x], 1)
    return torch.mm(shifted.t(), x).exp()


def with_step(draft: LoweringDraft, kind: type, change: Callable[[Any], Any]) -> LoweringDraft:
    """The first step of a kind that the change alters, altered."""
    for place, step in enumerate(draft.steps):
        if isinstance(step, kind) and (changed := change(step)) is not step:
            return dataclasses.replace(
                draft, steps=(*draft.steps[:place], changed, *draft.steps[place + 1 :])
            )
    raise AssertionError(kind)


def with_value(draft: LoweringDraft, kind: type, change: Callable[[Any], Any]) -> LoweringDraft:
    """Likewise of a value in a nest."""

    def altered(nest: Nest) -> Nest:
        for place, value in enumerate(nest.body):
            if isinstance(value, kind) and (changed := change(value)) != value:
                return dataclasses.replace(nest, body=(*nest.body[:place], changed, *nest.body[place + 1 :]))
        return nest

    return with_step(draft, Nest, altered)


def moved(value: Load | Store) -> Load | Store:
    index = value.index
    return dataclasses.replace(value, index=dataclasses.replace(index, offset=index.offset + 1))


def read_outside(draft: LoweringDraft) -> LoweringDraft:
    return with_value(draft, Load, lambda value: value if value.mask is not None else moved(value))


def stored_outside(draft: LoweringDraft) -> LoweringDraft:
    return with_value(draft, Store, moved)


def seen_outside(draft: LoweringDraft) -> LoweringDraft:
    """What a library is given ends after its buffer."""

    def longer(step: Contraction) -> Contraction:
        args = tuple(
            dataclasses.replace(arg, offset=arg.offset + 1) if isinstance(arg, View) else arg
            for arg in step.call.args
        )
        return dataclasses.replace(step, call=dataclasses.replace(step.call, args=args))

    return with_step(draft, Contraction, longer)


def uncovered(draft: LoweringDraft) -> LoweringDraft:
    turned = {PointwiseOp.LT: PointwiseOp.LE, PointwiseOp.GE: PointwiseOp.LT}
    return with_value(
        draft,
        Pointwise,
        lambda value: dataclasses.replace(value, op=turned[value.op]) if value.op in turned else value,
    )


def other_dtype(draft: LoweringDraft) -> LoweringDraft:
    return with_value(draft, Reduce, lambda value: dataclasses.replace(value, dtype=torch.float64))


def other_stored_dtype(draft: LoweringDraft) -> LoweringDraft:
    name = next(name for name, one in draft.buffers.items() if one.kind is BufferKind.INTERMEDIATE)
    changed = dataclasses.replace(draft.buffers[name], dtype=torch.float64)
    return dataclasses.replace(draft, buffers={**draft.buffers, name: changed})


def callers_memory(draft: LoweringDraft) -> LoweringDraft:
    """A nest stores into an argument of the call, which says nothing of that."""
    given = next(one for one in draft.buffers.values() if one.kind is BufferKind.INPUT)

    def into(value: Store) -> Store:
        fits = draft.buffers[value.buffer].shape == given.shape
        return dataclasses.replace(value, buffer=given.name) if fits else value

    return with_value(draft, Store, into)


def unwritten(draft: LoweringDraft) -> LoweringDraft:
    return dataclasses.replace(draft, steps=draft.steps[1:])


def too_early(draft: LoweringDraft) -> LoweringDraft:
    steps: list[Step] = [*draft.steps]
    return dataclasses.replace(draft, steps=(steps[1], steps[0], *steps[2:]))


def no_axis(draft: LoweringDraft) -> LoweringDraft:
    return with_value(draft, Reduce, lambda value: dataclasses.replace(value, axes=("nowhere",)))


def no_size(draft: LoweringDraft) -> LoweringDraft:
    unknown = sympy.Symbol("unknown", positive=True, integer=True)

    def longer(nest: Nest) -> Nest:
        return dataclasses.replace(
            nest, axes=(dataclasses.replace(nest.axes[0], size=unknown), *nest.axes[1:])
        )

    return with_step(draft, Nest, longer)


def no_buffer(draft: LoweringDraft) -> LoweringDraft:
    def into_nothing(step: Extern | Contraction) -> Contraction:
        call = dataclasses.replace(step.call, outputs=("nowhere",))
        return dataclasses.replace(step, call=call)

    return with_step(draft, Contraction, into_nothing)


def no_product(draft: LoweringDraft) -> LoweringDraft:
    def added(step: Contraction) -> Contraction:
        total = step.body[step.sum]
        assert isinstance(total, Reduce)
        factor = dataclasses.replace(step.body[total.arg], op=PointwiseOp.ADD)
        return dataclasses.replace(step, body=(*step.body[: total.arg], factor, *step.body[total.arg + 1 :]))

    return with_step(draft, Contraction, added)


def added_too_often(draft: LoweringDraft) -> LoweringDraft:
    """All iterations of a nest that adds up meet at one element, and an axis that nobody counts goes nowhere."""
    for place, step in enumerate(draft.steps):
        if isinstance(step, Nest) and step.axes and not any(isinstance(value, Reduce) for value in step.body):
            body = [
                (
                    dataclasses.replace(value, index=dataclasses.replace(value.index, axes=()), adds=True)
                    if isinstance(value, Store)
                    else value
                )
                for value in step.body
            ]
            adding = Nest(step.axes, tuple(body))
            return dataclasses.replace(
                draft, steps=(*draft.steps[: place + 1], adding, *draft.steps[place + 1 :])
            )
    raise AssertionError


FAULTS: dict[Change, PlanRule] = {
    read_outside: PlanRule.INSIDE,
    stored_outside: PlanRule.INSIDE,
    seen_outside: PlanRule.INSIDE,
    uncovered: PlanRule.MASKS_COVER,
    other_dtype: PlanRule.DTYPES,
    other_stored_dtype: PlanRule.DTYPES,
    callers_memory: PlanRule.ALIASES,
    unwritten: PlanRule.WRITTEN_FIRST,
    too_early: PlanRule.WRITTEN_FIRST,
    no_axis: PlanRule.NAMES,
    no_size: PlanRule.NAMES,
    no_buffer: PlanRule.NAMES,
    no_product: PlanRule.PRODUCTS,
    added_too_often: PlanRule.ADDS,
}
FIRST_WITH_STEPS = [one.name for one in PASSES].index("lower_nodes")


def test_every_rule_is_broken_here() -> None:
    assert set(FAULTS.values()) == set(PlanRule)


@pytest.mark.parametrize("place", range(FIRST_WITH_STEPS + 1, len(PASSES) + 1))
def test_a_fault_is_caught_after_the_pass_that_planted_it(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = traced(attention, [torch.randn(6, 6), torch.randn(6, 6)])
    monkeypatch.setenv("LONGHAND_VERIFY", "1")
    for plant, rule in FAULTS.items():
        fault = LoweringPass("plant", "Breaks a rule.", plant)
        monkeypatch.setattr(lowering, "PASSES", (*PASSES[:place], fault, *PASSES[place:]))
        with pytest.raises(BrokenPlanError) as caught:
            lower(graph, OPTIONS)
        assert (caught.value.pass_name, caught.value.rule) == ("plant", rule.value), plant.__name__


class Update(torch.nn.Module):
    """Adds to its first argument in place."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2


def test_what_the_call_says_that_it_writes_may_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGHAND_VERIFY", "1")
    graph = capture_export(Update(), (torch.randn(4), torch.randn(4)), target=OPTIONS.target)
    program = lower(graph, OPTIONS)
    values = [value for step in program.steps if isinstance(step, Nest) for value in step.body]
    stored = {value.buffer for value in values if isinstance(value, Store)}
    assert any(program.buffers[name].kind is BufferKind.INPUT for name in stored)
    monkeypatch.setattr(lowering, "PASSES", (*PASSES, LoweringPass("forget", "Forgets a write.", forgetful)))
    with pytest.raises(BrokenPlanError, match=r"After forget: .*is the caller's"):
        lower(graph, OPTIONS)


def forgetful(draft: LoweringDraft) -> LoweringDraft:
    return dataclasses.replace(draft, graph=dataclasses.replace(draft.graph, mutations=()))


def test_a_mask_over_2_to_the_31_points_is_looked_at_where_its_axes_end() -> None:
    n, boundary = 2**31 + 995, 2**31 - 5
    at = Index(0, (("i", 1),))
    body = (IndexExpression(at, torch.int64), Constant(boundary, torch.int64))
    x = Load("x", at, torch.int8, mask=2)
    nest = Nest((Axis("i", n),), (*body, Pointwise(PointwiseOp.LT, (0, 1), torch.bool), x))
    # Of all points, there was a set: minutes, and 100 GB.
    assert escapes(nest, x, boundary) is None
    assert escapes(nest, x, 1000) == n // 2
