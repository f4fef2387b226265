"""Options that all tests share."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from tests.compiled_headers import compile_headers

ROOT = Path(__file__).resolve().parents[1]
FRAME_HOOK = "longhand.capture._frame_eval"
# Objects that are new since the last look at the young ones: Python's 700 cost a tenth of a run.
NEW_OBJECTS = 100_000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden/ from what is printed now"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Once, in the process that starts the others: they inherit CXX. Every plan is checked after every pass."""
    os.environ.setdefault("LONGHAND_VERIFY", "1")
    gc.set_threshold(NEW_OBJECTS, 20, 20)
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    folder = compile_headers()
    if folder is not None:
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cases of long_cases.txt are slow."""
    lines = set((ROOT / "tests" / "long_cases.txt").read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in lines:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Ten thousand tests and what they import stay to the end: no collection looks at them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def unit_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit that a test generates is not run on top of what the test does with it; tests of that run override this.

    The option stays as it is: the unit's lock tells it.
    """
    api = sys.modules.get("longhand.api")
    if api is not None:
        monkeypatch.setattr(api, "TrialPlace", lambda *_: contextlib.nullcontext())


@pytest.fixture
def attention_stays_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products and a softmax stay, as where somebody reads the weights: for tests of their words and kernels."""
    import longhand.capture.frontends.finalize as finalize

    monkeypatch.setattr(finalize, "call_attention", lambda *_: None)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def hook(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The frame hook, built into a temporary folder where longhand was not installed with it."""
    if FRAME_HOOK in sys.modules:
        return sys.modules[FRAME_HOOK]
    if importlib.util.find_spec(FRAME_HOOK) is not None:
        return importlib.import_module(FRAME_HOOK)
    out = tmp_path_factory.mktemp("frame_eval") / "_frame_eval.so"
    include = sysconfig.get_path("include")
    source = ROOT / "capture" / "_frame_eval.c"
    command = ["gcc", "-std=gnu11", "-O2", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(out)]
    subprocess.run(command, check=True)
    loader = importlib.machinery.ExtensionFileLoader(FRAME_HOOK, str(out))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(FRAME_HOOK, loader))
    loader.exec_module(module)
    sys.modules[FRAME_HOOK] = module
    return module
