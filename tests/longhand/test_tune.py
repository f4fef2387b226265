"""`longhand tune`: the block of tunables is edited as a person would, and only where a kernel gets faster."""

import json
import shutil
import sys
import textwrap
import time

import pytest
import torch

import longhand
from longhand import cli
from longhand.emit.unit.threeway import Outcome
from longhand.staleness.edit_report import edits_of
from longhand.tune.contest import Contest
from longhand.tune.search import crowding, search
from longhand.tune.tunable_text import read_values, tunable_names, with_values
from longhand.tune.tuning import tune
from longhand.verify.verification import verify

CPP = """\
constexpr long ROWS = 32;      // rows per chunk, at least
constexpr long COLS = 1024;    // columns that are accumulated at a time
constexpr long GRAIN = 32768;  // elements below which one thread does it all
constexpr int64_t IGNORE_INDEX = -100;
"""
PYTHON = """\
LOWEST = tl.constexpr(-3.4)

# Tunables.
ELEMENTS = 4096  # per program: short rows share one
NUM_WARPS = 8


BLOCK = 3
"""

# ---- the text ------------------------------------------------------------------------------------------------------


def test_only_the_block_is_read():
    assert tunable_names(CPP, "kernels/a.cpp") == ("ROWS", "COLS", "GRAIN")
    assert tunable_names(PYTHON, "kernels/a.py") == ("ELEMENTS", "NUM_WARPS")
    assert tunable_names(PYTHON.replace("\n", "\r\n"), "kernels/a.py") == ("ELEMENTS", "NUM_WARPS")


@pytest.mark.parametrize(
    ("path", "text", "values", "old", "new"),
    [
        ("a.cpp", CPP, {"ROWS": 8}, "ROWS = 32;      //", "ROWS = 8;       //"),
        ("a.cpp", CPP, {"COLS": 16384}, "COLS = 1024;    //", "COLS = 16384;   //"),
        ("a.cpp", CPP, {"GRAIN": 131072}, "GRAIN = 32768;  //", "GRAIN = 131072;  //"),
        ("a.py", PYTHON, {"ELEMENTS": 512}, "ELEMENTS = 4096  # per", "ELEMENTS = 512  # per"),
        ("a.py", PYTHON, {"NUM_WARPS": 16}, "NUM_WARPS = 8\n", "NUM_WARPS = 16\n"),
        ("a.cpp", "constexpr long GRAIN = 4096;  // one\n", {"GRAIN": 512}, "4096;  //", "512;  //"),
        ("a.cpp", "static constexpr long GRAIN = 4'096L;\n", {"GRAIN": 512}, "4'096L", "512"),
        ("a.py", "NUM_WARPS = 8\r\n", {"NUM_WARPS": 4}, "8\r\n", "4\r\n"),
    ],
)
def test_one_number_changes_and_nothing_else(path, text, values, old, new):
    assert old in text
    assert with_values(text, path, values) == text.replace(old, new)
    assert read_values(with_values(text, path, values), path, tuple(values)) == values


def test_what_is_no_plain_number_is_not_read():
    text = "NUM_WARPS = 4 if BIG else 8\nELEMENTS = 2 * 512\nBLOCK = 1\nBLOCK = 2\n"
    names = ("NUM_WARPS", "ELEMENTS", "BLOCK", "TILE")
    assert read_values(text, "a.py", names) == dict.fromkeys(names)
    with pytest.raises(longhand.errors.UnitError):
        with_values(text, "a.py", {"BLOCK": 4})


# ---- the search ----------------------------------------------------------------------------------------------------


class Hill:
    """A course whose fastest point is known; `cost` gives the time."""

    def __init__(self, start, cost, illegal=lambda values: None):
        self.start, self.cost, self.illegal = start, cost, illegal
        self.measured = []

    def refusal(self, values):
        return self.illegal(values)

    def ratio(self, values):
        self.measured.append(dict(values))
        return self.cost(values) / self.cost(self.start)


def distance(value, best):
    return abs(value.bit_length() - best.bit_length())


def run(hill, is_over=lambda: False):
    return search(hill.start, tuple(hill.start), hill, is_over=is_over)


def test_the_search_finds_the_fastest_point_and_measures_none_twice():
    start = {"ELEMENTS": 4096, "NUM_WARPS": 8}
    hill = Hill(start, lambda v: 1 + distance(v["ELEMENTS"], 512) + distance(v["NUM_WARPS"], 2))
    found = run(hill)
    assert found.best == {"ELEMENTS": 512, "NUM_WARPS": 2} and found.is_complete
    points = [tuple(point.items()) for point in hill.measured]
    assert len(set(points)) == len(points) == found.n_tried < 30


