"""What `accept` refuses and installs, and how a kernel is tried at sizes that the model does not have."""

import hashlib
import json
import os
import random
from types import SimpleNamespace

import pytest
import torch

from longhand.emit.unit.writer import write_unit
from longhand.errors import NotRunHereError, UnitError
from longhand.handoff import acceptance
from longhand.handoff.acceptance import accept
from longhand.handoff.call_contract import as_table, described
from longhand.handoff.other_sizes import drawn_ints, fault_of, resized
from tests.emit.merge_units import edit, version

NAMES = ("gelu", "norm", "softmax")


@pytest.fixture
def given(tmp_path):
    """A unit of three kernels, and a folder where they were handed off."""
    unit, folder = tmp_path / "unit", tmp_path / "given"
    write_unit(version(**dict.fromkeys(NAMES, 3)), unit)
    kernels = {}
    for name in NAMES:
        content = (unit / f"kernels/{name}.py").read_bytes()
        (folder / "kernels").mkdir(parents=True, exist_ok=True)
        (folder / f"kernels/{name}.py").write_bytes(content)
        kernels[name] = {"files": {f"kernels/{name}.py": hashlib.sha256(content).hexdigest()}}
    contract = {"unit": os.path.relpath(unit, folder), "kernels": kernels}
    (folder / "contract.json").write_text(json.dumps(contract))
    return unit, folder


@pytest.fixture
def judge(monkeypatch):
    """Says what running the kernels finds; a fault that is an exception ends the process."""
    verdicts, asked = {}, []

    def run_worker(worker, edited, request, *, tell):
        found = {}
        asked.append(json.loads(request)["kernels"])
        for name in asked[-1]:
            verdict = verdicts.get(
                name, {"fault": "", "slower": "", "gain": 0.5, "noise": 0.01, "n_sizes": 9}
            )
            if isinstance(verdict, Exception):
                raise verdict
            found[name] = verdict
            with open(json.loads(request)["so_far"], "w") as so_far:
                json.dump(found, so_far)

    monkeypatch.setattr(acceptance, "run_worker", run_worker)
    return verdicts, asked


def test_what_passes_is_installed_and_what_does_not_is_told(given, judge):
    unit, folder = given
    for name in NAMES:
        edit(folder, f"kernels/{name}.py", "BLOCK = 512", "BLOCK = 64")
    verdicts, asked = judge
    verdicts["gelu"] = {"fault": "", "slower": "1.0% faster, with a noise of 3.0%: not to be told apart"}
    verdicts["norm"] = UnitError("it crashed the process (signal 11)")
    gelu, norm, softmax = accept(folder, installs=False)
    assert "not to be told apart" in gelu.refusal and "signal 11" in norm.refusal and not softmax.refusal
    assert asked == [list(NAMES), ["softmax"]], "one that crashes costs one kernel"
    assert "BLOCK = 512" in (unit / "kernels/softmax.py").read_text()
    assert "accepted: 50.0% faster (noise 1.0%), right at 9 other" in str(accept(folder)[2])
    texts = {name: (unit / f"kernels/{name}.py").read_text() for name in NAMES}
    assert [name for name in NAMES if "BLOCK = 64" in texts[name]] == ["softmax"]


def test_an_edit_that_breaks_its_callers_does_not_run(given, judge):
    unit, folder = given
    edit(folder, "kernels/gelu.py", "def gelu(x, out):", "def gelu(x):")
    edit(folder, "kernels/norm.py", "BLOCK = 512", "BLOCK = 64")
    gelu, norm = accept(folder)
    assert "the signature of gelu changed" in gelu.refusal and not norm.refusal
    assert judge[1] == [["norm"]]
    assert "def gelu(x, out):" in (unit / "kernels/gelu.py").read_text()


def test_a_unit_that_went_on_meanwhile_is_not_overwritten(given, judge):
    unit, folder = given
    edit(folder, "kernels/gelu.py", "BLOCK = 512", "BLOCK = 64")
    edit(unit, "kernels/gelu.py", "NUM_WARPS = 4", "NUM_WARPS = 8")
    (folder / "kernels/norm.py").unlink()
    gelu, norm = accept(folder)
    assert "hand it off again" in gelu.refusal and "is missing" in norm.refusal
    assert judge[1] == [] and "BLOCK = 512" in (unit / "kernels/gelu.py").read_text()


