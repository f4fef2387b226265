"""A fusion rule is a value in the list of passes: this one is written, added and run here, in one file.

docs/adding_a_fusion_rule.md tells it as a story.
"""

from __future__ import annotations

import inspect

import pytest
import torch

from longhand.lower.ir import Nest, Step
from longhand.schedule.draft import Draft
from longhand.schedule.fusion.joining import join
from longhand.schedule.passes import PASSES, PlanPass
from tests.schedule.test_scheduler import launches, planned, rand


def fuse_neighbours(draft: Draft) -> Draft:
    """Nests that follow one another and share a tensor are one, however little that saves."""
    steps: list[Step] = []
    for step in draft.loops:
        before = steps[-1] if steps else None
        if isinstance(before, Nest) and isinstance(step, Nest):
            joined = join(before, step, draft.buffers, dead=frozenset())
            if isinstance(joined, Nest):
                steps[-1] = joined
                continue
        steps.append(step)
    return draft.with_steps(steps)


TOY = PlanPass(
    "fuse_neighbours", "Neighbours that share a tensor, however little that saves.", fuse_neighbours
)


def with_toy() -> tuple[PlanPass, ...]:
    place = 1 + [one.name for one in PASSES].index("fuse")
    return (*PASSES[:place], TOY, *PASSES[place:])


def two_that_share_little(*tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x, a, b, c, d, e, f = tensors
    return (x + a) * (b + c), (x * d) - (e * f)


def two_around_a_library_call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.mm(x.exp(), y).sin()


def test_a_rule_is_one_file() -> None:
    added = [one for one in with_toy() if one not in PASSES]
    assert [inspect.getsourcefile(one.apply) for one in added] == [__file__]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_rule_in_the_list_fuses_and_the_plan_stays_right(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`planned` holds the plan's results against eager, and the verifier looks at what each pass made."""
    given = [rand(6, 40) for _ in range(7)]
    assert len(launches(planned(two_that_share_little, *given, target=target))) == 2
    monkeypatch.setattr("longhand.schedule.scheduler.PASSES", with_toy())
    monkeypatch.setenv("LONGHAND_VERIFY", "1")
    assert len(launches(planned(two_that_share_little, *given, target=target))) == 1
    apart = planned(two_around_a_library_call, rand(6, 6), rand(6, 6), target=target)
    assert len(launches(apart)) == 2
