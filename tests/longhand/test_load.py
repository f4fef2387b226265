"""`longhand.load` runs no unit silently that does not fit: neither its own files nor the model it was made from."""

import importlib
import json
import linecache
import sys
import textwrap
import time
import warnings

import pytest

import longhand
from longhand import cli
from longhand.emit.unit.sources import SourceFile, changed_functions
from longhand.errors import EditError, StaleUnitWarning

MODEL = '''
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    """Doubles, and more."""

    def __init__(self):
        super().__init__()
        self.scale = 2

    def forward(self, x):
        hidden = x * self.scale  # twice
        return F.gelu(hidden)

    def other(self):
        return 1


def make():
    return Net().eval(), (torch.randn(4, 300),)
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a model and its unit; the file of the model."""
    # Python takes bytecode for current whose source was edited within its second and has its length, as tests do.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "pyproject.toml").write_text("")
    model = tmp_path / "loaded_model.py"
    model.write_text(MODEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("loaded_model", None)
    linecache.clearcache()
    importlib.invalidate_caches()
    made = importlib.import_module("loaded_model").make()
    longhand.generate(*made, out=tmp_path / "unit", factory="loaded_model:make")
    yield model
    sys.modules.pop("loaded_model", None)


PARTS = {
    "parts_model.py": """
import torch
from torch import nn

import sizes
from numbers_of_ours import FACTOR, UNUSED

SHIFT = 1.5
OTHER = 3


def depth():
    return 2


def shift(x):
    return x + SHIFT


class Base(nn.Module):
    power = 2

    def __init__(self):
        super().__init__()
        self.bias = 0.5

    def raised(self):
        return self.power

    def unused(self):
        return OTHER


class Net(Base):
    def forward(self, x):
        for _ in range(depth()):
            x = shift(x) * FACTOR
        return torch.tanh(x ** self.raised() + self.bias)


class Another(nn.Module):
    pass


def scaled(by):
    gain = by

    def inner(x):
        return torch.sin(x) * gain

    return inner


def make():
    return Net().eval(), (torch.randn(sizes.ROWS, 8),)


def make_inner():
    return scaled(4), (torch.randn(4, 8),)
""",
    "numbers_of_ours.py": "FACTOR = 2\nUNUSED = 3\n",
    "sizes.py": "ROWS = 4\nCOLS = 5\n",
}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A model whose numbers stand all over its project, and its units."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "pyproject.toml").write_text("")
    for name, text in PARTS.items():
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        module = importlib.import_module("parts_model")
        for factory in ("make", "make_inner"):
            longhand.generate(
                *getattr(module, factory)(), out=folder / factory, factory=f"parts_model:{factory}"
            )
        yield folder
        for name in PARTS:
            sys.modules.pop(name.removesuffix(".py"))


def told(folder, file, old, new, unit):
    """What `load` warns of once a file says something else."""
    text = PARTS[file]
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            longhand.load(folder / unit)
    finally:
        (folder / file).write_text(text)
    return " ".join(str(one.message) for one in caught if one.category is StaleUnitWarning)


@pytest.mark.parametrize(
    ("file", "old", "new", "named", "unit"),
    [
        ("parts_model.py", "SHIFT = 1.5", "SHIFT = 2.5", "SHIFT", "make"),
        ("parts_model.py", "return 2", "return 3", "depth", "make"),
        ("parts_model.py", "power = 2", "power = 3", "Base", "make"),
        ("parts_model.py", "self.bias = 0.5", "self.bias = 0.7", "Base.__init__", "make"),
        ("parts_model.py", "return self.power", "return self.power + 1", "Base.raised", "make"),
        ("parts_model.py", "class Net(Base)", "class Net(Another)", "Net", "make"),
        ("parts_model.py", "sizes.ROWS, 8", "sizes.ROWS, 9", "make", "make"),
        ("parts_model.py", "gain = by", "gain = 2 * by", "scaled", "make_inner"),
        ("parts_model.py", "scaled(4)", "scaled(5)", "make_inner", "make_inner"),
        ("numbers_of_ours.py", "FACTOR = 2", "FACTOR = 5", "FACTOR", "make"),
        ("sizes.py", "ROWS = 4", "ROWS = 6", "ROWS", "make"),
    ],
)
def test_what_the_model_relies_on_is_told_wherever_it_stands(parts, file, old, new, named, unit):
    assert f"{named} ({file}) changed since" in told(parts, file, old, new, unit)


@pytest.mark.parametrize(
    ("file", "old", "new", "unit"),
    [
        ("parts_model.py", "OTHER = 3", "OTHER = 4", "make"),
        ("parts_model.py", "return OTHER", "return OTHER + 1", "make"),
        ("parts_model.py", "class Another(nn.Module):\n    pass", "class Another:\n    x = 1", "make"),
        ("parts_model.py", "SHIFT = 1.5", "SHIFT = 2.5", "make_inner"),
        ("numbers_of_ours.py", "UNUSED = 3", "UNUSED = 4", "make"),
        ("sizes.py", "COLS = 5", "COLS = 6", "make"),
    ],
)
def test_what_the_model_does_not_rely_on_is_not_told(parts, file, old, new, unit):
    assert not told(parts, file, old, new, unit)


def load(project):
    return longhand.load(project.parent / "unit")


def test_a_current_unit_loads_without_a_word(project, recwarn):
    assert load(project).__name__ == "Net"
    assert not [warning for warning in recwarn if warning.category is StaleUnitWarning]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (
            "        return F.gelu",
            "        hidden = torch.tanh(hidden)\n        return F.gelu",
            "Net.forward",
        ),
        ("F.gelu(hidden)", "F.silu(hidden)", "Net.forward"),
        ("self.scale = 2", "self.scale = 3", "Net.__init__"),
        ("def forward", "def forwards", "Net.forward"),
    ],
)
def test_a_model_that_changed_is_told(project, old, new, named):
    project.write_text(MODEL.replace(old, new))
    with pytest.warns(StaleUnitWarning, match=rf"{named} \(loaded_model.py\) changed since it was generated"):
        load(project)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        longhand.load(project.parent / "unit", check=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # twice", "  # two times"),
        ('"""Doubles, and more."""', '"""More."""'),
        ("    def forward(self, x):\n", "\n    def forward(\n        self, x\n    ):\n        # Here.\n"),
        ("return 1", "return 2"),
        ("def make", "import os\n\n\ndef make"),
    ],
)
def test_what_does_not_matter_is_not_told(project, old, new, recwarn):
    assert old in MODEL
    project.write_text(MODEL.replace(old, new))
    load(project)
    assert not [warning for warning in recwarn if warning.category is StaleUnitWarning]


def test_a_model_of_a_package_is_found_where_nothing_marks_the_project(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    model = tmp_path / "models_of_ours" / "net.py"
    model.parent.mkdir()
    model.write_text(MODEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    made = importlib.import_module("models_of_ours.net").make()
    unit = tmp_path / "generated" / "unit"
    longhand.generate(*made, out=unit, factory="models_of_ours.net:make")
    assert set(json.loads((unit / "longhand.lock").read_text())["sources"]) == {"models_of_ours/net.py"}
    model.write_text(MODEL.replace("self.scale = 2", "self.scale = 3"))
    with pytest.warns(StaleUnitWarning, match=r"Net.__init__ \(models_of_ours/net.py\) changed since"):
        longhand.load(unit)


def test_generate_makes_it_current_again(project, recwarn, monkeypatch, capsys):
    project.write_text(MODEL.replace("self.scale = 2", "self.scale = 2\n        self.unused = 3"))
    sys.modules.pop("loaded_model")
    linecache.checkcache()  # as in another process
    monkeypatch.chdir(project.parent)
    assert cli.run(["check", "unit"]) == 0
    assert "generate notes that in the lock" in capsys.readouterr().out
    assert cli.run(["generate", "loaded_model:make", "--out", "unit"]) == 0
    assert cli.run(["check", "unit"]) == 0
    assert capsys.readouterr().out.endswith("unit: current\n")
    load(project)
    assert not [warning for warning in recwarn if warning.category is StaleUnitWarning]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("F.gelu(hidden)", "F.silu(hidden)"),
        ("self.scale = 2", "self.scale = 2\n        self.weight = nn.Parameter(torch.ones(3))"),
        ("torch.randn(4, 300)", "torch.randn(5, 300)"),
    ],
)
def test_verify_tells_a_stale_unit_from_a_wrong_one(project, monkeypatch, capsys, old, new):
    project.write_text(MODEL.replace(old, new))
    sys.modules.pop("loaded_model")
    linecache.checkcache()  # as in another process
    monkeypatch.chdir(project.parent)
    assert cli.run(["verify", "unit"]) in (1, 2)  # 2: it cannot even run
    told = " ".join(capsys.readouterr().err.split())
    assert "stale" in told or "changed since it was generated" in told or "generates other code today" in told
    assert "longhand generate" in told


def test_verify_calls_no_edit_stale(project, monkeypatch, capsys):
    kernel = next((project.parent / "unit" / "kernels").glob("*.cpp"))
    kernel.write_text(kernel.read_text().replace("0.5f", "0.25f"))
    monkeypatch.chdir(project.parent)
    assert cli.run(["verify", "unit"]) == 1
    told = capsys.readouterr()
    assert "does not compute what its original computes" in told.err and "stale" not in told.err


def test_a_unit_without_its_model_says_nothing(project, tmp_path_factory, recwarn):
    elsewhere = (project.parent / "unit").rename(tmp_path_factory.mktemp("elsewhere") / "unit")
    project.unlink()
    longhand.load(elsewhere)
    assert not [warning for warning in recwarn if warning.category is StaleUnitWarning]


def test_a_broken_edit_is_told_before_anything_runs(project):
    kernel = next((project.parent / "unit/kernels").glob("*.cpp"))
    kernel.write_text(kernel.read_text().replace(f"void {kernel.stem}(", "void renamed("))
    with pytest.raises(EditError, match=rf"unit/kernels/{kernel.name}:\d+: .* is gone or was renamed"):
        load(project)


def test_a_waiting_conflict_is_told(project):
    kernel = next((project.parent / "unit/kernels").glob("*.cpp"))
    for path in (f"kernels/{kernel.name}.new", f".base/kernels/{kernel.name}.new"):
        (project.parent / "unit" / path).write_text("other\n")
    with pytest.warns(StaleUnitWarning, match="a conflict waits in .*new"):
        load(project)


def test_the_look_is_cheap(project):
    load(project)
    begin = time.process_time()  # the machine may be busy
    for _ in range(10):
        load(project)
    assert (time.process_time() - begin) / 10 < 0.1


def test_the_lock_names_functions_and_no_place_of_this_machine(project):
    lock = json.loads((project.parent / "unit/longhand.lock").read_text())
    assert set(lock["sources"]) == {"loaded_model.py"}
    assert set(lock["sources"]["loaded_model.py"]) == {"Net", "Net.__init__", "Net.forward", "make"}


def test_fingerprints_of_odd_files():
    text = textwrap.dedent('''
        def outer():
            def inner(x):
                """Only a docstring."""
            return inner
        ''')
    file = SourceFile.of(text)
    found, _ = file.reached_from(["outer.<locals>.inner", "outer.<locals>.<lambda>"])
    assert found == {"outer", "outer.inner"}, "what is around a function may hold its numbers"
    known = {name: file.fingerprint(name) for name in found}
    assert changed_functions(text.replace('"""Only a docstring."""', "pass"), known) == []
    assert changed_functions("not python (", known) == ["outer", "outer.inner"]
    assert SourceFile.of("not python (").fingerprint("f") is None