def test_a_folder_that_is_none_or_that_nobody_edited(given, judge, monkeypatch, tmp_path):
    _, folder = given
    with pytest.raises(UnitError, match="Nothing was edited"):
        accept(folder)
    with pytest.raises(UnitError, match="no folder of `longhand handoff`"):
        accept(tmp_path)
    contract = json.loads((folder / "contract.json").read_text())
    contract["kernels"]["gelu"]["files"] = {"../../outside.py": ""}
    (folder / "contract.json").write_text(json.dumps(contract))
    with pytest.raises(UnitError, match="no folder of `longhand handoff`"):
        accept(folder)
    monkeypatch.setattr(acceptance, "is_interpreted", lambda _: True)
    (folder / "contract.json").write_text(json.dumps({**contract, "kernels": {}}))
    with pytest.raises(NotRunHereError, match="where there is a GPU"):
        accept(folder)


def scale_windows(x, out, n_rows, n_cols, factor):
    read = {"x": check.window(x, (n_rows, n_cols), (n_cols, 1)), "factor": factor}
    return read, [check.window(out, (n_rows, n_cols), (n_cols, 1))]


def with_check(name, kernel, report):
    def checked(*given):
        read, (written,) = scale_windows(*given)
        expected = read["x"].clone() * read["factor"]
        kernel(*given)
        error = (written - expected).abs().max().item()
        report(name, given[2:], error, 1e-6, f"at [0]: {written.flatten()[0]}" if error else "")

    return checked


check = SimpleNamespace(
    window=lambda tensor, shape, stride, offset=0: tensor.as_strided(shape, stride, offset),
    KERNELS={"scale": (scale_windows, None)},
    with_check=with_check,
)


def scale(x, out, n_rows, n_cols, factor, n_written=0):
    n_elements = n_written or n_rows * n_cols
    out.as_strided((n_elements,), (1,)).copy_(x.as_strided((n_elements,), (1,)) * factor)


def test_every_size_is_changed_alone_and_never_to_what_it_is():
    x = torch.randn(8, 6)
    sets = drawn_ints((x, x, 8, 6, 0.5, True), random.Random(0))
    assert (8, 6) not in sets and len(sets) == len(set(sets))
    assert sum(rows == 8 for rows, _ in sets) >= 2 and sum(cols == 6 for _, cols in sets) >= 2
    assert all(size >= 1 for ints in sets for size in ints)


def test_a_kernel_is_tried_at_other_sizes_on_values_like_its_own():
    x = torch.tensor([[1.0, float("-inf"), 3.0]] * 4)
    call = resized(check, "scale", (x, torch.zeros(4, 3), 4, 3, 0.5), (5, 7), seed=1)
    assert call.given[0].shape == (35,) and call.given[2:] == (5, 7, 0.5)
    assert set(call.given[0].tolist()) <= {1.0, float("-inf"), 3.0}
    in_place = resized(check, "scale", (x, x, 4, 3, 0.5), (5, 7), seed=1)
    assert in_place.given[0] is in_place.given[1]
    assert resized(check, "scale", (x, x, 4, 3, 0.5), (2**13, 2**13), seed=1) is None
    assert resized(check, "scale", (x, [x], 4, 3, 0.5), (5, 7), seed=1) is None


@pytest.mark.parametrize(
    ("kernel", "fault"),
    [
        (scale, ""),
        (lambda *given: scale(*given) if given[3] == 3 else None, "it is wrong at"),
        (lambda *given: scale(*given, n_written=given[2] * given[3] + 1), "it writes behind"),
        (lambda *given: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_what_is_wrong_at_other_sizes_is_told(kernel, fault):
    x = torch.arange(1.0, 13.0).reshape(4, 3)
    x[0, 0] = float("nan")  # no memory that is wrong, wherever it stands
    call = resized(check, "scale", (torch.arange(12.0), x, 4, 3, 0.5), (2, 5), seed=1)
    found = fault_of(check, "scale", kernel, call)
    assert found.startswith(fault) and bool(found) == bool(fault)


def test_a_contract_tells_types_places_ranges_and_aliases():
    x = torch.tensor([[1.0, float("-inf"), 3.0]])
    one, two, three, four = described(("x", "out", "positions", "n_cols"), (x, x, torch.tensor([2, 5]), 3))
    assert (one["dtype"], one["shape"], one["strides"], one["range"]) == (
        "float32",
        [1, 3],
        [3, 1],
        [1.0, 3.0],
    )
    assert two["same_memory_as"] == ["x"] and three["range"] == [2, 5] and four["value"] == 3
    rows = as_table({"arguments": [one, two, three, four]})
    assert rows[3].endswith("| 1 to 3 | that of `x` |") and rows[5] == "| `n_cols` | int | | | 3 | |"
