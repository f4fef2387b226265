"""The user's statements are quoted in four languages: none ends what it stands in, and none carries a secret along."""

import importlib.util
import subprocess

import pytest
import torch
from torch import nn

import longhand
from longhand.capture.facts import facts_of
from longhand.capture.source import lambda_at, one_line, statement_at
from longhand.emit.text.quoting import cpp_comment, python_comment, python_docstring, python_string, visible
from tests.attacks.odd_names import odd_names
from tests.attacks.odd_sources import odd_lines

COUNT = 500
HEAD = "import torch\n\n\ndef kept(x, text):\n    return torch.tanh(x)\n\n\n"


def defined(text, folder, name="odd_lines"):
    path = folder / f"{name}.py"
    path.write_bytes(text.encode())
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(folder):
    return {
        path: path.read_bytes().decode()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".pt", ".pyc")
    }


@pytest.mark.parametrize(
    "start", [pytest.param(s, marks=() if s == 0 else pytest.mark.slow) for s in range(0, COUNT, 50)]
)
def test_odd_lines(start, tmp_path, monkeypatch):
    """As the lines of a function of which a unit is made, loaded, checked and run."""
    monkeypatch.chdir(tmp_path)
    lines = [line.replace("\n", "\n    ") for line in odd_lines(COUNT)][start : start + 50]
    source = HEAD + "def function(x):\n" + "".join(f"    {line}\n" for line in lines) + "    return x\n"
    function = defined(source, tmp_path).function
    with torch.no_grad():
        longhand.generate(function, (torch.randn(3),), out=tmp_path / "unit", device="cpu")
        x = torch.randn(3)
        torch.testing.assert_close(longhand.load(tmp_path / "unit")(x), function(x))
    for path, text in texts(tmp_path / "unit").items():
        assert "sk-secret" not in text, path
        assert all(line.isprintable() for line in text.replace("\t", " ").split("\n")), path
    assert not list(tmp_path.rglob("EXECUTED*"))


def test_cuda_text(tmp_path):
    """The same lines in a Triton kernel's docstring: it is Python still."""
    source = (
        HEAD
        + "def function(x):\n"
        + "".join("    " + line.replace("\n", "\n    ") + "\n" for line in list(odd_lines(30)))
    )
    function = defined(source + "    return x\n", tmp_path).function
    with torch.no_grad():
        longhand.generate(function, (torch.randn(3),), out=tmp_path / "unit", device="cuda", arch="sm_90")
    for path, text in texts(tmp_path / "unit").items():
        if path.suffix == ".py":
            compile(text, str(path), "exec")


def test_each_language_keeps_its_bounds(tmp_path):
    words = [*odd_names(COUNT), *odd_lines(COUNT)]
    lines = []
    for number, text in enumerate(words):
        assert eval(python_string(text)) == text
        document = f'"""{python_docstring(text)}"""'
        assert eval(document) == visible(text)
        assert compile(f"x = 1  # {python_comment(text)}\n", "", "exec").co_consts == (1, None)
        lines += [f"// {cpp_comment(text)}", f"int value{number} = {number};"]
    (tmp_path / "a.cpp").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for standard in ("c++14", "c++20"):  # with trigraphs and without
        command = ["g++", f"-std={standard}", "-Werror=comment", "-c", "a.cpp", "-o", "a.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "a.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert symbols.count("value") == len(words)


def test_strings_are_not_quoted():
    assert one_line('x = f(a, "sk-12", b"x", "nearest", \'ij,jk->ik\')') == (
        """x = f(a, "...", b"...", "nearest", 'ij,jk->ik')"""
    )
    assert one_line('x = f(f"{a}sk", """a\nb""")') == 'x = f(f"...", "...")'
    assert "secret" not in one_line("x = f('my' 'secret key', rb'\\secret 1')")


def test_only_the_expression_of_a_lambda_is_quoted(tmp_path):
    path = tmp_path / "lambdas.py"
    path.write_text("model = Model(lambda x: x.relu() + 1, key=hunter2)\ny = lambda: 0, lambda: 1\n")
    assert lambda_at(str(path), 1).text == "x.relu() + 1"
    assert lambda_at(str(path), 2) is None, "nobody knows which one"
    assert "hunter2" in statement_at(str(path), 1).text


def test_facts_tell_no_string():
    guards = ["L['self'].key == 'hunter2'", "L['self'].n == 3", """L['self'].pair == ('a\\'b', "c", 1)"""]
    assert facts_of(guards) == ("n = 3",)  # nor that there is one: a type is no value that anybody could keep


class Keyed(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = "sk-hunter2"
        self.act = lambda x, key="sk-hunter3": x.sin() if key else x

    def forward(self, x):
        return self.act(x) + 1 if self.key == "sk-hunter2" else x


@pytest.mark.parametrize("frontend", ["export", "bytecode"])
def test_no_secret_in_any_file(frontend, tmp_path, hook):
    with torch.no_grad():
        longhand.generate(
            Keyed().eval(), (torch.randn(3),), out=tmp_path / "unit", device="cpu", frontend=frontend
        )
    assert not [path for path, text in texts(tmp_path / "unit").items() if "hunter" in text]
