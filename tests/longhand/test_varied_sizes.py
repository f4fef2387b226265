"""Sizes that vary are verified at other values than the example's."""

import json
import shutil

import pytest
import torch

from longhand import cli
from longhand.errors import OptionError, UnitError
from longhand.verify.varied_sizes import SizeRules, evaluated

WIDE = "tests.longhand.manners_model:wide"
LOCK = {
    "guards": [
        {
            "name": "x",
            "dtype": "float32",
            "shape": ["batch", 8, "2 * seq"],
            "stride": ["16 * seq", "2 * seq", 1],
        },
        {"name": "mask", "dtype": "bool", "shape": ["batch"], "stride": [1]},
        {"name": "batch", "dim": 0, "minimum": 2, "maximum": 64, "example": 6},
        {"name": "seq", "dim": 2, "minimum": 2, "maximum": None, "example": 4},
        {"condition": "seq % 4 == 0"},
    ]
}
RULES = SizeRules.of(LOCK)


def run(capsys, *words):
    code = cli.run([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, " ".join(captured.err.split())


@pytest.mark.parametrize(
    ("texts", "sets"),
    [
        (("batch=2,7",), [{"batch": 2}, {"batch": 7}]),
        (("mask:0=2", "seq=8, 12"), [{"batch": 2, "seq": 8}, {"batch": 2, "seq": 12}]),
        (("none",), []),
    ],
)
def test_what_is_asked_for(texts, sets):
    assert [dict(one) for one in RULES.sets_of(texts)] == sets


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("batch", "does not read NAME=N"),
        ("rows=3", "no size called 'rows'"),
        ("batch=1", "is for 2 to 64"),
        ("batch=65", "is for 2 to 64"),
        ("seq=6", "seq % 4 == 0"),
    ],
)
def test_what_cannot_be_asked_for(text, told):
    with pytest.raises(OptionError, match=told):
        RULES.sets_of([text])


def test_sizes_at_random_keep_ranges_and_conditions():
    seen = set()
    for seed in range(50):
        below, above = RULES.drawn(seed)
        assert 2 <= below["batch"] <= 6 < above["batch"] <= 13
        assert below["seq"] % 4 == above["seq"] % 4 == 0
        seen.add(above["batch"])
    assert len(seen) > 3
    assert all(one["batch"] <= 6 for seed in range(9) for one in RULES.drawn(seed, only_smaller=True))


def test_tensors_are_cut_and_grown_with_the_values_that_they_may_have():
    x, mask = torch.rand(6, 8, 8) + 1.0, torch.tensor([True, False, True, True, False, True])
    grown, longer = RULES.resized([x, mask], {"batch": 9, "seq": 8})
    assert grown.shape == (9, 8, 16) and grown.is_contiguous() and longer.shape == (9,)
    assert grown.min() > 0 and torch.equal(grown[:6, :, :8], x) and torch.equal(longer[6:], mask[:3])
    assert not torch.equal(grown[6:, :, :8], x[:3])  # a kernel that wraps around must not look right
    cut, _ = RULES.resized([x, mask], {"batch": 3})
    assert torch.equal(cut, x[:3])
    with pytest.raises(UnitError, match="is not what the lock says"):
        RULES.resized([x[:5], mask], {"batch": 3})


def test_the_locks_expressions_are_arithmetic_and_nothing_else():
    assert evaluated("max((a + 1) // 2, -3) * a**2 == 18 and not a % 3", {"a": 3}) == 1
    for text in (
        "__import__('os')",
        "a.b",
        "(lambda: 1)()",
        "a if a else a",
        "a ** 99",
        "9 // 0",
        "b",
        "'x' * 9",
    ):
        with pytest.raises(UnitError, match="no expression of sizes"):
            evaluated(text, {"a": 3})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("sizes") / "unit"
    assert cli.run(["generate", WIDE, "--out", str(out), "--dynamic", "x:0", "--no-run"]) == 0
    return out


@pytest.fixture
def unit(made, tmp_path):
    """The unit, with the example's size put by hand into its kernel's loop."""
    copy = shutil.copytree(made, tmp_path / "unit")
    (kernel,) = copy.glob("kernels/*.cpp")
    text = kernel.read_text()
    assert "row < n_rows" in text
    kernel.write_text(text.replace("row < n_rows", "row < (n_rows < 64 ? n_rows : 64)", 1))
    return copy


def test_a_size_put_by_hand_into_a_kernel_is_found_by_verify(unit, capsys):
    code, shown, error = run(capsys, "verify", unit)
    assert code == 1 and "does not compute what its original computes" in error
    assert "WRONG" in shown and "also at other sizes" in shown
    code, shown, _ = run(capsys, "verify", unit, "--sizes", "x:0=7,128", "--json")
    found = json.loads(shown)
    assert code == 1 and not found["right"] and len(found["sizes"]) == 2
    wrong = {(one["name"].rpartition("=")[2]) for one in found["whole"] if not one["right"]}
    assert wrong == {"128"}
    assert {one["at"].rpartition("=")[2] for one in found["kernels"] if not one["right"]} == {"128"}


def test_check_verify_is_one_answer_for_all_of_it(made, unit, capsys, monkeypatch):
    code, shown, _ = run(capsys, "check", made, "--verify", "--json")
    found = json.loads(shown)
    assert code == 0 == found["exit_code"] and found["units"][0]["answer"] == "current"
    assert len(found["units"][0]["sizes"]) == 2
    code, shown, _ = run(capsys, "check", made, unit, "--verify", "--format", "github")
    assert code == 5
    (kernel,) = unit.glob("kernels/*.cpp")
    assert f"::error file={kernel.as_posix()},line=1,title=longhand: wrong::" in shown
    assert str(made) not in shown
    monkeypatch.delenv("LONGHAND_TRUST")
    monkeypatch.setattr("longhand.verify.verified_check.verify", None)  # nothing runs without trust
    assert run(capsys, "check", made, "--verify")[0] == 4


def test_a_summary_that_finds_something_wrong_is_no_success(unit, capsys):
    (kernel,) = unit.glob("kernels/*.cpp")
    kernel.write_text(kernel.read_text().replace("* 0.5f", "* 0.75f"))
    code, shown, _ = run(capsys, "diff", unit, "--markdown")
    assert code == 1 and "WRONG" in shown
    assert run(capsys, "diff", unit, "--markdown", "--no-check")[0] == 0
