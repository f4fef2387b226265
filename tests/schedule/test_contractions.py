"""Nests that move into a contraction: the whole computes what the parts do, as loops, as a plan and as a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from longhand.errors import BrokenPlanError
from longhand.lower.ir import (
    Constant,
    Contraction,
    Extern,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
)
from longhand.lower.lowering import lower
from longhand.lower.rules.breaches import PlanRule
from longhand.schedule.contractions import registry
from longhand.schedule.contractions.template import ContractionTemplate, looped_over_products
from longhand.schedule.draft import Draft
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.schedules.entry import ScheduleEntry
from longhand.schedule.passes import PASSES
from longhand.schedule.plan import Launch, UnitPlan
from longhand.schedule.verification.verifier import Verifier
from tests.schedule.test_scheduler import TARGETS, planned, rand, traced

PRODUCT = KernelSchedule("product", has_passes=True, is_row_wise=True)


@pytest.fixture
def template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every contraction is a kernel of one template."""
    taken = ContractionTemplate(ScheduleEntry(PRODUCT, looped_over_products, {}), lambda *_: True)
    monkeypatch.setattr(registry, "TEMPLATES", (taken,))


def launches(plan: UnitPlan) -> list[Launch]:
    return [step for step in plan.steps if isinstance(step, Launch)]


def calls(plan: UnitPlan) -> list[Extern]:
    return [step for step in plan.steps if isinstance(step, Extern)]


