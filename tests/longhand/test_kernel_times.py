"""`bench` times kernels as they are and as they were written; `diff --markdown` takes its numbers."""

import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand import cli
from longhand.kernel_times import time_kernels


class Net(nn.Module):
    def forward(self, x):
        return F.gelu(x + 1).softmax(-1)


@pytest.fixture
def unit(tmp_path):
    out = tmp_path / "net"
    with torch.no_grad():
        longhand.generate(Net(), (torch.randn(64, 300),), out=out)
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
