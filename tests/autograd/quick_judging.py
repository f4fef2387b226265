"""What makes many samples quick to judge: the emitted text is the one that users get, built by its own builder.

Its flags stay as they are. Headers are compiled once, as in the test suite; a unit is tried in the process that made
it, so that a crash is the sample's; text stays as it is printed; and Python's collector looks at what a case left
rarely, instead of at all that torch has loaded.
"""

from __future__ import annotations

import contextlib
import gc
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

import torch

from longhand import api
from longhand.emit.unit import files
from longhand.factory import Call
from longhand.options import Device
from longhand.proof import trial
from longhand.proof.trial import Trial
from longhand.verify.original import copied
from tests.compiled_headers import compile_headers

__all__ = ["be_quick", "compiled_headers", "unformatted"]


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


def be_quick() -> None:
    """In a process that judges: what its cases share is not looked at again for each."""
    api.TrialPlace = TriedHere  # type: ignore[misc]
    gc.collect()
    gc.freeze()


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
