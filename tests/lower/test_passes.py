"""Lowering is a list of named, pure passes, and the verifier names the one that broke a rule."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from longhand.errors import BrokenPlanError
from longhand.lower import lowering
from longhand.lower.draft import LoweringDraft
from longhand.lower.ir import Nest, Program, View
from longhand.lower.lowering import lower
from longhand.lower.nodes import lower_nodes
from longhand.lower.passes import PASSES, LoweringPass
from longhand.lower.rules.breaches import PlanRule
from longhand.lower.verifier import DraftRule, DraftVerifier
from tests.lower.conftest import OPTIONS, traced


def attention(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scores = torch.softmax(torch.mm(x, w), -1)
    unread = scores * 2
    return scores, (unread - unread + x).sum(0)


@pytest.fixture(scope="module")
def drafts() -> dict[str, LoweringDraft]:
    """What each pass made, by its name."""
    found: dict[str, LoweringDraft] = {}
    lower(traced(attention, [torch.randn(6, 6), torch.randn(6, 6)]), OPTIONS, show=found.__setitem__)
    return found


def contents(draft: LoweringDraft) -> tuple[object, ...]:
    context = draft.context
    inside = () if context is None else (dict(context.buffers), list(context.steps), dict(context.values))
    return (*inside, dict(draft.buffers), draft.steps, draft.results, draft.layers, len(draft.nodes))


def test_a_pass_changes_nothing_that_it_is_given(drafts: dict[str, LoweringDraft]) -> None:
    names = [one.name for one in PASSES]
    assert list(drafts) == names
    for one, given in zip(PASSES[1:], names, strict=False):
        before = contents(drafts[given])
        made = one.apply(drafts[given])
        assert contents(drafts[given]) == before, one.name
        assert contents(one.apply(drafts[given]))[-4:] == contents(made)[-4:], one.name


def test_what_each_pass_is_about(drafts: dict[str, LoweringDraft]) -> None:
    assert drafts["find_host_values"].context is None and not drafts["find_host_values"].steps
    assert not drafts["check_fixpoint"].results and len(drafts["return_results"].results) == 2
    assert len(drafts["prune"].buffers) <= len(drafts["store_mutations"].buffers)


def with_step(draft: LoweringDraft, change: Callable[[Nest], Nest]) -> LoweringDraft:
    place = next(number for number, step in enumerate(draft.steps) if isinstance(step, Nest))
    nest = draft.steps[place]
    assert isinstance(nest, Nest)
    return dataclasses.replace(draft, steps=(*draft.steps[:place], change(nest), *draft.steps[place + 1 :]))


def without_buffers(draft: LoweringDraft) -> LoweringDraft:
    return dataclasses.replace(draft, buffers={})


def without_values(draft: LoweringDraft) -> LoweringDraft:
    context = lower_nodes(draft)
    context.values = {}
    return dataclasses.replace(draft, context=context)


BREACHES: dict[str, tuple[DraftRule | PlanRule, Callable[[LoweringDraft], LoweringDraft]]] = {
    "a step gone": (PlanRule.WRITTEN_FIRST, lambda draft: dataclasses.replace(draft, steps=draft.steps[1:])),
    "no buffers": (PlanRule.NAMES, without_buffers),
    "an axis gone": (
        PlanRule.NAMES,
        lambda draft: with_step(draft, lambda nest: dataclasses.replace(nest, axes=nest.axes[1:])),
    ),
    "a body from its end": (
        PlanRule.WRITTEN_FIRST,
        lambda draft: with_step(draft, lambda nest: dataclasses.replace(nest, body=nest.body[::-1])),
    ),
    "no values": (DraftRule.VALUES, without_values),
    "a host value that is no node": (
        DraftRule.NAMES,
        lambda draft: dataclasses.replace(draft, host=frozenset({"nobody"})),
    ),
    "a node left out": (
        DraftRule.LAYERS,
        lambda draft: dataclasses.replace(draft, graph=traced(torch.sin, [torch.randn(3)])),
    ),
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_named_with_its_pass(
    name: str, drafts: dict[str, LoweringDraft], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, change = BREACHES[name]
    broken = change(drafts["store_mutations"])
    monkeypatch.setenv("LONGHAND_VERIFY", "1")
    verifier = DraftVerifier.from_environment()
    verifier.check("some_pass", drafts["store_mutations"])
    assert rule in {found for _, found, _ in verifier.faults(broken)}
    with pytest.raises(BrokenPlanError) as caught:
        verifier.check("some_pass", broken)
    assert caught.value.pass_name == "some_pass" and caught.value.detail
    monkeypatch.setenv("LONGHAND_VERIFY", "0")
    DraftVerifier.from_environment().check("some_pass", broken)


def test_a_pass_that_breaks_a_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(draft: LoweringDraft) -> LoweringDraft:
        return dataclasses.replace(draft, steps=draft.steps[1:])

    monkeypatch.setenv("LONGHAND_VERIFY", "1")
    monkeypatch.setattr(lowering, "PASSES", (*PASSES, LoweringPass("forget", "Drops a step.", forget)))
    with pytest.raises(BrokenPlanError, match=r"After forget: .*nothing has written"):
        lower(traced(attention, [torch.randn(6, 6), torch.randn(6, 6)]), OPTIONS)


def test_the_page_lists_the_passes() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    chapter = text.partition("## Lowering and scheduling are lists of passes")[2]
    section = chapter.partition("`lower/passes.py`")[2].partition("`schedule/passes.py`")[0]
    rows = re.findall(r"^\| (\w+) \| (.+) \|$", section, re.MULTILINE)
    assert rows[1:] == [(one.name, one.doc.rstrip(".")) for one in PASSES]


def test_the_last_draft_is_the_program(drafts: dict[str, LoweringDraft]) -> None:
    program = drafts["prune"].as_program()
    assert isinstance(program, Program) and all(isinstance(result, View) for result in program.results)
