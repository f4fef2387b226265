"""Odd places to run in: a terminal of ASCII only, folders that look like markup, words in other encodings."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import longhand

ROOT = Path(__file__).resolve().parents[2]
MODEL = """
import torch


class Größe(torch.nn.Module):
    def forward(self, x):
        länge = torch.tanh(x) + 1  # "ü"
        return torch.softmax(länge, -1)


def small():
    return Größe().eval(), (torch.randn(4, 8),)
"""
COMMANDS = """
import sys
from longhand import cli
for words in (
    ["generate", "ascii_model:small", "--out", "[red]x"],
    ["check", "--trust", "[red]x"],
    ["view", "[red]x"],
    ["verify", "[red]x"],
    ["diff", "[red]x"],
    ["view", "[/red]"],
    ["check", "nowhere [bold]"],
):
    print("exit code", cli.run(words), flush=True)
"""


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_commands_in_a_folder_that_looks_like_markup(encoding, tmp_path):
    (tmp_path / "ascii_model.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "commands.py").write_text(COMMANDS)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LC_")}
    environment |= {
        "PYTHONPATH": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    if encoding == "ascii":
        environment |= {
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
            "PYTHONIOENCODING": "ascii",
        }
    done = subprocess.run(
        [sys.executable, "commands.py"], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    shown = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    codes = [int(line.split()[2]) for line in shown.splitlines() if line.startswith("exit code")]
    assert codes == [0, 0, 0, 0, 0, 2, 2], shown + done.stderr.decode(errors="replace")
    assert shown.count("[red]x") >= 4 and "bug in longhand" not in shown
    assert "länge" in shown or (encoding == "ascii" and "l\\xe4nge" in shown)
    assert "nowhere [bold]" in done.stderr.decode()


def unit_with(tmp_path, path, target):
    from longhand.emit.unit.writer import write_unit
    from tests.emit.merge_units import version

    write_unit(version(gelu=3, norm=4), tmp_path / "unit")
    (tmp_path / "unit" / path).unlink()
    (tmp_path / "unit" / path).symlink_to(target)
    return tmp_path / "unit"


@pytest.mark.parametrize(
    "path", ["kernels/gelu.py", "model.py", ".base/kernels/gelu.py", "kernels/__init__.py"]
)
def test_what_a_link_leads_to_is_not_shown(path, tmp_path, capsys, monkeypatch):
    from longhand import cli

    monkeypatch.delenv("LONGHAND_TRUST", raising=False)
    (tmp_path / "private.py").write_text("KEY = 'hunter2'\n" * 30)
    unit = unit_with(tmp_path, path, tmp_path / "private.py")
    for words in (
        ["diff"],
        ["diff", "--stat"],
        ["diff", "--markdown"],
        ["view"],
        ["view", "gelu"],
        ["check"],
    ):
        first, *rest = words
        code = cli.run([first, str(unit), *rest])
        shown = capsys.readouterr()
        assert (
            "hunter2" not in shown.out + shown.err
            and "bug in longhand" not in shown.err
            and code in (0, 1, 2, 4)
        )


def test_a_terminal_does_not_obey_a_file(tmp_path, capsys):
    """Escape sequences in an edited kernel are shown and not sent."""
    from longhand import cli
    from longhand.emit.unit.writer import write_unit
    from tests.emit.merge_units import version

    write_unit(version(gelu=3), tmp_path / "unit")
    kernel = tmp_path / "unit" / "kernels" / "gelu.py"
    kernel.write_text(kernel.read_text() + "# \x1b[2J\x1b]0;owned\x07 \u202eabc\n", encoding="utf-8")
    for words in (["view", "gelu"], ["diff"], ["diff", "--markdown"]):
        cli.run([words[0], str(tmp_path / "unit"), *words[1:]])
        shown = capsys.readouterr().out
        assert (
            "\x1b[2J" not in shown and "\x07" not in shown and "\u202e" not in shown and "\\x1b[2J" in shown
        )


ITS_MODEL = """
import torch

def halved(x):
    return torch.relu(x) * 0.5

def small():
    return halved, (torch.ones(2, 3),)
"""
MARK = """
import os
open(os.path.join({folder!r}, "EXECUTED"), "w").close()
"""


def test_an_untrusted_repository_runs_nothing(tmp_path, monkeypatch):
    """Its model's module, its unit's modules and its git configuration stay text."""
    (tmp_path / "its_model.py").write_text(ITS_MODEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    function, args = importlib.import_module("its_model").small()
    longhand.generate(function, args, out=tmp_path / "unit", factory="its_model:small")
    (kernel,) = json.loads((tmp_path / "unit" / "longhand.lock").read_text())["kernels"]
    for path in [tmp_path / "its_model.py", *(tmp_path / "unit").rglob("*.py")]:
        path.write_text(path.read_text() + MARK.format(folder=str(tmp_path)))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for key in ("core.fsmonitor", "diff.external", "core.pager", "core.sshCommand"):
        subprocess.run(["git", "config", key, f"touch {tmp_path}/EXECUTED; false"], cwd=tmp_path, check=True)
    code = (
        "from longhand import cli\n"
        "for words in (['check'], ['diff'], ['diff', '--markdown', '--since', 'HEAD'], ['view'],"
        f" ['view', {kernel!r}], ['check', '--format', 'github']): print(cli.run([words[0], 'unit', *words[1:]]))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "LONGHAND_TRUST"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "bug in longhand" not in done.stderr, done.stderr
    assert not (tmp_path / "EXECUTED").exists()
