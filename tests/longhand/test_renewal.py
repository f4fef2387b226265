"""A unit is renewed from its lock; what it is for (device, training, variable sizes) changes with --replace alone."""

import json
import shutil
import warnings

import pytest
import torch

import longhand
from longhand import cli
from longhand.errors import ReplacementError
from tests.longhand import manners_model

MODEL = "tests.longhand.manners_model:make"
SIZES = ("--dynamic", "tokens:0", "--dynamic", "mask:0")


def run(capsys, *words):
    code = cli.run([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, " ".join(captured.err.split())


def lock_of(unit):
    return json.loads((unit / "longhand.lock").read_text())


def contents(unit):
    return {
        path.relative_to(unit): path.read_bytes()
        for path in unit.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A CUDA unit whose batch may vary, captured from bytecode; copy it, leave it as it is."""
    out = tmp_path_factory.mktemp("made") / "unit"
    words = [
        "--device",
        "cuda",
        "--arch",
        "sm_90",
        "--frontend",
        "bytecode",
        "--no-run",
        "--mode",
        "max-autotune",
    ]
    assert cli.run(["generate", MODEL, "--out", str(out), *words, *SIZES]) == 0
    return out


@pytest.fixture
def unit(made, tmp_path):
    return shutil.copytree(made, tmp_path / "unit")


def test_what_check_prints_renews_the_unit_with_every_option(unit, capsys, monkeypatch):
    before = lock_of(unit)
    monkeypatch.setattr(
        manners_model.Scorer, "forward", lambda self, tokens, mask: tokens.relu() * mask[..., None]
    )
    code, shown, _ = run(capsys, "check", unit)
    assert code == 1
    command = shown.splitlines()[-1].split()
    assert command == ["longhand", "generate", str(unit)]
    assert run(capsys, *command[1:])[0] == 0
    after = lock_of(unit)
    assert after["kernels"] != before["kernels"]
    for option in ("device", "arch", "mode", "frontend", "dynamic", "factory", "run"):
        assert after[option] == before[option], option
    assert {guard["name"] for guard in after["guards"] if "example" in guard}  # the size still varies
    assert run(capsys, "check", unit)[0] == 0


def test_the_command_of_a_lock_is_the_one_that_was_given(made):
    from longhand.staleness.renewal import command_of, options_of

    command = command_of(options_of(lock_of(made), made), made)
    assert command == (
        f"longhand generate {MODEL} --out {made} --device cuda --arch sm_90 --mode max-autotune "
        "--dynamic tokens:0 --dynamic mask:0 --frontend bytecode --no-run"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "would become one for cpu"),
        (("--device", "cuda", "--arch", "sm_80", *SIZES), "would become one for cuda (sm_80)"),
        (("--device", "cuda", "--arch", "sm_90", *SIZES, "--train"), "would become one with a backward pass"),
        (("--device", "cuda", "--arch", "sm_90"), "may vary and would be fixed"),
    ],
)
def test_a_unit_becomes_no_other_by_accident(unit, capsys, words, told):
    before = contents(unit)
    code, _, error = run(capsys, "generate", MODEL, "--out", unit, *words)
    assert code == 2 and told in error and "--replace" in error and f"longhand generate {unit}" in error
    assert contents(unit) == before


def test_replace_changes_what_a_unit_is_for_and_keeps_the_rest(unit, capsys):
    assert run(capsys, "generate", unit, "--device", "cpu")[0] == 2
    assert run(capsys, "generate", unit, "--replace", "--device", "cpu")[0] == 0
    lock = lock_of(unit)
    assert (lock["device"], lock["arch"], lock["dynamic"]) == ("cpu", None, ["tokens:0", "mask:0"])


def test_all_renews_every_unit_and_names_those_that_cannot_be(unit, capsys, monkeypatch):
    monkeypatch.chdir(unit.parent)
    torch.manual_seed(0)
    longhand.generate(
        manners_model.rows, (torch.randn(4, 8),), out=unit.parent / "own", device="cpu", run=False
    )
    before = lock_of(unit)
    code, shown, error = run(capsys, "generate", "--all")
    assert code == 2 and "unit: Scorer" in shown
    assert "own: own was generated from a model object" in error and "1 of 2 units" in error
    assert lock_of(unit) == before


def test_generate_asks_for_what_it_needs(capsys, unit):
    for words in ((), (MODEL,), (unit, "--out", "x"), (unit, "--all")):
        code, _, error = run(capsys, "generate", *words)
        assert code == 2 and "MODULE:FACTORY" in error


def test_python_is_refused_in_the_same_way_and_may_replace(tmp_path):
    model, args = manners_model.wide()
    out = tmp_path / "unit"
    longhand.generate(model, args, out=out, run=False)
    with pytest.raises(ReplacementError, match=r"for cpu, and would become one for cuda \(sm_90\)"):
        longhand.generate(model, args, out=out, device="cuda", arch="sm_90", run=False)
    assert lock_of(out)["device"] == "cpu"
    longhand.generate(model, args, out=out, device="cuda", arch="sm_90", run=False, replace=True)
    assert lock_of(out)["device"] == "cuda"


def test_compile_leaves_a_unit_for_another_device_alone(made, tmp_path):
    unit = shutil.copytree(made, tmp_path / "unit")
    before = contents(unit)
    model, args = manners_model.make()
    compiled = longhand.compile(model, out=unit)
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.testing.assert_close(compiled(*args), model(*args))
    assert any("would become one for cpu" in str(one.message) for one in told)
    assert contents(unit) == before
