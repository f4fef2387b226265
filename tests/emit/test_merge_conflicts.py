"""What stands in a unit while a conflict waits, and what its owner keeps when it is settled."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhand.emit.unit.contract import find_breaches
from longhand.emit.unit.on_disk import read_unit
from longhand.emit.unit.threeway import ConflictStyle, Outcome, code_lines, with_new_prose
from longhand.emit.unit.writer import write_unit
from longhand.errors import EditError
from longhand.staleness.load_time import look_at, texts_of
from tests.emit.merge_units import Files, edit, outcome, snapshot, unit

GELU = "kernels/gelu.py"
KERNEL = '''"""gelu: activated = x / {number}.

    Mlp.forward    x = x / {number}
"""

import torch

BLOCK = 512


def gelu(x, out):
    # Divided by {number}: a power of two is exact.
    first = x / {number}

    # Twice.
    second = first * 2
    out.copy_(second)


def reference(x):
    return x / {number} * 2
'''

MARKED = """<<<<<<< yours
    # Divided by 5.656854: a power of two is exact.
    first = x * (1 / 5.656854)
=======
    # Divided by 4.0: a power of two is exact.
    first = x / 4.0
>>>>>>> new
"""


def version(number: object) -> Files:
    return unit({"gelu": KERNEL.format(number=number)})


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "unit"
    write_unit(version(5.656854), folder)
    edit(folder, GELU, "first = x / 5.656854", "first = x * (1 / 5.656854)")
    return folder


def test_the_prose_of_a_file_that_was_kept_follows_the_model(out: Path) -> None:
    edit(out, GELU, "# Twice.", "# Twice: I counted.")
    assert write_unit(version(4.0), out).has_conflicts
    edit(out, GELU, "first = x * (1 / 5.656854)", "first = x * 0.25")  # keep my file
    (out / f"{GELU}.new").unlink()
    report = write_unit(version(4.0), out)
    assert report.is_good and outcome(report, GELU) is Outcome.KEPT
    text = (out / GELU).read_text()
    assert text.startswith('"""gelu: activated = x / 4.0.\n\n    Mlp.forward    x = x / 4.0\n"""')
    assert "first = x * 0.25" in text and "# Twice: I counted." in text
    assert "# Divided by 5.656854" in text, "it speaks of the line below, which is mine"
    assert "return x / 5.656854 * 2" in text, "what is code stays as it was kept"
    before = snapshot(out)
    assert outcome(write_unit(version(4.0), out), GELU) is Outcome.KEPT
    assert snapshot(out) == before


def test_the_prose_follows_though_the_model_changed_once_more(out: Path) -> None:
    write_unit(version(4.0), out)
    (out / f"{GELU}.new").unlink()
    edit(out, GELU, "x * (1 / 5.656854)", "x / 4.0")
    edit(out, GELU, "# Divided by 5.656854", "# Divided by 4.0")
    edit(out, GELU, "x / 5.656854 * 2", "x / 4.0 * 2")
    assert write_unit(version(2.0), out).is_good
    assert (out / GELU).read_text() == KERNEL.format(number=2.0)


def test_prose_is_told_from_code_in_both_languages() -> None:
    cpp = "// y = x / {0}.\n\n#include <cmath>\n\n// By {0}.\n\nfloat f(float x) {{ return x / {0}f; }}\n"
    assert code_lines(cpp.format(3)) == ["#include <cmath>", "float f(float x) { return x / 3f; }"]
    mine = cpp.format(3).replace("x / 3f", "x * (1 / 3f)")
    expected = cpp.format(4).replace("x / 4f", "x * (1 / 3f)")
    assert with_new_prose(mine, cpp.format(3), cpp.format(4)) == expected


def test_markers_on_request(out: Path) -> None:
    before = snapshot(out)
    report = write_unit(version(4.0), out, style=ConflictStyle.MARKERS)
    assert report.has_conflicts and report.has_markers and report.files[0].is_marked
    text = (out / GELU).read_text()
    assert MARKED in text
    assert text.count("<<<<<<<") == 1 and text.startswith('"""gelu: activated = x / 4.0.')
    after = snapshot(out)
    assert {path for path in after if after[path] != before.get(path)} == {GELU, f".base/{GELU}.new"}
    # Refused until it is settled, whatever the style.
    disk = read_unit(out)
    (breach,) = find_breaches(*texts_of(disk))
    assert breach.path == GELU and "choose a side" in breach.what and breach.line == 12
    with pytest.raises(EditError, match="conflict markers"):
        look_at(out)
    for style in ConflictStyle:
        assert write_unit(version(4.0), out, style=style).has_markers
        assert snapshot(out) == after
    edit(out, GELU, MARKED, "    # A power of two is exact.\n    first = x * 0.25\n")
    report = write_unit(version(4.0), out)
    assert report.is_good and outcome(report, GELU) is Outcome.KEPT
    expected = KERNEL.format(number=4.0).replace("Divided by 4.0: a p", "A p")
    assert (out / GELU).read_text() == expected.replace("first = x / 4.0", "first = x * 0.25")
    assert not list(out.rglob("*.new"))


def test_markers_take_the_place_of_a_new_file_that_waited(out: Path) -> None:
    write_unit(version(4.0), out)
    assert (out / f"{GELU}.new").exists()
    assert write_unit(version(4.0), out, style=ConflictStyle.MARKERS).has_markers
    assert not (out / f"{GELU}.new").exists() and "<<<<<<< yours" in (out / GELU).read_text()
