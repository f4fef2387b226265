"""Bad input on the command line: one paragraph that says what to do, exit code 2, and nothing changed on disk."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from longhand.cli import run

SOURCE = """
import sys

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        return torch.softmax(self.linear(x) * 2, -1)


def good():
    return Net(4), (torch.ones(2, 4),)


def leaves():
    sys.exit(3)


def needs(n):
    return Net(n), (torch.ones(2, n),)


def narrow():
    return Net(4), (torch.ones(2, 5),)


def generator():
    return (lambda xs: sum(xs)), ((x for x in [torch.ones(2)]),)


def negated():
    return (lambda x: x * 2), (torch.ones(1, dtype=torch.complex64).conj().imag,)


def unfinished():
    return Net(4), ()


def branching():
    return (lambda x: x * 2 if x.sum() > 0 else x), (torch.ones(2),)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the user's module and a unit of it."""
    found = tmp_path_factory.mktemp("bad_calls")
    (found / "bad_call_models.py").write_text(textwrap.dedent(SOURCE))
    (found / "mine").mkdir()
    (found / "mine" / "README.md").write_text("my own")
    (found / "file").write_text("my own")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(found)
        patch.chdir(found)
        assert run(["generate", "bad_call_models:good", "--out", "unit"]) == 0
        yield found


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


FACTORY, OUT = "bad_call_models:good", ["--out", "unit"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bad_call_models:leaves", *OUT], ("SystemExit: 3", "without arguments")),
        (["bad_call_models:needs", *OUT], ("missing 1 required positional argument", "without arguments")),
        (["bad_call_models:Net", *OUT, "--input", "x=float32[2,4]"], ("'n'", "name a factory")),
        (["bad_call_models.py:good", *OUT], ("Name the module", "bad_call_models:good")),
        (["no_such_models:good", *OUT], ("could not be imported", "from the folder")),
        (["bad_call_models:narrow", *OUT], ("must have same reduction dim", "eager")),
        (["bad_call_models:generator", *OUT], ("generator", "eager")),
        (["bad_call_models:negated", *OUT], ("opposite sign", "resolve_neg")),
        (["bad_call_models:unfinished", *OUT], ("missing a required argument: 'x'", "parameters are (x)")),
        (["bad_call_models:branching", *OUT], ("branches on", "torch.where")),
        ([FACTORY, *OUT, "--device", "tpu"], ("'tpu' is unknown", "cpu, cuda")),
        ([FACTORY, *OUT, "--device", "cuda", "--arch", "sm_1"], ("got 'sm_1'", "--arch sm_90")),
        ([FACTORY, *OUT, "--arch", "sm_90"], ("the target is the CPU",)),
        ([FACTORY, *OUT, "--mode", "fast"], ("'fast' is unknown", "max-autotune")),
        ([FACTORY, *OUT, "--dynamic", "q:0"], ("NAME:DIM", "Names: x")),
        ([FACTORY, *OUT, "--dynamic", "x:2"], ("x has 2 dimensions", "number 0")),
        ([FACTORY, "--out", ""], ("holds the current folder", "another --out")),
        ([FACTORY, "--out", ".."], ("holds the current folder", "another --out")),
        ([FACTORY, "--out", "file"], ("is a file", "another --out")),
        ([FACTORY, "--out", "file/unit"], ("cannot be written", "another --out")),
        ([FACTORY, "--out", "mine"], ("longhand did not write it", "another --out")),
        ([FACTORY, "--out", "/proc/unit"], ("cannot be written", "another --out")),
    ],
)
def test_a_bad_call_of_generate(arguments, words, folder, capsys):
    before = contents(folder)
    code = run(["generate", *arguments])
    said = " ".join(capsys.readouterr().err.split())
    assert code == 2
    assert said.startswith("longhand: ") and all(word in said for word in words), said
    assert "bug" not in said and len(said) < 600
    assert contents(folder) == before


@pytest.mark.parametrize("command", ["verify", "bench", "tune"])
@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("CXX", "no-such-compiler", ("'no-such-compiler' was not found", "Install g++")),
        ("XDG_CACHE_HOME", "/proc", ("cannot be used for built kernels", "Set XDG_CACHE_HOME")),
    ],
)
def test_kernels_that_cannot_be_built(command, variable, value, words, folder, capsys, monkeypatch, tmp_path):
    before = contents(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(variable, value)
    code = run([command, "unit"])
    said = " ".join(capsys.readouterr().err.split())
    assert code == 2
    assert said.startswith("longhand: ") and all(word in said for word in words), said
    assert "bug" not in said and contents(folder) == before


def test_a_function_of_no_tensors_is_a_unit(tmp_path, monkeypatch):
    (tmp_path / "no_tensor_models.py").write_text("def three():\n    return (lambda: 3), ()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(["generate", "no_tensor_models:three", "--out", "three"]) == 0
    assert run(["verify", "three"]) == 0