def test_the_search_crosses_a_plateau():
    hill = Hill({"GRAIN": 4096}, lambda v: 1.0 if v["GRAIN"] < 30000 else 0.5)
    assert run(hill).best["GRAIN"] >= 30000


def test_the_search_moves_a_size_together_with_the_warps():
    # Only where a thread has 16 elements is it fast: neither tunable alone leads anywhere.
    def cost(values):
        per_thread = values["BLOCK"] // (32 * values["NUM_WARPS"])
        return (1 if per_thread == 16 else 5) + distance(values["BLOCK"], 8192)

    assert run(Hill({"BLOCK": 1024, "NUM_WARPS": 2}, cost)).best == {"BLOCK": 8192, "NUM_WARPS": 16}


def test_what_cannot_be_is_skipped_with_the_reason():
    hill = Hill(
        {"TILE": 64},
        lambda v: 1 / v["TILE"],
        lambda v: "needs 300000 of shared memory" if v["TILE"] > 128 else None,
    )
    found = run(hill)
    assert found.best == {"TILE": 128}
    assert ({"TILE": 256}, "needs 300000 of shared memory") in found.skipped


def test_the_search_ends_in_time():
    hill = Hill({"BLOCK": 1}, lambda v: 1 / v["BLOCK"])
    found = run(hill, is_over=lambda: len(hill.measured) >= 3)
    assert found.best == {"BLOCK": 8} and not found.is_complete


def test_warps_and_stages_stay_within_what_there_is():
    hill = Hill({"NUM_WARPS": 8, "NUM_STAGES": 2}, lambda v: 1 / (v["NUM_WARPS"] + v["NUM_STAGES"]))
    assert run(hill).best == {"NUM_WARPS": 32, "NUM_STAGES": 6}


def test_a_triton_kernel_that_cannot_fit_is_not_compiled():
    assert crowding({"TILE": 128, "NUM_WARPS": 8}) is None
    assert "2048 elements" in crowding({"TILE": 1024, "NUM_WARPS": 16})
    assert "512 elements" in crowding({"ROWS": 16, "COLS": 4096, "NUM_WARPS": 4})
    assert crowding({"TILE": 1024, "GRAIN": 1}) is None, "C++ has no registers to run out of"


# ---- a unit --------------------------------------------------------------------------------------------------------

MODEL = """
import torch

class Summed(torch.nn.Module):
    def forward(self, x):
        return (x * 2).sum(0) @ x[:4].T

class SummedAndWeighed(torch.nn.Module):
    def forward(self, x):
        return (x * 2).sum(0), torch.softmax(x, -1)

def small():
    torch.manual_seed(0)
    return Summed(), (torch.randn(2048, 256),)

def both():
    torch.manual_seed(0)
    return SummedAndWeighed(), (torch.randn(2048, 256),)
"""
SLOW = ("constexpr long COLS = 1024;", "constexpr long COLS = 1;   ")
# So that the search has one tunable to look at, and ends soon on a busy machine too.
PERSONS = (
    ("ROWS = 32; ", "ROWS = 64; "),
    ("SPLITS = 256; ", "SPLITS = 128; "),
    ("GRAIN = 32768;", "GRAIN = 16384;"),
)


@pytest.fixture(scope="module")
def units(tmp_path_factory):
    """A unit of one kernel and one of two, as if longhand had written a slow COLS; a person set what else there is."""
    folder = tmp_path_factory.mktemp("units")
    (folder / "tuned_models.py").write_text(MODEL)
    sys.path.insert(0, str(folder))
    import tuned_models

    for name in ("small", "both"):
        call = getattr(tuned_models, name)()
        longhand.generate(*call, out=folder / name, factory=f"tuned_models:{name}")
        for path in ("kernels/scale_column_sum.cpp", ".base/kernels/scale_column_sum.cpp"):
            replace(folder / name / path, *SLOW)
        for old, new in PERSONS:
            replace(folder / name / "kernels/scale_column_sum.cpp", old, new)
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def unit(units, tmp_path):
    return shutil.copytree(units / "small", tmp_path / "unit")


def replace(path, old, new):
    text = path.read_text()
    assert old in text, text
    path.write_text(text.replace(old, new, 1))


