"""Three-way merges, held against git's."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from longhand.emit.unit.threeway import changed_lines, merge


def numbered(*lines: object) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_changes_in_different_places_merge() -> None:
    base = numbered(*range(10))
    merged = merge(base.replace("1\n", "one\n"), base, base.replace("8\n", "eight\nnine\n"))
    assert not merged.conflicts
    assert merged.text == base.replace("1\n", "one\n").replace("8\n", "eight\nnine\n")


def test_changes_of_the_same_line_conflict_and_say_where() -> None:
    base = numbered(*"abcdef")
    merged = merge(base.replace("c", "X"), base, base.replace("c", "Y"))
    (conflict,) = merged.conflicts
    assert (conflict.line, conflict.base, conflict.ours, conflict.theirs) == (3, ("c",), ("X",), ("Y",))
    assert merged.text == base.replace("c", "X")


def test_the_same_change_on_both_sides_is_none() -> None:
    base = numbered(*"abcdef")
    assert merge(base.replace("c", "X"), base, base.replace("c", "X")).conflicts == ()


def test_neighbouring_lines_conflict_but_tunables_do_not() -> None:
    base = numbered(*"abcdef")
    assert merge(base.replace("c", "X"), base, base.replace("d", "Y")).conflicts
    base = numbered("import a", "", "BLOCK = 512  # elements", "NUM_WARPS = 4", "", "def f(): ...")
    merged = merge(base.replace("512", "256"), base, base.replace("WARPS = 4", "WARPS = 8"))
    assert not merged.conflicts
    assert merged.text == base.replace("512", "256").replace("WARPS = 4", "WARPS = 8")
    assert merge(base.replace("512", "256"), base, base.replace("512", "128")).conflicts


def test_line_ends_of_an_editor_are_kept_and_are_no_edit() -> None:
    base = numbered(*"abcdef")
    merged = merge(base.replace("b", "B").replace("\n", "\r\n"), base, base.replace("e", "E"))
    assert not merged.conflicts
    assert merged.text == base.replace("b", "B").replace("e", "E").replace("\n", "\r\n")


def test_changed_lines_are_numbered_in_the_new_text() -> None:
    base = numbered(*"abcd")
    assert changed_lines(base, base.replace("c\n", "x\ny\n")) == [(3, "x"), (4, "y")]


def mutated(rng: random.Random, lines: list[str], word: str) -> list[str]:
    lines = list(lines)
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(lines))
        kind = rng.random()
        if kind < 0.5:
            lines[place] = f"{word} {rng.random()}"
        elif kind < 0.8:
            lines.insert(place, f"{word} {rng.random()}")
        elif len(lines) > 3:
            del lines[place]
    return lines


@pytest.mark.parametrize("seed", range(60))
def test_where_git_merges_cleanly_and_we_too_the_text_is_the_same(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    base = [f"line {rng.randint(0, 40)}" for _ in range(30)]
    ours, theirs = mutated(rng, base, "ours"), mutated(rng, base, "theirs")
    texts = {"ours": numbered(*ours), "base": numbered(*base), "theirs": numbered(*theirs)}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    git = subprocess.run(
        ["git", "merge-file", "-p", "ours", "base", "theirs"], cwd=tmp_path, capture_output=True, text=True
    )
    merged = merge(texts["ours"], texts["base"], texts["theirs"])
    if not merged.conflicts and git.returncode == 0:
        assert merged.text == git.stdout
    # Whatever happens, what we wrote is still there.
    for line in ours:
        if line.startswith("ours"):
            assert line in merged.text
    if not merged.conflicts:
        assert all(line in merged.text for line in theirs if line.startswith("theirs"))
