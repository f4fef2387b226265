"""The command line answers at once, keeps quiet when asked, and takes its options from pyproject.toml."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest
import torch

import longhand
from longhand import cli
from longhand.cli.commands import commands
from longhand.staleness.model_check import check
from longhand.verify.verification import verify
from tests.longhand import manners_model

ROOT = Path(__file__).resolve().parents[2]
ASKED = [
    ["--help"],
    ["--version"],
    ["generate", "--help"],
    ["check", "--help"],
]


def run(capsys, *words):
    code = cli.run([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, " ".join(captured.err.split())


def spawn(words, **environment):
    program = (
        "import sys; from longhand.cli import run; code = run(sys.argv[1:]);"
        "print(*sorted(sys.modules), file=sys.stderr); sys.exit(code)"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_what_needs_no_model_imports_no_torch_and_is_quick(words):
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = spawn(words)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.returncode == 0 and done.stdout
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert not loaded & {"torch", "rich", "sympy", "numpy", "triton"}
    assert min(seconds) <= 0.25  # of the processor: the machine may be busy


def test_what_files_say_is_told_of_ten_units_without_torch():
    units = sorted(path.parent for path in (ROOT / "generated").glob("*/longhand.lock"))[:10]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = spawn(["check", *map(str, units)], LONGHAND_TRUST="0")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 4 and done.stdout.count("not compared with its model") == len(units) == 10
    assert not {name.partition(".")[0] for name in done.stderr.split()} & {"torch", "sympy", "triton"}
    assert after.ru_utime - before.ru_utime <= 3.0


def test_tab_completes_commands_and_options_without_torch():
    done = spawn([], _LONGHAND_COMPLETE="bash_complete", COMP_WORDS="longhand ge", COMP_CWORD="1")
    assert "generate" in done.stdout and " torch " not in done.stderr
    done = spawn([], _LONGHAND_COMPLETE="bash_complete", COMP_WORDS="longhand generate --dyn", COMP_CWORD="2")
    assert "--dynamic" in done.stdout


def test_python_m_longhand_is_the_command_line():
    done = subprocess.run([sys.executable, "-m", "longhand", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("longhand 0.") and "torch" in done.stdout


@pytest.mark.parametrize("name", sorted(commands.commands))
def test_every_command_has_the_manners(capsys, name):
    _, out, _ = run(capsys, name, "--help")
    assert all(option in out for option in ("--quiet", "--verbose", "--no-color"))


def test_every_command_that_reports_speaks_json():
    speaking = {
        name for name, one in commands.commands.items() if any("--json" in p.opts for p in one.params)
    }
    assert speaking >= {"generate", "check", "diff", "verify", "bench", "tune", "explain", "view"}


def test_verbose_counts_what_is_done_where_there_is_no_terminal(capsys, tmp_path):
    words = ("generate", "tests.longhand.manners_model:wide", "--out", tmp_path / "unit", "--no-run")
    code, _, error = run(capsys, "-v", *words)
    assert code == 0 and "s generating" in error and "capture" in error
    code, shown, error = run(capsys, "verify", tmp_path / "unit", "--verbose")
    assert code == 0 and "1 of 1, " in error and "the model against eager" in error
    code, shown, error = run(capsys, "verify", tmp_path / "unit", "-q")
    assert (code, shown, error) == (0, "", "")


def test_colours_are_left_out_when_asked(monkeypatch):
    seen = {}

    @click.command("view")
    @click.pass_context
    def view(context):
        seen["color"] = context.find_root().color

    monkeypatch.setitem(commands.commands, "view", view)
    for words, environment, expected in (
        (["--no-color", "view"], "", False),
        (["view"], "1", False),
        (["view"], "", None),
    ):
        monkeypatch.setenv("NO_COLOR", environment)
        assert cli.run(words) == 0
        assert seen["color"] is expected


def project(folder, text, monkeypatch):
    (folder / "pyproject.toml").write_text(text)
    below = folder / "below"
    below.mkdir(exist_ok=True)
    monkeypatch.chdir(below)


def test_a_projects_settings_are_defaults(capsys, tmp_path, monkeypatch):
    text = (
        '[tool.longhand]\nunits = ["made/*"]\n[tool.longhand.generate]\nmode = "max-autotune"\nrun = false\n'
    )
    project(tmp_path, text, monkeypatch)
    out = tmp_path / "made/unit"
    assert run(capsys, "generate", "tests.longhand.manners_model:wide", "--out", out)[0] == 0
    lock = json.loads((out / "longhand.lock").read_text())
    assert lock["mode"] == "max-autotune" and lock["run"] is False
    code, shown, _ = run(capsys, "diff", "--stat")  # finds the unit, which is not below
    assert code == 0 and "unit: 0 files edited" in shown


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tool.longhand.generat]\nmode = 1", "unknown entry 'generat'"),
        ("[tool.longhand.check]\ntrust = true", "trust of `longhand check` cannot be given by a file"),
        ("[tool.longhand.check]\nfast = true", "has no option --fast"),
        ("[tool.longhand]\nunits = ['../*']", "no list of patterns"),
        ("[tool.longhand", "cannot be read"),
    ],
)
def test_settings_that_are_none_are_told(capsys, tmp_path, monkeypatch, text, told):
    project(tmp_path, text, monkeypatch)
    code, _, error = run(capsys, "check")
    assert code == 2 and told in error


def test_results_have_a_short_repr(tmp_path):
    summary = longhand.generate(*manners_model.wide(), out=tmp_path / "unit", run=False)
    assert repr(summary) == f"<Summary {tmp_path / 'unit'}: rows, 1 kernel launched once, 0 library calls>"
    (kernel,) = tmp_path.glob("unit/kernels/*.cpp")
    factory = "tests.longhand.manners_model:wide"
    assert repr(verify(tmp_path / "unit", factory)).startswith("<Verification right; 1 results, ")
    kernel.write_text(kernel.read_text().replace("* 0.5f", "* 0.75f"))
    assert repr(verify(tmp_path / "unit", factory)).startswith(f"<Verification WRONG: {kernel.stem}, ")
    found = check(tmp_path / "unit", factory)
    assert repr(found) == f"<CheckResult {tmp_path / 'unit'}: current; 0 changes, 0 breaches, 1 edited files>"
    with torch.no_grad():
        explanation = longhand.explain(manners_model.rows)(torch.randn(4, 8))
    assert repr(explanation) == "<Explanation 1 graph, 0 breaks; print it for more>"
