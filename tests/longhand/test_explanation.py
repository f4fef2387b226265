"""`longhand.explain`: graphs, breaks with causes and hints, guards; LONGHAND_LOGS tells the same."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import longhand
from longhand.cli.commands import commands
from longhand.errors import OptionError
from longhand.telling.explanation import Break, Explanation

pytestmark = pytest.mark.usefixtures("hook")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path / "cache"))


class Halting(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        x = self.linear(x).view(-1, self.width).exp()
        if x.sum() > 0:
            x = x + 1
        return x.softmax(-1)


@torch.no_grad()
def test_graphs_breaks_and_guards():
    explanation = longhand.explain(Halting(6))(torch.randn(4, 6))
    assert len(explanation.graphs) == len(explanation.guards) == 2
    (broken,) = explanation.breaks
    assert "depends on a tensor's values" in broken.reason and "torch.where" in broken.hint
    line = Halting.forward.__code__.co_firstlineno + 2
    assert broken.where == f"{__file__}:{line}" and broken.statement == "if x.sum() > 0:"
    text = str(explanation)
    assert text.startswith("2 graphs, 1 break\n")
    assert "width = 6" in text and broken.where in text and broken.hint in text
    assert any("sizes (4, 6)" in guard for guard in explanation.guards[0])
    folders = [line.strip("│ ") for line in text.splitlines() if line.strip("│ ").startswith("/")]
    assert len(folders) == 2 and all((Path(folder) / "model.py").is_file() for folder in folders)


@torch.no_grad()
def test_it_is_a_tree_of_graphs_kernels_and_breaks(monkeypatch):
    explanation = longhand.explain(Halting(6))(torch.randn(4, 6))
    lines = str(explanation).splitlines()
    heads = [line for line in lines if line[:2] in ("├─", "└─")]
    assert [line.split()[1] for line in heads] == [
        "graph",
        "break",
        "graph",
    ], "in the order in which they run"
    assert "kernels move" in heads[0] and heads[-1].startswith("└─")
    kernels = [line for line in lines if "├─ " in line and line[0] in "│ "]
    assert any("softmax" in line and " B " in line for line in kernels), "bytes beside each kernel"
    assert any("libraries: aten." in line for line in lines)
    assert repr(explanation) == "<Explanation 2 graphs, 1 break; print it for more>"
    # Once more: the units are in the cache, and have their kernels all the same.
    again = longhand.explain(Halting(6))(torch.randn(4, 6))
    assert "in the cache, kernels move" in str(again) and "softmax" in str(again)


@torch.no_grad()
def test_in_a_notebook_it_is_html_and_what_it_says_is_text(tmp_path):
    found = longhand.explain(Halting(6))(torch.randn(4, 6))._repr_html_()
    assert found.startswith("<div") and found.count("<details") >= 2 and "<script" not in found
    assert "if x.sum() &gt; 0:" in found
    odd = Break("<script>alert(1)</script>", '"><img src=x>:1', "<b>", "&")
    shown = Explanation((), (odd,))._repr_html_()
    assert "<script" not in shown and "<img" not in shown and "&lt;script&gt;" in shown


@torch.no_grad()
def test_through_dynamo():
    explanation = longhand.explain(Halting(6), frontend="dynamo")(torch.randn(4, 6))
    assert len(explanation.graphs) == 2 and len(explanation.breaks) == 1 and explanation.guards == ()
    with pytest.raises(OptionError, match="export"):
        longhand.explain(Halting(6), frontend="export")


def test_the_command(tmp_path, monkeypatch):
    result = CliRunner().invoke(commands, ["explain", "examples.attention:small"], catch_exceptions=False)
    assert result.output.startswith("1 graph, 0 breaks\n") and "guards" in result.output


@torch.no_grad()
def test_the_logs_tell_breaks_guards_and_why_it_is_compiled_again(monkeypatch, caplog):
    monkeypatch.setenv("LONGHAND_LOGS", "graph_breaks,recompiles,guards")
    caplog.set_level("INFO")
    try:
        model = Halting(6)
        compiled = longhand.compile(model, frontend="bytecode")
        compiled(torch.randn(4, 6))
        said = {
            name: [r.getMessage() for r in caplog.records if r.name == f"longhand.{name}"]
            for name in ("graph_breaks", "guards", "recompiles")
        }
        assert "depends on a tensor's values" in said["graph_breaks"][0]
        assert any("L['self'].width == 6" in line for line in said["guards"])
        assert not said["recompiles"]
        caplog.clear()
        compiled(torch.randn(3, 6))
        again = [r.getMessage() for r in caplog.records if r.name == "longhand.recompiles"]
        assert "Halting.forward" in again[0] and "L['x']: size 4 in dimension 0 is 3" in again[0]
        caplog.clear()
        model.width = 3
        compiled(torch.randn(4, 6))
        again = [r.getMessage() for r in caplog.records if r.name == "longhand.recompiles"]
        assert "L['self'].width == 6" in again[0]
    finally:
        longhand.set_logs()


@pytest.mark.parametrize(("file", "n_graphs"), [("<made>", 0), ("<string made>", 1)])
def test_generated_code_does_not_run_in_eager_in_silence(file, n_graphs):
    names = {}
    exec(compile("def made(x):\n    return x.exp() + 1\n", file, "exec"), names)
    explanation = longhand.explain(names["made"])(torch.randn(4, 6))
    assert len(explanation.graphs) == n_graphs
    assert len(explanation.breaks) == 1 - n_graphs
    assert all("is generated code, which runs in eager" in one.reason for one in explanation.breaks)
    assert all("<string ...>" in one.hint for one in explanation.breaks)
