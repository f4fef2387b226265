"""`bench` times kernels as they are and as they were written; `diff --markdown` takes its numbers."""

import json
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand import cli
from longhand.tune.kernel_times import time_kernels


class Net(nn.Module):
    def forward(self, x):
        return F.gelu(x + 1).softmax(-1)


def example():
    return Net(), (torch.randn(64, 300),)


FACTORY = f"{__name__}:example"


@pytest.fixture
def unit(tmp_path):
    out = tmp_path / "net"
    with torch.no_grad():
        longhand.generate(*example(), out=out)
    return out


def test_an_edited_kernel_is_timed_beside_the_one_that_was_written(unit, capsys):
    found = time_kernels(unit, n_turns=2)
    assert found and all(time.base is None and time.times.minimum > 0 for time in found.values())
    name = next(iter(found))
    kernel = unit / "kernels" / f"{name}.cpp"
    # Slow enough to be seen in any noise: the whole work is done fifty times.
    text = kernel.read_text()
    begin = text.index("  for (long row")
    kernel.write_text(f"{text[:begin]}  for (int again = 0; again < 50; ++again)\n{text[begin:]}")
    again = text.count("#pragma omp parallel for")
    kernel.write_text(kernel.read_text().replace("#pragma omp parallel for", "// one thread: for", again))
    (edited,) = [time for found_name, time in time_kernels(unit, n_turns=2).items() if found_name == name]
    assert edited.base is not None and edited.times.minimum > 5 * edited.base.minimum
    assert edited.gb_per_s == pytest.approx(edited.bytes_moved / edited.times.median / 1e6)

    assert cli.run(["bench", str(unit), "--kernels", "--turns", "1", "--json"]) == 0
    printed = capsys.readouterr().out
    times = unit.parent / "times.json"
    times.write_text(printed)
    assert json.loads(printed)["kernels"][name]["base_ms"] > 0
    assert cli.run(["diff", str(unit), "--markdown", "--bench", str(times)]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(f"| `{name}`"))
    assert "edited +" in row and "ok: error" in row and "(base " in row


def _without_openssl(model):
    def run(*args):
        raise FileNotFoundError(2, "No such file or directory", "openssl")

    return run


def test_torch_compile_is_left_out_where_it_fails(unit, capsys, monkeypatch):
    monkeypatch.setattr(torch, "compile", _without_openssl)
    assert cli.run(["bench", str(unit), "--factory", FACTORY, "--turns", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["model"]) == ["eager", "longhand"] and "'openssl'" in told["left_out"]["torch.compile"]
    assert cli.run(["bench", str(unit), "--factory", FACTORY, "--turns", "1"]) == 0
    assert "torch.compile does not run here" in capsys.readouterr().out


def copied(x):
    return torch.sin(x).transpose(0, 1).contiguous()


def test_a_kernel_is_compared_with_a_copy_of_its_size_whatever_its_name(tmp_path, capsys):
    out = tmp_path / "unit"
    longhand.generate(copied, (torch.randn(300, 200),), out=out, run=False)
    name = next(iter(json.loads((out / "longhand.lock").read_text())["kernels"]))
    for path in [path for path in out.rglob("*") if path.suffix in (".py", ".cpp", ".lock")]:
        path.write_text(re.sub(rf"\b{name}\b", "copy", path.read_text()))
        path.rename(path.with_stem("copy") if path.stem == name else path)
    found = time_kernels(out, n_turns=3)["copy"]
    assert 0.01 < found.share < 20 and found.bytes_moved == 2 * 4 * 300 * 200
    assert cli.run(["bench", str(out), "--turns", "3", "--kernels"]) == 0
    assert "noise" in capsys.readouterr().out.splitlines()[0]


class TwoSizes(nn.Module):
    def forward(self, x, y):
        return F.gelu(x + 1), F.gelu(y + 1)


def test_all_calls_of_a_kernel_are_timed_not_the_first_alone(tmp_path):
    """The second call moves sixty times what the first does: a time of the first beside both's bytes is nonsense."""
    out = tmp_path / "unit"
    longhand.generate(TwoSizes(), (torch.randn(64, 64), torch.randn(1024, 1024)), out=out, run=False)
    times = time_kernels(out, n_turns=3)
    lock = json.loads((out / "longhand.lock").read_text())
    for name, (n_calls, moved) in lock["traffic"].items():
        assert times[name].bytes_moved == moved // n_calls
    fastest = max(time.share for time in times.values())
    assert fastest < 4, "no kernel is much faster than a copy"
