"""A word that went to something else while what it stood for is needed is found before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch

import longhand
from longhand.errors import ProofError
from longhand.schedule.layers.model_steps import ModelStep
from longhand.schedule.names import naming
from longhand.schedule.plan import UnitPlan


def kept_and_read(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """One value is a result, one is read twice."""
    first = x @ weight
    second = torch.tanh(first) @ weight
    third = torch.sin(second) @ weight
    return first, third @ second.T


def _with_word_of(word: str, other: str) -> Callable[..., dict[str, str]]:
    """The namer, but for one variable, which has another one's word."""
    plain = naming.name_variables

    def name(plan: UnitPlan, words: object, steps: Sequence[ModelStep], *rest: object) -> dict[str, str]:
        names: Mapping[str, str] = plain(plan, words, steps, *rest)  # type: ignore[arg-type]
        return {buffer: other if one == word else one for buffer, one in names.items()}

    return name


def _generate(folder: Path, train: bool = False) -> None:
    given = torch.randn(4, 8, requires_grad=train), torch.randn(8, 8)
    longhand.generate(kept_and_read, given, out=folder, train=train)


@pytest.mark.parametrize("train", [False, True])
def test_true_names_pass(train: bool, tmp_path: Path) -> None:
    _generate(tmp_path / "unit", train)
    assert (tmp_path / "unit" / "model.py").exists()


@pytest.mark.parametrize(("word", "other"), [("second", "first"), ("third", "second")])
def test_a_word_that_is_taken_too_early(
    word: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(naming, "name_variables", _with_word_of(word, other))
    with pytest.raises(ProofError, match=f"`{other}` no longer holds"):
        _generate(tmp_path / "unit")
    assert not (tmp_path / "unit").exists()
