"""The life of an edit, told once for C++ and once for Triton: generate, edit by hand, change the model, generate.

Three kernels are edited: a tunable, the arithmetic, a comment. Whatever happens to the model then, each edit is in
its file where the kernel is still needed, or set aside and named; `check` is content; and `verify` passes, for the
whole model and for every kernel (the Triton unit in Triton's interpreter, where there is no GPU).
"""

import shutil
from pathlib import Path

import pytest
import torch

import longhand
from longhand import cli
from longhand.emit.unit.threeway import Outcome
from longhand.factory import resolve
from longhand.staleness.edit_report import edits_of
from longhand.staleness.file_check import Staleness
from longhand.staleness.model_check import check

FACTORY = "tests.longhand.story_model:make"
CHANGES = ("op added before", "op added after", "layer added", "dtype changed", "batch changed")
# For each device: file, what stands there, what a person makes of it.
EDITS = {
    "cpu": (
        ("kernels/gelu.cpp", "constexpr long GRAIN = 4096;", "constexpr long GRAIN = 2048;"),
        (
            "kernels/add_and_layer_norm.cpp",
            "1.0f / std::sqrt(variance + eps)",
            "1.0f / sqrtf(eps + variance)",
        ),
        ("kernels/layer_norm.cpp", "#pragma omp parallel", "// Rows are short here.\n#pragma omp parallel"),
    ),
    "cuda": (
        ("kernels/gelu.py", "NUM_WARPS = 4", "NUM_WARPS = 2"),
        ("kernels/add_and_layer_norm.py", "tl.rsqrt(variance + eps)", "1.0 / tl.sqrt(variance + eps)"),
        ("kernels/layer_norm.py", "    mean =", "    # Two passes: the mean first.\n    mean ="),
    ),
}


@pytest.fixture
def change_model(monkeypatch):
    """Makes the factory's model another one, as when somebody edits its file."""
    return lambda version: monkeypatch.setenv("STORY_VERSION", version)


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def edited(request, tmp_path_factory):
    """A unit with three edits, and the lines that are new in it."""
    device = request.param
    out = tmp_path_factory.mktemp(device) / "unit"
    generate(out, device)
    lines = {}
    for path, before, after in EDITS[device]:
        text = (out / path).read_text()
        assert before in text, text
        (out / path).write_text(text.replace(before, after, 1))
        lines[path] = after.splitlines()[0].strip()
    return device, out, lines


def generate(out, device):
    torch.manual_seed(0)
    call = resolve(FACTORY)
    arch = "sm_90" if device == "cuda" else None
    return longhand.generate(call.model, call.args, out=out, device=device, arch=arch, factory=FACTORY).merge


def run(capsys, *words):
    code = cli.run([str(word) for word in words])
    return code, capsys.readouterr().out


def test_edits_show_in_diff_and_the_unit_is_current(edited, capsys):
    _, out, lines = edited
    code, shown = run(capsys, "diff", out)
    assert code == 0 and all(line in shown for line in lines.values())
    assert {edit.path for edit in edits_of(out)} == set(lines)
    code, shown = run(capsys, "check", out)
    assert code == 0 and "current  (3 files edited by hand)" in shown
    assert max(map(len, run(capsys, "diff", out, "--stat")[1].splitlines()[:-1])) <= 80


@pytest.mark.parametrize("change", CHANGES)
def test_the_model_changes_and_no_edit_is_lost(edited, change_model, tmp_path, capsys, change):
    device, original, lines = edited
    out = tmp_path / "unit"
    shutil.copytree(original, out)
    change_model(change)
    assert check(out).staleness is Staleness.STALE
    report = generate(out, device)
    outcomes = {file.path: file.outcome for file in report.files}
    for path, line in lines.items():
        aside = f"kernels/aside/{Path(path).name}"
        if outcomes[path] is Outcome.CONFLICT:
            assert line in (out / path).read_text()
            assert (out / f"{path}.new").exists()
        elif outcomes[path] is Outcome.ASIDE:
            assert line in (out / aside).read_text()
        elif outcomes[path] is Outcome.MOVED:
            home = next(file.path for file in report.files if file.source == path)
            assert line in (out / home).read_text()
        else:
            assert outcomes[path] in (Outcome.KEPT, Outcome.MERGED)
            assert line in (out / path).read_text()
    if change in ("layer added", "batch changed"):
        assert all(outcomes[path] is Outcome.KEPT for path in lines), "the math is unchanged"
    if report.has_conflicts:
        change_model("first")  # what the unit still is
    code, shown = run(capsys, "check", out)
    assert code == report.has_conflicts, shown
    code, shown = run(capsys, "verify", out)
    assert code == 0, shown


def test_a_conflict_leaves_the_unit_as_it_was(edited, change_model, tmp_path, capsys):
    device, original, lines = edited
    out = tmp_path / "unit"
    shutil.copytree(original, out)
    path = next(iter(lines))
    # As if the earlier version had had another tunable there: now both sides differ from it.
    base = out / ".base" / path
    _, before, _ = EDITS[device][0]
    base.write_text(base.read_text().replace(before, before.replace("4", "7")))
    change_model("batch changed")
    found = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    words = [
        "generate",
        FACTORY,
        "--out",
        out,
        "--device",
        device,
        *(["--arch", "sm_90"] * (device == "cuda")),
    ]
    code, shown = run(capsys, *words)
    assert code == 1 and f"{path}" in shown and "CONFLICT" in shown and "is unchanged" in shown
    assert all(p.read_bytes() == content for p, content in found.items())
    assert (out / f"{path}.new").exists()
    assert check(out).staleness is Staleness.STALE
    (out / f"{path}.new").unlink()
    code, _ = run(capsys, *words)
    assert code == 0 and check(out).staleness is Staleness.CURRENT


def test_a_broken_edit_is_told_before_anything_runs(edited, tmp_path, capsys):
    _, original, lines = edited
    out = tmp_path / "unit"
    shutil.copytree(original, out)
    path = next(iter(lines))
    text = (out / path).read_text()
    (out / path).write_text(text.replace("gelu(", "gelu2("))
    code, shown = run(capsys, "check", out)
    assert code == 2 and f"{out / path}:" in shown
    code, shown = run(capsys, "check", out, "--format", "github")
    assert code == 2 and shown.startswith(f"::error file={out / path},line=")


def test_an_edit_that_computes_something_else_is_told(edited, tmp_path):
    device, original, _ = edited
    out = tmp_path / "unit"
    shutil.copytree(original, out)
    path = EDITS[device][1][0]
    text = (out / path).read_text()
    (out / path).write_text(
        text.replace("1.0f / sqrtf(", "1.01f / sqrtf(").replace("1.0 / tl.sqrt", "1.01 / tl.sqrt")
    )
    report = generate(out, device)
    (problem,) = [file.problem for file in report.files if file.problem]
    assert not report.is_good and "is wrong at [0, 0]: " in problem and ", expected " in problem
