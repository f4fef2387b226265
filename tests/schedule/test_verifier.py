"""The verifier finds each way to break a plan, and names the pass, the step and the rule; sound plans pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch

from longhand.errors import BrokenPlanError
from longhand.lower.ir import Buffer, Load, Nest, Pointwise, PointwiseOp, Reduce, Store
from longhand.lower.lowering import lower
from longhand.lower.rules.breaches import PlanRule
from longhand.schedule.draft import Draft
from longhand.schedule.passes import PASSES, PlanPass
from longhand.schedule.plan import Access, Allocate, Launch, Release, Reuse
from longhand.schedule.scheduler import schedule
from longhand.schedule.verification.verifier import Verifier
from tests.schedule.test_scheduler import TARGETS, rand, traced


def attention(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    scores = torch.softmax(torch.mm(x, w), -1)
    shifted = torch.cat([scores, x], 1)
    return torch.mm(shifted.t(), x).exp()


@pytest.fixture(scope="module")
def drafts() -> dict[str, Draft]:
    """What each pass made, by its name, and what lower made."""
    options = TARGETS["cpu"]
    found = {"lower": Draft.of(lower(traced(attention, [rand(6, 6), rand(6, 6)]), options), options)}
    schedule(found["lower"].program, options, found.__setitem__)
    return found


def refused(draft: Draft, rule: PlanRule) -> BrokenPlanError:
    with pytest.raises(BrokenPlanError) as caught:
        Verifier(is_on=True).check("some_pass", draft)
    assert caught.value.rule == rule.value, caught.value
    assert caught.value.pass_name == "some_pass" and caught.value.step and caught.value.detail
    return caught.value


def with_values(draft: Draft, kind: type, change: Callable[[Any], Any]) -> Draft:
    """The first value of a kind that the change alters, altered."""
    for place, step in enumerate(draft.steps):
        for position, value in enumerate(step.body if isinstance(step, Nest) else ()):
            if isinstance(value, kind) and (changed := change(value)) != value:
                assert isinstance(step, Nest)
                body = (*step.body[:position], changed, *step.body[position + 1 :])
                nest = dataclasses.replace(step, body=body)
                return draft.with_steps((*draft.steps[:place], nest, *draft.steps[place + 1 :]))
    raise AssertionError(kind)


def with_buffer(draft: Draft, name: str, **fields: Any) -> Draft:
    buffer = dataclasses.replace(draft.buffers[name], **fields)
    return dataclasses.replace(draft, buffers={**draft.buffers, name: buffer})


def with_launch(draft: Draft, change: Callable[[Launch], Launch]) -> Draft:
    place = next(number for number, step in enumerate(draft.steps) if isinstance(step, Launch))
    launch = draft.steps[place]
    assert isinstance(launch, Launch)
    return draft.with_steps((*draft.steps[:place], change(launch), *draft.steps[place + 1 :]))


def first_reuse(draft: Draft) -> tuple[int, Reuse]:
    return next((n, step) for n, step in enumerate(draft.steps) if isinstance(step, Reuse))


def moved(value: Load | Store, by: int) -> Load | Store:
    return dataclasses.replace(value, index=dataclasses.replace(value.index, offset=value.index.offset + by))


def test_sound_plans_pass_after_every_pass(drafts: dict[str, Draft]) -> None:
    assert list(drafts) == ["lower", *(one.name for one in PASSES)]
    for name, draft in drafts.items():
        Verifier(is_on=True).check(name, draft)


def test_a_step_before_what_it_reads(drafts: dict[str, Draft]) -> None:
    draft = drafts["order"]
    refused(draft.with_steps(reversed(draft.steps)), PlanRule.WRITTEN_FIRST)


def test_a_value_before_what_it_refers_to(drafts: dict[str, Draft]) -> None:
    broken = with_values(
        drafts["clean"], Pointwise, lambda v: dataclasses.replace(v, args=(900,) * len(v.args))
    )
    refused(broken, PlanRule.WRITTEN_FIRST)


def test_a_result_that_nobody_makes(drafts: dict[str, Draft]) -> None:
    draft = drafts["clean"]
    assert "end of the call" in refused(draft.with_steps(draft.steps[:-1]), PlanRule.WRITTEN_FIRST).step


def test_memory_that_is_not_there(drafts: dict[str, Draft]) -> None:
    draft = drafts["place_buffers"]
    allocations = [step for step in draft.steps if isinstance(step, Allocate)]
    left = draft.with_steps(step for step in draft.steps if step is not allocations[-1])
    assert "no memory" in refused(left, PlanRule.WRITTEN_FIRST).detail


def test_a_read_after_a_release(drafts: dict[str, Draft]) -> None:
    draft = drafts["place_buffers"]
    place, launch = next((n, one) for n, one in enumerate(draft.steps) if isinstance(one, Launch))
    steps = (*draft.steps[:place], Release((launch.buffers[0],)), *draft.steps[place:])
    assert "gone" in refused(draft.with_steps(steps), PlanRule.WRITTEN_FIRST).detail


def test_a_read_of_what_was_overwritten(drafts: dict[str, Draft]) -> None:
    draft = drafts["place_buffers"]
    place, reuse = first_reuse(draft)
    again = draft.with_steps((*draft.steps[: place + 2], *draft.steps[place + 1 :]))
    assert f"{reuse.of} is gone" in refused(again, PlanRule.WRITTEN_FIRST).detail


def test_a_second_release(drafts: dict[str, Draft]) -> None:
    draft = drafts["place_buffers"]
    name = next(step for step in draft.steps if isinstance(step, Allocate) and not step.is_result).buffer
    assert (
        "gone"
        in refused(draft.with_steps((*draft.steps, *[Release((name,))] * 2)), PlanRule.WRITTEN_FIRST).detail
    )


@pytest.mark.parametrize("by", [1, -1, 1000])
def test_an_access_outside_its_buffer(drafts: dict[str, Draft], by: int) -> None:
    def out(value: Load) -> Load | Store:
        return value if value.mask is not None else moved(value, by)

    refused(with_values(drafts["lower"], Load, out), PlanRule.INSIDE)


def test_a_store_outside_its_buffer(drafts: dict[str, Draft]) -> None:
    refused(with_values(drafts["fuse"], Store, lambda value: moved(value, 1)), PlanRule.INSIDE)


def test_an_address_outside_its_tensor(drafts: dict[str, Draft]) -> None:
    def longer(launch: Launch) -> Launch:
        return dataclasses.replace(launch, sizes=(*launch.sizes[:-1], launch.sizes[-1] + 1))

    refused(with_launch(drafts["plan_kernels"], longer), PlanRule.INSIDE)


def test_symbolic_sizes_that_do_not_fit_whatever_they_are(drafts: dict[str, Draft]) -> None:
    size = sympy.Symbol("s0", positive=True, integer=True)
    draft = drafts["lower"]
    nest = next(step for step in draft.steps if isinstance(step, Nest))
    axes = tuple(dataclasses.replace(axis, size=size + 40) for axis in nest.axes)
    changed = draft.with_steps(dataclasses.replace(s, axes=axes) if s is nest else s for s in draft.steps)
    changed.__dict__["hints"] = {size: 3}
    refused(changed, PlanRule.INSIDE)


def test_a_mask_that_does_not_cover(drafts: dict[str, Draft]) -> None:
    def wider(value: Pointwise) -> Pointwise:
        return dataclasses.replace(value, op=PointwiseOp.LE) if value.op is PointwiseOp.LT else value

    def flipped(value: Pointwise) -> Pointwise:
        return dataclasses.replace(value, op=PointwiseOp.LT) if value.op is PointwiseOp.GE else value

    changed = [
        with_values(drafts["lower"], Pointwise, change)
        for change in (wider, flipped)
        if any(
            isinstance(value, Pointwise) and change(value) != value
            for step in drafts["lower"].steps
            if isinstance(step, Nest)
            for value in step.body
        )
    ]
    assert changed
    for draft in changed:
        refused(draft, PlanRule.MASKS_COVER)


def test_a_guard_of_what_is_no_reduction(drafts: dict[str, Draft]) -> None:
    draft = drafts["plan_kernels"]
    kernels = {key: dataclasses.replace(kernel, guards=(0,)) for key, kernel in draft.kernels.items()}
    refused(dataclasses.replace(draft, kernels=kernels), PlanRule.MASKS_COVER)


def test_memory_shared_without_leave(drafts: dict[str, Draft]) -> None:
    draft = drafts["place_buffers"]
    kernels = {
        key: dataclasses.replace(
            kernel, pointers=tuple(dataclasses.replace(one, may_alias=()) for one in kernel.pointers)
        )
        for key, kernel in draft.kernels.items()
    }
    assert "share memory" in refused(dataclasses.replace(draft, kernels=kernels), PlanRule.ALIASES).detail


def test_memory_of_the_caller_taken_over(drafts: dict[str, Draft]) -> None:
    draft = drafts["place_buffers"]
    place, reuse = first_reuse(draft)
    given = draft.program.graph.inputs[0].node
    steps = (*draft.steps[:place], dataclasses.replace(reuse, of=given), *draft.steps[place + 1 :])
    refused(draft.with_steps(steps), PlanRule.ALIASES)


@pytest.mark.parametrize("kind", [Load, Reduce, Pointwise])
def test_a_value_of_another_dtype(drafts: dict[str, Draft], kind: type) -> None:
    def other(value: Any) -> Any:
        return dataclasses.replace(value, dtype=torch.float64) if value.dtype is torch.float32 else value

    refused(with_values(drafts["fuse"], kind, other), PlanRule.DTYPES)


def test_a_tensor_of_another_dtype_than_the_kernel_takes(drafts: dict[str, Draft]) -> None:
    draft = drafts["plan_kernels"]
    name = next(step for step in draft.steps if isinstance(step, Launch)).buffers[0]
    refused(with_buffer(draft, name, dtype=torch.float64), PlanRule.DTYPES)


def test_an_axis_that_is_not_there(drafts: dict[str, Draft]) -> None:
    broken = with_values(drafts["clean"], Reduce, lambda value: dataclasses.replace(value, axes=("nowhere",)))
    assert "nowhere" in refused(broken, PlanRule.NAMES).detail


def test_a_buffer_that_is_not_there(drafts: dict[str, Draft]) -> None:
    draft = drafts["clean"]
    name = next(v.buffer for s in draft.steps if isinstance(s, Nest) for v in s.body if isinstance(v, Store))
    buffers: dict[str, Buffer] = {key: buffer for key, buffer in draft.buffers.items() if key != name}
    refused(dataclasses.replace(draft, buffers=buffers), PlanRule.NAMES)


def test_a_kernel_that_is_not_there(drafts: dict[str, Draft]) -> None:
    refused(dataclasses.replace(drafts["release"], kernels={}), PlanRule.NAMES)


def test_a_launch_with_too_few_tensors(drafts: dict[str, Draft]) -> None:
    draft = drafts["plan_kernels"]
    reads_only_last = with_launch(
        draft, lambda one: dataclasses.replace(one, buffers=(*one.buffers, one.buffers[0]))
    )
    refused(reads_only_last, PlanRule.NAMES)


def test_a_size_that_no_input_has(drafts: dict[str, Draft]) -> None:
    unknown = sympy.Symbol("unknown", positive=True, integer=True)
    broken = with_launch(
        drafts["plan_kernels"],
        lambda one: dataclasses.replace(one, sizes=(unknown, *one.sizes[1:])),
    )
    assert "unknown" in refused(broken, PlanRule.NAMES).detail


def test_a_pass_that_breaks_the_plan_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy pass at the end of the list: one entry, no other change."""
    toy = PlanPass("lose_the_end", "Drops the last step.", lambda draft: draft.with_steps(draft.steps[:-2]))
    monkeypatch.setattr("longhand.schedule.scheduler.PASSES", (*PASSES, toy))
    program = lower(traced(attention, [rand(6, 6), rand(6, 6)]), TARGETS["cpu"])
    monkeypatch.setenv("LONGHAND_VERIFY", "1")
    with pytest.raises(BrokenPlanError, match="After lose_the_end"):
        schedule(program, TARGETS["cpu"])
    monkeypatch.setenv("LONGHAND_VERIFY", "0")
    schedule(program, TARGETS["cpu"])


