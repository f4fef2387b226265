"""What makes many samples quick to judge: the emitted text is the one that users get, built by its own builder.

Its flags stay as they are. Headers are compiled once, as in the test suite. A unit is tried in the process that made
it, so that a crash is the sample's. runtime.py is compiled once by Python, not for each unit that has the same.
check.py, which no sample runs, is looked at in one unit of ten. Several kernels of a unit are built by one call of g++
(joined_builds.py). Of PyTorch's test suite stays out what samples do not need: a look at the stack for each of them.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.machinery
import linecache
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch.testing._internal import common_utils, opinfo

from longhand import api, pipeline
from longhand.emit.unit import files, loading
from longhand.factory import Call
from longhand.options import Device
from longhand.proof import trial
from longhand.proof.python import prove_python
from longhand.proof.trial import Trial
from longhand.verify.original import copied
from tests.autograd.joined_builds import join_builds
from tests.compiled_headers import compile_headers

__all__ = ["be_quick", "compiled_headers", "forget_units", "unformatted"]

_RARELY = (100_000, 20, 20)  # what one sample leaves is collected with that of many others
_WHOLE = 10  # in one unit of so many, every file is proven
_read_source = importlib.machinery.SourceFileLoader.source_to_code


class TriedHere(trial.TrialPlace):
    """Where a unit is tried by the process that made it, on copies of the example."""

    def __init__(self, call: Call, device: Device) -> None:
        assert device is Device.CPU
        self._call = call
        self._has_gpu = False
        self._process = 0

    def __enter__(self) -> TriedHere:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        trial._forget()

    def _ask(self, folder: Path, seconds: float) -> Trial:
        try:
            with torch.random.fork_rng(devices=[]):
                return trial._tried(folder, copied(self._call), lambda _: None, is_interpreted=False)
        except Exception as error:
            return trial._of_error(folder, error)


class _Proven:
    """`prove_python`, without most files named check.py."""

    def __init__(self) -> None:
        self._units = 0

    def __call__(self, texts: Mapping[str, str | bytes]) -> None:
        self._units += 1
        is_whole = self._units % _WHOLE == 0
        prove_python({path: text for path, text in texts.items() if is_whole or path != "check.py"})


@functools.cache
def _compiled_once(data: bytes, path: str) -> Any:
    return compile(data, path, "exec", dont_inherit=True)


def _source_to_code(
    self: importlib.machinery.SourceFileLoader, data: Any, path: Any, *, _optimize: int = -1
) -> Any:
    if str(path).endswith("/runtime.py") and isinstance(data, bytes):
        return _compiled_once(data, "runtime.py")
    return _read_source(self, data, path, _optimize=_optimize)


def _no_test() -> None:
    """What PyTorch's test suite is asked for at each sample: which test it is for."""


def be_quick() -> None:
    """In a process that judges, and in its forks: what cases share is not made again for each."""
    api.TrialPlace = TriedHere  # type: ignore[misc]
    pipeline.prove_python = _Proven()
    importlib.machinery.SourceFileLoader.source_to_code = _source_to_code  # type: ignore[method-assign]
    common_utils.extract_test_fn = opinfo.core.extract_test_fn = _no_test
    join_builds()
    gc.set_threshold(*_RARELY)


def forget_units() -> None:
    """What was imported of units and is not used any more: thousands would fill the memory."""
    for name in [name for name in sys.modules if name.startswith("longhand_unit_")]:
        del sys.modules[name]
    loading._FINDER.folders.clear()
    linecache.checkcache()
    sys.path_importer_cache.clear()


def unformatted() -> None:
    """Leaves black and clang-format out, which change no value."""
    files.format_files = _as_printed


def _as_printed(texts: Mapping[str, str]) -> dict[str, str]:
    return dict(texts)


@contextlib.contextmanager
def compiled_headers() -> Iterator[None]:
    """While it lasts, this process and those that it starts build kernels with headers compiled once."""
    folder = compile_headers()
    try:
        yield
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