def tunables(unit):
    text = (unit / "kernels/scale_column_sum.cpp").read_text()
    return read_values(text, "kernels/scale_column_sum.cpp", ("ROWS", "COLS", "SPLITS", "GRAIN"))


def only(found):
    (tuning,) = list(found)
    return tuning


def snapshot(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_slow_tunable_is_found_written_and_kept(unit, capsys):
    code = cli.run(["tune", str(unit), "--budget", "120", "--json"])
    shown = json.loads(capsys.readouterr().out)["kernels"]["scale_column_sum"]
    assert code == 0 and shown["changed"] and shown["tried"] > 0
    assert shown["ms_after"] < 0.8 * shown["ms_before"] and shown["noise"] < 0.5
    assert shown["gb_per_s_after"] > shown["gb_per_s_before"] > 0
    assert tunables(unit) == shown["after"] and shown["after"]["COLS"] > 1
    assert shown["note"].startswith("a person set ROWS, SPLITS, GRAIN")
    assert {name for name, value in shown["after"].items() if value != shown["before"][name]} == {"COLS"}
    # An edit like any other: in diff, with its comment; in the merge; and right.
    (edit,) = edits_of(unit)
    (line,) = [line for line in edit.lines if line.startswith("+") and "COLS" in line]
    assert line.endswith("// columns that are accumulated at a time")
    assert line.index("//") == max(32, len(line.partition("//")[0].rstrip()) + 2)  # a long number pushes it
    assert (edit.path, edit.n_added, edit.n_removed) == ("kernels/scale_column_sum.cpp", 4, 4)
    assert verify(unit, kernels=["scale_column_sum"]).is_right
    lock = json.loads((unit / "longhand.lock").read_text())
    assert lock["tuned"] == {"kernels/scale_column_sum.cpp": {"COLS": shown["after"]["COLS"]}}
    replace(unit / ".base/kernels/scale_column_sum.cpp", SLOW[1], SLOW[0])
    report = regenerate(unit)
    assert [file.outcome for file in report.files if file.path == edit.path] == [Outcome.KEPT]
    assert tunables(unit) == shown["after"]
    assert json.loads((unit / "longhand.lock").read_text())["tuned"] == lock["tuned"]
    # What it set itself it may set again.
    again = only(tune(unit, budget=0))
    assert again.note.startswith("a person set ROWS, SPLITS, GRAIN; the time was up")


def regenerate(unit):
    import tuned_models

    return longhand.generate(*tuned_models.small(), out=unit, factory="tuned_models:small").merge


def test_what_a_person_set_stays(unit, capsys):
    replace(unit / "kernels/scale_column_sum.cpp", "COLS = 1; ", "COLS = 2; ")
    before = snapshot(unit)
    code = cli.run(["tune", str(unit)])
    shown = capsys.readouterr().out
    assert code == 0 and "a person set ROWS, COLS, SPLITS, GRAIN" in shown and "Nothing was changed." in shown
    assert snapshot(unit) == before


@pytest.mark.slow
def test_with_all_it_changes_what_a_person_set(unit):
    replace(unit / "kernels/scale_column_sum.cpp", "COLS = 1; ", "COLS = 2; ")
    tuning = only(tune(unit, budget=0))
    assert tuning.note == "a person set ROWS, COLS, SPLITS, GRAIN" and not tuning.is_changed
    tuning = only(tune(unit, includes_persons=True, budget=120))
    assert tuning.is_changed and tuning.after["COLS"] > 2


@pytest.mark.slow
def test_nothing_is_written_where_nothing_is_faster(unit):
    # Whatever COLS is, the loop over columns takes 128 at a time.
    for path in ("kernels/scale_column_sum.cpp", ".base/kernels/scale_column_sum.cpp"):
        text = (unit / path).read_text()
        (unit / path).write_text(text.replace("+= COLS", "+= 128").replace("+ COLS", "+ 128"))
    before = snapshot(unit)
    tuning = only(tune(unit, budget=60))
    assert not tuning.is_changed and tuning.ms_before > 0 and tuning.n_tried > 0
    assert snapshot(unit) == before


def test_a_candidate_that_is_wrong_or_crashes_or_does_not_build_is_skipped(unit):
    kernel = "kernels/scale_column_sum.cpp"
    replace(
        unit / kernel,
        "  const long n_splits =",
        textwrap.dedent("""\
            static_assert(COLS != 8);
            if (COLS == 4) {
              *(volatile int *)nullptr = 0;
            }
            const float twice = COLS == 2 ? 3.0f : 2.0f;
            const long n_splits ="""),
    )
    replace(unit / kernel, "* 2.0f", "* twice")
    with Contest(unit) as contest:
        assert contest.refusal(kernel, {"COLS": 16}) is None
        assert "computes something else at [0, 0]: " in contest.refusal(kernel, {"COLS": 2})
        assert "static assertion failed" in contest.refusal(kernel, {"COLS": 8})
        assert "crashed the process (signal " in contest.refusal(kernel, {"COLS": 4})
        assert contest.refusal(kernel, {"COLS": 32}) is None, "another worker goes on"
        turns = contest.turns(kernel, [{}, {"COLS": 64}], 2)
    assert [len(times) for times in turns] == [2, 2]


def test_an_interrupt_keeps_what_was_found(units, tmp_path, monkeypatch, capsys):
    unit = shutil.copytree(units / "both", tmp_path / "unit")
    names = []

    def interrupting(folder, kernels, *, tell, **options):
        def tell_until_second(words):
            name = words.partition(":")[0]
            if name.isidentifier() and name not in names and name != "starting":
                names.append(name)
            if len(names) == 2:
                raise KeyboardInterrupt
            tell(words)

        return tune(folder, kernels, tell=tell_until_second, **options)

    monkeypatch.setattr("longhand.cli.tuning.tune", interrupting)
    monkeypatch.setattr(Contest, "seconds", lambda self, path: 2.0 if "scale_column_sum" in path else 1.0)
    code = cli.run(["tune", str(unit), "--budget", "120"])
    shown = capsys.readouterr().out
    assert code == 130 and "Interrupted: 1 of 2 kernels were looked at." in shown
    assert names[0] == "scale_column_sum", "the costliest is tuned first"
    assert [edit.path for edit in edits_of(unit)] == ["kernels/scale_column_sum.cpp"]
    assert verify(unit, kernels=["scale_column_sum"]).is_right
    assert not [path for path in unit.rglob("*") if path.name.startswith(".scale")]


@pytest.mark.slow
def test_a_file_that_somebody_saves_meanwhile_is_left_alone(unit):
    def save(words):
        if words.endswith("comparing"):
            replace(unit / "kernels/scale_column_sum.cpp", "// One thread per chunk", "// MINE")

    before = tunables(unit)
    tuning = only(tune(unit, budget=120, tell=save))
    assert not tuning.is_changed and "saved by somebody else" in tuning.note
    assert tunables(unit) == before and "// MINE" in (unit / "kernels/scale_column_sum.cpp").read_text()


def test_ejected_and_unsettled_files_are_left_alone(unit):
    assert cli.run(["eject", str(unit / "kernels/scale_column_sum.cpp")]) == 0
    assert only(tune(unit, includes_persons=True)).note == "ejected"
    assert cli.run(["eject", "--undo", str(unit / "kernels/scale_column_sum.cpp")]) == 0
    (unit / "kernels/scale_column_sum.cpp.new").write_text("other\n")
    assert only(tune(unit)).note == "a conflict waits in kernels/scale_column_sum.cpp.new"


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
def test_a_cuda_unit_without_a_gpu_is_one_paragraph(tmp_path, capsys):
    out = tmp_path / "unit"
    longhand.generate(
        lambda x: torch.relu(x) * 2, (torch.randn(64, 64),), out=out, device="cuda", arch="sm_90"
    )
    before = snapshot(out)
    code = cli.run(["tune", str(out)])
    error = capsys.readouterr().err
    assert code == 2 and "no GPU that torch can use" in " ".join(error.split()) and "\n\n" not in error
    assert snapshot(out) == before


def test_an_unknown_kernel_and_a_broken_edit_are_told(unit, capsys):
    assert cli.run(["tune", str(unit), "--kernel", "gelu"]) == 2
    assert "It has: scale_column_sum." in " ".join(capsys.readouterr().err.split())
    replace(unit / "kernels/scale_column_sum.cpp", "void scale_column_sum(", "void other(")
    assert cli.run(["tune", str(unit)]) == 2
    assert "is gone or was renamed" in " ".join(capsys.readouterr().err.split())


def test_the_budget_is_all_the_time_there_is(units, tmp_path):
    unit = shutil.copytree(units / "both", tmp_path / "unit")
    for budget in (0.5, 25.0):
        begin = time.monotonic()
        tunings = list(tune(unit, budget=budget))
        assert len(tunings) == 2 and time.monotonic() - begin < 1.25 * budget + 2
    assert all(tuning.note for tuning in tunings if not tuning.is_changed)