def mlp(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.tanh(F.linear(x, w, b)) * 0.5


def residual(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x @ w).relu() + y


def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.exp(x) @ w


def heads(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The result is stored in another order than it is made in."""
    return (torch.sigmoid(F.linear(x, w)).view(2, 3, 2, 4).transpose(1, 2) * 2).contiguous()


def image(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x, w, b, padding=1, stride=2).relu() * 3


FUSED: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "mlp": (mlp, (rand(4, 3, 6), rand(8, 6), rand(8))),
    "mlp_in_bfloat16": (mlp, tuple(x.bfloat16() for x in (rand(4, 3, 6), rand(8, 6), rand(8)))),
    "residual": (residual, (rand(4, 6), rand(6, 8), rand(4, 8))),
    "scaled": (scaled, (rand(4, 6), rand(6, 8))),
    "heads": (heads, (rand(2, 3, 6), rand(8, 6))),
    "image": (image, (rand(2, 3, 6, 5), rand(4, 3, 3, 3), rand(4))),
}


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", list(FUSED))
def test_a_contraction_with_its_neighbours_is_one_kernel(name: str, target: str, template: None) -> None:
    function, args = FUSED[name]
    plan = planned(function, *args, target=target)  # which executes it, and compares with eager
    (launch,) = launches(plan)
    assert not calls(plan) and plan.kernels[launch.kernel].schedule is PRODUCT


@pytest.mark.parametrize("name", list(FUSED))
def test_without_a_template_it_is_a_call_and_a_kernel(name: str) -> None:
    function, args = FUSED[name]
    plan = planned(function, *args)
    assert len(calls(plan)) == len(launches(plan)) == 1


def two_readers(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    product = x @ w
    return torch.exp(product), product @ w.t()


def returned(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    product = x @ w
    return torch.exp(product), product


def normalized(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, -1)


def shifted(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    product = x @ w
    return product[1:] + product[:-1]


@pytest.mark.parametrize("function", [two_readers, returned, normalized, shifted])
def test_what_is_needed_elsewhere_or_not_element_by_element_stays_outside(
    function: Callable[..., torch.Tensor], template: None
) -> None:
    plan = planned(function, rand(4, 6), rand(6, 6))
    kinds = [plan.kernels[launch.kernel].schedule for launch in launches(plan)]
    assert PRODUCT in kinds and any(kind is not PRODUCT for kind in kinds)


def test_a_template_that_takes_no_epilogue_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ContractionTemplate(
        ScheduleEntry(PRODUCT, looped_over_products, {}), lambda one, _: not one.before and not one.after
    )
    monkeypatch.setattr(registry, "TEMPLATES", (plain,))
    plan = planned(*(FUSED["residual"][0], *FUSED["residual"][1]))
    assert [plan.kernels[launch.kernel].schedule is PRODUCT for launch in launches(plan)] == [True, False]


def grown() -> Draft:
    """A plan in the making, just after nests have moved in."""
    function, args = FUSED["residual"]
    options = TARGETS["cpu"]
    draft = Draft.of(lower(traced(function, args), options), options)
    for one in PASSES:
        draft = one.apply(draft)
        if one.name == "grow_contractions":
            return draft
    raise AssertionError


def test_what_moved_in_can_be_taken_out_again(template: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Had the template changed its mind, the call and the nest would be printed as if nothing had moved."""
    draft = grown()
    (step,) = draft.steps
    assert isinstance(step, Contraction) and len(step.after) == 1
    monkeypatch.setattr(registry, "TEMPLATES", ())
    plan_kernels = next(one for one in PASSES if one.name == "plan_kernels")
    apart = plan_kernels.apply(draft)
    assert [type(one) for one in apart.steps] == [Extern, Launch]
    Verifier(is_on=True).check("plan_kernels", apart)


def of_body(step: Contraction, position: int, value: object) -> Contraction:
    body = (*step.body[:position], value, *step.body[position + 1 :])
    return dataclasses.replace(step, body=body)  # type: ignore[arg-type]


def as_maximum(step: Contraction) -> Contraction:
    total = step.body[step.sum]
    assert isinstance(total, Reduce)
    return of_body(step, step.sum, dataclasses.replace(total, op=ReduceOp.MAX))


def as_difference(step: Contraction) -> Contraction:
    total = step.body[step.sum]
    assert isinstance(total, Reduce)
    product = step.body[total.arg]
    assert isinstance(product, Pointwise)
    return of_body(step, total.arg, dataclasses.replace(product, op=PointwiseOp.SUB))


def without_an_operand(step: Contraction) -> Contraction:
    left, right = step.factors
    load = step.body[left]
    other = step.body[right]
    assert isinstance(load, Load) and isinstance(other, Load)
    return of_body(step, left, dataclasses.replace(load, buffer=other.buffer, index=other.index))


def without_its_epilogue(step: Contraction) -> Contraction:
    return dataclasses.replace(step, after=())


def too_far(step: Contraction) -> Contraction:
    load = step.body[step.factors[0]]
    assert isinstance(load, Load)
    index = dataclasses.replace(load.index, offset=load.index.offset + 9)
    return of_body(step, step.factors[0], dataclasses.replace(load, index=index))


def of_another_type(step: Contraction) -> Contraction:
    return of_body(step, step.factors[0], Constant(True, torch.bool))


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (as_maximum, PlanRule.PRODUCTS),
        (as_difference, PlanRule.PRODUCTS),
        (without_an_operand, PlanRule.PRODUCTS),
        (without_its_epilogue, PlanRule.WRITTEN_FIRST),
        (too_far, PlanRule.INSIDE),
        (of_another_type, PlanRule.DTYPES),
    ],
)
def test_the_verifier_names_what_is_wrong(
    spoil: Callable[[Contraction], Contraction], rule: PlanRule, template: None
) -> None:
    draft = grown()
    Verifier(is_on=True).check("grow_contractions", draft)
    (step,) = draft.steps
    assert isinstance(step, Contraction)
    with pytest.raises(BrokenPlanError) as caught:
        Verifier(is_on=True).check("some_pass", draft.with_steps([spoil(step)]))
    assert caught.value.rule == rule.value, caught.value


def test_a_nest_beside_it_is_kept_as_it_was(template: None) -> None:
    (step,) = grown().steps
    assert isinstance(step, Contraction)
    assert isinstance(step.after[0], Nest) and step.steps == (step.call, *step.after)
    assert [axis.name for axis in step.axes][-1:] == list(step.over)
