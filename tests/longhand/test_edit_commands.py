"""`diff --since`, `eject --undo`, and what git does to a unit on two branches."""

import json
import shutil
from pathlib import Path

import pytest

from longhand import cli
from longhand.cli import generating
from longhand.emit.unit.threeway import Outcome
from longhand.staleness.file_check import Staleness
from longhand.staleness.model_check import check
from tests.longhand import git
from tests.longhand.pair_models import FACTORY, generate


def run(capsys, *words):
    code = cli.run([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, " ".join(captured.err.split())


def edit(path, old, new):
    text = path.read_text()
    assert old in text, text
    path.write_text(text.replace(old, new, 1))


@pytest.fixture
def repository(first, tmp_path):
    return Path(shutil.copytree(first, tmp_path / "repository"))


GRAIN = ("constexpr long GRAIN = 32768;", "constexpr long GRAIN = 16384;")


def rows(markdown):
    """The cells of each row of the table, by kernel."""
    lines = [line for line in markdown.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells}


def test_diff_since_tells_what_is_new_gone_regenerated_and_edited(repository, capsys):
    unit = repository / "unit"
    edit(unit / "kernels/add_and_layer_norm.cpp", *GRAIN)
    generate("op after", unit)
    code, shown, _ = run(capsys, "diff", unit, "--markdown", "--since", "HEAD")
    assert code == 0
    found = rows(shown)
    assert found["gelu"][0] == "gone" and found["gelu"][1] != "-" and found["gelu"][2] == "-"
    assert found["gelu_scale"][0] == "new" and found["gelu_scale"][1] == "-"
    assert found["gelu_scale"][2].endswith(" in 3 calls") and found["gelu_scale"][3].startswith("ok: error")
    assert found["add_and_layer_norm"][0] == "edited +1 -1"
    assert found["add_and_layer_norm"][1] == found["add_and_layer_norm"][2] != "-"
    assert set(found) == {"gelu", "gelu_scale", "add_and_layer_norm"}, "the others are as they were"
    # Only edits without a revision; another dtype regenerates every kernel.
    assert set(rows(run(capsys, "diff", unit, "--markdown", "--no-check")[1])) == {"add_and_layer_norm"}
    generate("bfloat16", unit)
    found = rows(run(capsys, "diff", unit, "--markdown", "--no-check", "--since", "HEAD")[1])
    assert (
        found["scale_softmax"][0] == "regenerated"
        and found["add_and_layer_norm"][0] == "regenerated, edited +1 -1"
    )


def test_diff_since_tells_no_edit_that_was_there_before(repository, capsys):
    """A pull request that changes model and a tunable, on a branch where other edits are old."""
    unit = repository / "unit"
    edit(unit / "kernels/add_and_layer_norm.cpp", *GRAIN)
    git.commit(repository, "an old edit")
    words = ("diff", unit, "--markdown", "--no-check", "--since", "HEAD")
    nothing = run(capsys, *words)[1]
    assert "No kernel changed." in nothing and "GRAIN" not in nothing
    softmax = unit / "kernels/scale_softmax.cpp"
    edit(softmax, "constexpr long GRAIN = 4096;", "constexpr long GRAIN = 1024;")
    shown = run(capsys, *words)[1]
    assert {name: row[0] for name, row in rows(shown).items()} == {"scale_softmax": "edited +1 -1"}
    assert "GRAIN = 1024" in shown and "GRAIN = 16384" not in shown
    git.commit(repository, "a new edit")
    edit(softmax, "constexpr long GRAIN = 1024;", "constexpr long GRAIN = 4096;")
    shown = run(capsys, *words)[1]
    assert {name: row[0] for name, row in rows(shown).items()} == {"scale_softmax": "an edit taken back"}
    # Without a revision all edits are told, as before.
    assert set(rows(run(capsys, *words[:-2])[1])) == {"add_and_layer_norm"}


def test_the_summary_begins_with_a_line_that_is_always_the_same(repository, capsys):
    unit = repository / "unit"
    first = run(capsys, "diff", unit, unit, "--markdown", "--no-check")[1]
    edit(unit / "kernels/add_and_layer_norm.cpp", *GRAIN)
    then = run(capsys, "diff", unit, "--markdown", "--no-check", "--since", "HEAD")[1]
    lines = {shown.splitlines()[0] for shown in (first, then)}
    (marker,) = lines
    assert marker.startswith("<!-- ") and marker.endswith(" -->") and first.count(marker) == 1


def test_diff_since_before_the_unit_was_there_and_of_no_revision(repository, capsys):
    unit = repository / "unit"
    git.run(repository, "mv", "unit", "moved")
    git.commit(repository, "moved")
    found = rows(
        run(capsys, "diff", repository / "moved", "--markdown", "--no-check", "--since", "HEAD~1")[1]
    )
    assert found and all(row[0] == "new" for row in found.values())
    code, _, error = run(capsys, "diff", repository / "moved", "--markdown", "--since", "nowhere")
    assert code == 2 and "git knows no such revision here" in error
    code, _, error = run(capsys, "diff", repository / "moved", "--since", "HEAD")
    assert code == 2 and "go with --markdown" in error
    assert run(capsys, "diff", unit)[0] == 2


def test_eject_and_back(repository, capsys):
    unit = repository / "unit"
    kernel = unit / "kernels/scale_softmax.cpp"
    edit(kernel, "constexpr long GRAIN = 4096;", "constexpr long GRAIN = 1024;")
    mine = kernel.read_bytes()
    assert run(capsys, "eject", kernel)[0] == 0
    report = generate("layer added", unit)
    assert report.of(Outcome.EJECTED) == ("kernels/scale_softmax.cpp",)
    assert kernel.read_bytes() == mine, "never touched"
    assert "1024" in run(capsys, "diff", unit)[1], "but still shown"
    code, shown, _ = run(capsys, "eject", kernel, "--undo")
    assert code == 0 and shown.endswith("is merged again.\n")
    assert "ejected" not in json.loads((unit / "longhand.lock").read_text())
    report = generate("first", unit)
    assert report.of(Outcome.KEPT) == ("kernels/scale_softmax.cpp",)
    assert kernel.read_bytes() == mine, "the edit, merged from now on"
    code, _, error = run(capsys, "eject", kernel, "--undo")
    assert code == 2 and "was not ejected" in error
    code, _, error = run(capsys, "eject", unit / "longhand.lock")
    assert code == 2 and "no file that longhand writes" in error
    code, _, error = run(capsys, "eject", unit / "nothing.cpp")
    assert code == 2 and "does not exist" in error


def test_an_ejected_file_is_still_held_to_its_callers(repository, capsys, monkeypatch):
    monkeypatch.setenv("PAIR_VERSION", "first")
    kernel = repository / "unit/kernels/gelu.cpp"
    assert run(capsys, "eject", kernel)[0] == 0
    edit(kernel, "void gelu(", "void other(")
    code, shown, _ = run(capsys, "check", repository / "unit")
    assert code == 2 and "is gone or was renamed" in shown


def test_two_branches_that_both_generated_are_settled_by_one_generate(repository, monkeypatch, capsys):
    """Each branch changes the model, generates and edits; git merges; what it leaves in lock and base is settled."""
    unit = repository / "unit"
    git.run(repository, "switch", "-qc", "theirs")
    edit(unit / "kernels/scale_softmax.cpp", "#pragma omp parallel", "// Theirs.\n#pragma omp parallel")
    generate("another activation", unit)
    git.commit(repository, "SiLU")
    git.run(repository, "switch", "-q", "main")
    edit(unit / "kernels/add_and_layer_norm.cpp", "#pragma omp parallel", "// Ours.\n#pragma omp parallel")
    generate("layer added", unit)
    git.commit(repository, "a layer more")
    git.run(repository, "merge", "theirs", succeeds=False)
    conflicts = git.run(repository, "diff", "--name-only", "--diff-filter=U").split()
    assert "unit/longhand.lock" in conflicts
    # model.py and README.md say both; nobody edited them by hand, so longhand settles those too.
    allowed = {"unit/longhand.lock", "unit/model.py", "unit/README.md", "unit/check.py"}
    assert all(path in allowed or path.startswith("unit/.base/") for path in conflicts), conflicts
    assert b"<<<<<<< " in (unit / "longhand.lock").read_bytes()
    monkeypatch.setenv("PAIR_VERSION", "both")
    code, shown, _ = run(capsys, "check", unit)
    assert code in (1, 2) and "conflict" in shown
    code, shown, error = run(capsys, "generate", FACTORY, "--out", unit)
    assert code == 0, shown + error
    assert check(unit).staleness is Staleness.CURRENT
    assert "// Ours." in (unit / "kernels/add_and_layer_norm.cpp").read_text()
    assert "// Theirs." in (unit / "kernels/scale_softmax.cpp").read_text()
    assert "silu" in "".join(path.name for path in unit.glob("kernels/*.cpp"))
    for path in unit.rglob("*"):
        if path.is_file() and path.suffix != ".pt":
            assert "<<<<<<< " not in path.read_text(), path
    git.commit(repository, "merged")


def test_reviews_collapse_what_is_longhands_own(repository):
    attributes = git.run(
        repository, "check-attr", "linguist-generated", "diff", "--",
        "unit/longhand.lock", "unit/.base/model.py", "unit/.base/kernels/gelu.cpp",
        "unit/kernels/gelu.cpp", "unit/model.py",
    )  # fmt: skip
    found = {}
    for line in attributes.splitlines():
        path, name, value = line.split(": ")
        found[path, name] = value
    for path in ("unit/longhand.lock", "unit/.base/model.py", "unit/.base/kernels/gelu.cpp"):
        assert found[path, "linguist-generated"] == "set" and found[path, "diff"] == "unset"
    for path in ("unit/kernels/gelu.cpp", "unit/model.py"):
        assert found[path, "linguist-generated"] == "unspecified" == found[path, "diff"]


def test_the_style_of_conflicts_reaches_what_generates(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(generating, "make", lambda *_, conflict, **__: asked.append(conflict))
    monkeypatch.setattr(generating, "renew", lambda *_, conflict, **__: asked.append(conflict))
    monkeypatch.setattr(generating, "_show", lambda *_, **__: 0)
    assert cli.run(["generate", "models:make", "--out", "unit", "--conflict", "merge"]) == 0
    assert cli.run(["generate", "unit", "--conflict", "merge"]) == 0
    assert cli.run(["generate", "unit"]) == 0
    assert asked == ["merge", "merge", "new"]
    assert cli.run(["generate", "unit", "--conflict", "both"]) == 2
