"""Five edits of a script through `handoff` and `accept`: two are accepted, three refused, each with its reason."""

import json
from pathlib import Path

import pytest

import longhand
from longhand import cli
from longhand.emit.unit.threeway import Outcome
from longhand.staleness.renewal import renew
from tests.longhand.handoff_model import make

pytestmark = pytest.mark.slow  # five kernels of C++, and four processes that import torch

FACTORY = "tests.longhand.handoff_model:make"
# What stands in the unit: a person's edits, slow on purpose, so that something can be gained on any machine.
STANDING = {
    "gelu": ("  for (long i = 0;", "  for (long again = 0; again < REPEATS; ++again)\n  for (long i = 0;"),
    "exp_add": (
        "    total[i] = vector_exp(projected[i]) + 1.0f;",
        "    total[i] = std::exp(double(projected[i])) + 1.0;",
    ),
}
# The script's edits: a tunable, a rewritten loop, a wrong one, a slower one, one right at the example's size alone.
EDITS = {
    "gelu": ("constexpr long REPEATS = 30;", "constexpr long REPEATS = 1;"),
    "exp_add": (
        "    total[i] = std::exp(double(projected[i])) + 1.0;",
        "    total[i] = vector_exp(projected[i]) + 1.0f;",
    ),
    "softmax": ("x_row[col] * inverse", "x_row[col] * (inverse + 0.01f)"),
    "sigmoid_scale": (
        "    x[i] = 1.0f / (1.0f + vector_exp(-projected[i])) * 2.0f;",
        "    x[i] = 2.0 / (1.0 + std::exp(double(-projected[i])));",
    ),
    "layer_norm": (
        "    double row_sum = 0.0;",
        "    if (n_cols != 64) continue;\n\n    double row_sum = 0.0;",
    ),
}


def edit(path, old, new):
    text = path.read_text()
    assert old in text, path
    path.write_text(text.replace(old, new))


def test_two_are_accepted_and_three_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    unit, folder = tmp_path / "unit", tmp_path / "given"
    model, args = make()
    longhand.generate(model, args, out=unit, factory=FACTORY, run=False)
    for name, change in STANDING.items():
        edit(unit / f"kernels/{name}.cpp", *change)
    edit(
        unit / "kernels/gelu.cpp",
        "constexpr long GRAIN",
        "constexpr long REPEATS = 30;\nconstexpr long GRAIN",
    )
    edit(unit / "kernels/gelu.cpp", "#pragma omp parallel for simd if (parallel : n_elements >= GRAIN)\n", "")
    edit(
        unit / "kernels/exp_add.cpp", '#include "vector_math.h"', '#include "vector_math.h"\n#include <cmath>'
    )
    assert cli.run(["handoff", str(unit), "--out", str(folder)]) == 0
    assert "longhand accept" in capsys.readouterr().out
    for name, change in EDITS.items():
        edit(folder / f"kernels/{name}.cpp", *change)
    edit(folder / "kernels/sigmoid_scale.cpp", '#include "vector_math.h"', "#include <cmath>")
    before = {path: path.read_bytes() for path in (unit / "kernels").glob("*.cpp")}
    code = cli.run(["accept", str(folder), "--json"])
    said = capsys.readouterr()
    assert code == 1, said
    refusals = {one["kernel"]: one["refusal"] for one in json.loads(said.out)}
    assert [name for name, why in refusals.items() if not why] == ["exp_add", "gelu"], refusals
    assert "it is wrong at [0, 0]" in refusals["softmax"]
    assert "no faster" in refusals["sigmoid_scale"]
    assert refusals["layer_norm"].startswith("at n_rows=") and "n_cols=64" not in refusals["layer_norm"]
    installed = {path.stem for path, content in before.items() if path.read_bytes() != content}
    assert installed == {"exp_add", "gelu"}
    merge = renew(unit).merge
    assert {Path(path).stem for path in merge.of(Outcome.KEPT)} == {"exp_add", "gelu"}
    assert all(
        (unit / f"kernels/{name}.cpp").read_bytes() == (folder / f"kernels/{name}.cpp").read_bytes()
        for name in installed
    )
