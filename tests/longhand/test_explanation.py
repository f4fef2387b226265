"""`longhand.explain`: graphs, breaks with causes and hints, guards; LONGHAND_LOGS tells the same."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import longhand
from longhand.cli.commands import commands
from longhand.errors import OptionError

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
    folders = [line.strip() for line in text.splitlines() if line.strip().startswith("/")]
    assert len(folders) == 2 and all((Path(folder) / "model.py").is_file() for folder in folders)


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
        assert "Halting.forward" in again[0] and "L['x']: sizes (4, 6)" in again[0]
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
