"""`longhand.load` from many threads at once, and interrupted: whole or not at all; the next load is not poisoned."""

import shutil
import sys
import threading

import pytest
import torch

import longhand
from longhand.errors import UnitError


def scaled(x):
    return torch.softmax(x * 3, dim=-1)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "scaled"
    longhand.generate(scaled, (torch.ones(2, 3),), out=folder)
    return folder


@pytest.fixture
def unit(made, tmp_path):
    """A unit that was never loaded, slow to import."""
    folder = tmp_path / "scaled"
    shutil.copytree(made, folder)
    model = folder / "model.py"
    model.write_text(
        model.read_text().replace("import torch\n", "import time\n\nimport torch\n\ntime.sleep(0.2)\n", 1)
    )
    return folder


def modules_of(folder):
    return [
        name
        for name, module in list(sys.modules.items())
        if str(folder) in str(getattr(module, "__file__", ""))
    ]


def test_eight_threads(unit):
    found, errors = [], []
    start = threading.Barrier(8)

    def work():
        start.wait()
        try:
            found.append(longhand.load(unit, check=False))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(found) == 8 and len(set(found)) == 1
    x = torch.randn(2, 3)
    torch.testing.assert_close(found[0](x), scaled(x))


@pytest.mark.parametrize("file", ["model.py", "kernels/__init__.py", "runtime.py"])
def test_an_interrupt_leaves_nothing_half_imported(unit, file):
    path = unit / file
    good = path.read_text()
    flag = unit.parent / "interrupt"
    flag.touch()
    text = f"import os.path as _path\nif _path.exists({str(flag)!r}):\n    raise KeyboardInterrupt\n"
    head, future, rest = good.partition("from __future__ import annotations\n")
    path.write_text(head + future + text + rest if future else good + text)
    with pytest.raises(KeyboardInterrupt):
        longhand.load(unit, check=False)
    assert not modules_of(unit)
    flag.unlink()
    x = torch.randn(2, 3)
    torch.testing.assert_close(longhand.load(unit, check=False)(x), scaled(x))


@pytest.mark.parametrize(
    ("text", "error"), [("undefined_name", UnitError), ("raise SystemExit('undefined_name')", SystemExit)]
)
def test_a_unit_that_fails_and_is_mended(unit, text, error):
    model = unit / "model.py"
    good = model.read_text()
    model.write_text(f"{good}\n{text}\n")
    for _ in range(2):
        with pytest.raises(error, match="undefined_name"):
            longhand.load(unit, check=False)
        assert not modules_of(unit)
    model.write_text(good)
    assert longhand.load(unit, check=False) is longhand.load(unit, check=False)
