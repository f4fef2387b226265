"""A check that found a unit current is remembered: where nothing that it read has changed, the answer is known.

To compare, the model is imported and generated again, which takes seconds a unit, and most units of a repository are
as they were. What a comparison reads is recorded while it runs: every imported module's file, and every file that
Python opens (an audit hook tells). Files of the user's are held to their content, those of Python and its packages to
their size and time. With them go the unit's own files, the versions, the folder that `check` runs in, and a digest of
the environment. What folders list and what a model asks of the network is not seen: ``check --again`` compares
whatever is remembered.

The memory is in the user's cache folder. It holds no answer but "current": everything else is found anew. A process
that imported torch before it checked (a test, a notebook) has no memory: its modules may not be what their files say.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import platform
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from longhand.cache.owned_folder import owned_cache
from longhand.emit.unit.lock_file import read_regular, tool_versions
from longhand.emit.unit.on_disk import read_unit
from longhand.errors import LonghandError
from longhand.staleness.file_check import CheckResult, Staleness, check_files

_FORMAT = 1
_MOST_UNITS = 256
_CHECKS = "checks"  # where in the cache
_NO_INPUT = ("/proc/", "/sys/", "/dev/")
_PLACES = {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, "/usr", "/lib", "/etc"}
_INSTALLED = tuple(
    {f"{path}/" for place in _PLACES for path in (place, os.path.realpath(place)) if path != "/"}
)
_OF_A_TERMINAL = frozenset({"_", "PWD", "OLDPWD", "SHLVL", "TERM", "COLUMNS", "LINES", "WINDOWID"})

_opened: dict[str, None] = {}  # every file that this process opened to read it, since it began to record


@dataclasses.dataclass(frozen=True)
class Beginning:
    """What an answer rests on besides files, as a process began: torch and the import of a model change some of it.

    Attributes:
        folder: Where it runs.
        path: Where modules are looked for.
        environment: A digest of its variables, whose values are nobody's business.
        time: In nanoseconds; of a file that was written later nobody knows which content was read.
    """

    folder: str
    path: tuple[str, ...]
    environment: str
    time: int


def begin() -> Beginning | None:
    """Records from now on which files this process opens; None if it cannot know what it has read.

    A process records until its end: an audit hook cannot be taken off.
    """
    if "torch" in sys.modules:
        return None
    if not _opened:
        _opened[__file__] = None
        sys.addaudithook(_note)
    told = {name: value for name, value in os.environ.items() if name not in _OF_A_TERMINAL}
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
    return Beginning(os.getcwd(), tuple(sys.path), digest, time.time_ns())


def _note(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(args[0], str | bytes) and (args[2] or 0) & os.O_ACCMODE == os.O_RDONLY:
        _opened[os.path.abspath(os.fsdecode(args[0]))] = None


def remember(result: CheckResult, beginning: Beginning) -> None:
    """Keeps what a comparison that found a unit current rests on; whatever else is not kept."""
    if result.staleness is not Staleness.CURRENT or not result.is_compared:
        return
    with contextlib.suppress(OSError, LonghandError):
        files = dict(_read_files(result.folder))
        if any(os.stat(path).st_mtime_ns >= beginning.time for path in files):
            return
        entry = {**_circumstances(result.folder, beginning), "files": files}
        place = _place(result.folder)
        _keep_few(place.parent)
        with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False) as scratch:
            json.dump(entry, scratch)
        os.replace(scratch.name, place)


def remembered(folder: Path, beginning: Beginning) -> CheckResult | None:
    """What a comparison would find, if one found the unit current and nothing that it read has changed; else None."""
    try:
        entry = json.loads(read_regular(_place(folder)))
        checked = check_files(folder)
        is_same = (
            not (checked.changes or checked.breaches)
            and {**_circumstances(folder, beginning), "files": entry["files"]} == entry
            and all(_state(path) == state for path, state in entry["files"].items())
        )
    except (OSError, ValueError, LookupError, TypeError, LonghandError):
        return None
    return dataclasses.replace(checked, is_compared=True, is_remembered=True) if is_same else None


def _circumstances(folder: Path, beginning: Beginning) -> dict[str, Any]:
    """What an answer rests on besides files of the machine, as JSON gives it back."""
    unit = read_unit(folder).files
    return {
        "format": _FORMAT,
        "unit": {path: hashlib.sha256(unit[path]).hexdigest() for path in sorted(unit)},
        "versions": tool_versions(),
        "python": [sys.version, sys.prefix, platform.machine()],
        "folder": beginning.folder,
        "path": list(beginning.path),
        "environment": beginning.environment,
    }


def _read_files(folder: Path) -> Iterator[tuple[str, list[Any]]]:
    """The files that were read and are still there, each with its state, but for the unit's own."""
    own = str(folder.resolve()) + os.sep
    memory = str(owned_cache(_CHECKS)) + os.sep  # what is remembered of other units decides nothing here
    for path in sorted({*_opened, *_module_files()}):
        is_input = not path.startswith((own, memory, *_NO_INPUT)) and not path.endswith(".pyc")
        if is_input and (state := _state(path)) is not None:
            yield path, state


def _module_files() -> Iterable[str]:
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return (os.path.abspath(file) for file in files if isinstance(file, str))


def _state(path: str) -> list[Any] | None:
    """What tells that a file is as it was; None if it is no file."""
    if not os.path.isfile(path):
        return None
    if path.startswith(_INSTALLED):
        status = os.stat(path)
        return [status.st_size, status.st_mtime_ns]
    with open(path, "rb") as file:
        return [hashlib.file_digest(file, "sha256").hexdigest()]


def _place(folder: Path) -> Path:
    """Where the memory of a unit is kept."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:32]
    return owned_cache(_CHECKS) / f"{name}.json"


def _keep_few(place: Path) -> None:
    """The units that were checked last."""
    entries = sorted(place.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for entry in entries[_MOST_UNITS:]:
        entry.unlink(missing_ok=True)
