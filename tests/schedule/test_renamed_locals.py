"""A renamed local changes quotes in model.py and nothing else; other changes rename what they change."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.diff_size import MODEL, diff, generate, load, text_of
from longhand.schedule.names.value_origins import _renamed

# Not what one call of a library computes: each statement is a kernel or a product.
WRITTEN = MODEL.replace("(weights @ v)", "(torch.tanh(weights) @ v)")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_only_the_quotes_follow(tmp_path: Path, device: str) -> None:
    unit = tmp_path / "unit"
    generate(load(tmp_path / "first", WRITTEN), unit, device)
    first = text_of(unit)
    blended = WRITTEN.replace("mixed", "blended")
    generate(load(tmp_path / "second", blended), unit, device)
    second = text_of(unit)
    changed = diff(first, second)
    assert len(changed) == 2, changed
    assert all("# Attention.forward    " in line for line in changed)
    # Neither is it renamed when something else changes, or nothing.
    generate(load(tmp_path / "third", blended), unit, device)
    assert text_of(unit) == second
    generate(load(tmp_path / "fourth", blended.replace("n_layers=6", "n_layers=8")), unit, device)
    assert not any("mixed = " in line or "blended = " in line for line in diff(second, text_of(unit)))
    # And back again: as if nothing had been.
    generate(load(tmp_path / "fifth", WRITTEN), unit, device)
    assert text_of(unit) == first


def test_a_name_that_means_something_else_now_is_not_kept(tmp_path: Path) -> None:
    unit = tmp_path / "unit"
    generate(load(tmp_path / "first", WRITTEN), unit, "cpu")
    swapped = WRITTEN.replace("scores", "_").replace("weights", "scores").replace("_ = q", "weights = q")
    swapped = swapped.replace("softmax(_,", "softmax(weights,")
    generate(load(tmp_path / "second", swapped), unit, "cpu")
    again = tmp_path / "again"
    generate(load(tmp_path / "third", swapped), again, "cpu")
    assert (unit / "model.py").read_text() == (again / "model.py").read_text()


@pytest.mark.parametrize(
    ("before", "now", "names"),
    [
        (["y = f(x)", "return y"], ["z = f(x)", "return z"], {"z": "y"}),
        (["y = f(x)", "return y"], ["y = f(x)", "return y"], {}),
        (["y = f(x)", "return y"], ["z = f(x)", "return y"], None),
        (["y = x.mean()"], ["y = x.sum()"], None),
        (["y = x + 1"], ["y = x + 2"], None),
        (["y = x"], ["y = x", "return y"], None),
        (["a = b + c"], ["a = b + b"], None),
        (["a = b + b"], ["a = b + c"], None),
    ],
)
def test_statements_that_differ_in_names_only(
    before: list[str], now: list[str], names: dict[str, str] | None
) -> None:
    assert _renamed(before, now) == names
