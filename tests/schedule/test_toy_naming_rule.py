"""A naming rule is a function in a list: this one is written, added and used here, in one file.

docs/adding_a_naming_rule.md tells it as a story.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import longhand
from longhand.lower.ir import Pointwise, PointwiseOp
from longhand.schedule.names import value_rules
from longhand.schedule.names.value_rules import RULES, Nameless


def decay(one: Nameless) -> Iterator[str]:
    """exp(-x) is a decay."""
    value = one.value
    if isinstance(value, Pointwise) and value.op is PointwiseOp.EXP:
        inner = one.plan.body[value.args[0]]
        if isinstance(inner, Pointwise) and inner.op is PointwiseOp.NEG:
            yield "decay"


def damped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.exp(-x) * y + torch.exp(-x)


def kernels(folder: Path, pattern: str) -> str:
    texts = [path.read_text() for path in folder.glob(f"kernels/{pattern}") if path.stem != "__init__"]
    assert texts
    return "".join(texts)


def test_a_rule_in_the_list_names_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(600), torch.randn(600)
    longhand.generate(damped, (x, y), out=tmp_path / "before")
    monkeypatch.setattr(value_rules, "RULES", (decay, *RULES))
    longhand.generate(damped, (x, y), out=tmp_path / "on_cpu")
    longhand.generate(damped, (x, y), out=tmp_path / "on_cuda", device="cuda", arch="sm_90", run=False)
    assert "decay" not in kernels(tmp_path / "before", "*.cpp")
    assert "const float decay = " in kernels(tmp_path / "on_cpu", "*.cpp")
    assert "    decay = " in kernels(tmp_path / "on_cuda", "*.py")
    torch.testing.assert_close(longhand.load(tmp_path / "on_cpu")(x, y), damped(x, y))


def test_its_place_is_its_priority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fading(one: Nameless) -> Iterator[str]:
        yield from ("fading" for _ in decay(one))

    given = (torch.randn(600), torch.randn(600))
    for rules, word in (((decay, fading), "decay"), ((fading, decay), "fading")):
        monkeypatch.setattr(value_rules, "RULES", (*rules, *RULES))
        longhand.generate(damped, given, out=tmp_path / word)
        assert f"const float {word} = " in kernels(tmp_path / word, "*.cpp")


def test_what_the_user_calls_a_value_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        fading = torch.exp(-x)
        return fading * y + fading

    monkeypatch.setattr(value_rules, "RULES", (decay, *RULES))
    longhand.generate(damped, (torch.randn(600), torch.randn(600)), out=tmp_path / "unit")
    text = kernels(tmp_path / "unit", "*.cpp")
    assert "fading = " in text and "decay" not in text