def test_each_pass_has_a_name_and_a_line() -> None:
    assert len({one.name for one in PASSES}) == len(PASSES)
    assert all(one.name.isidentifier() and one.doc.endswith(".") and len(one.doc) < 90 for one in PASSES)


def test_the_launches_of_the_example_are_of_every_kind(drafts: dict[str, Draft]) -> None:
    """Otherwise the tests above would break nothing."""
    final = drafts["tell_refusals_once"]
    kinds = {pointer.access for kernel in final.kernels.values() for pointer in kernel.pointers}
    assert {Access.READ, Access.WRITE} <= kinds
    assert any(isinstance(step, Reuse) for step in final.steps)


def test_the_documentation_lists_the_passes_in_order() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [f"| {one.name} | {one.doc[:-1]} |" for one in PASSES]
    assert "\n".join(rows) in text


def test_a_fill_reads_nothing() -> None:
    """`zero_` of fresh memory: what writes a whole tensor needs nothing there before."""

    def scattered(index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(5, 3).index_add(0, index, x)

    program = lower(traced(scattered, [torch.tensor([0, 2, 2, 4]), rand(4, 3)]), TARGETS["cpu"])
    draft = Draft.of(program, TARGETS["cpu"])
    for one in PASSES:
        draft = one.apply(draft)
        Verifier(is_on=True).check(one.name, draft)
    assert torch.ops.aten.zero_.default in {getattr(step, "target", None) for step in draft.steps}
