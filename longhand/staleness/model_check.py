"""`longhand check`: is a unit what its model generates today? No GPU is needed, and nothing is written.

What the files say by themselves is in `file_check`, which needs no torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from longhand.capture.graph import CapturedGraph
from longhand.emit.cpp.syntax import syntax_errors
from longhand.emit.unit.contract import Breach, find_breaches
from longhand.emit.unit.lock_file import LOCK, read_lock
from longhand.emit.unit.on_disk import ASIDE, BASE, NEW, UnitOnDisk, edits, read_unit
from longhand.emit.unit.threeway import changed_lines
from longhand.factory import dynamic_shapes, resolve
from longhand.frontends import capture_call
from longhand.pipeline import plan_and_text
from longhand.proof.fallbacks import torch_kernels_of
from longhand.staleness.file_check import (
    Change,
    CheckResult,
    check_files,
    other_versions,
    renewal_of,
    unsettled,
)
from longhand.staleness.load_time import changed_sources, texts_of
from longhand.staleness.renewal import command_of, options_of
from longhand.telling.clock import Clock
from longhand.verify.original import SEED


def check(folder: Path, factory: str | None = None, *, is_trusted: bool = True) -> CheckResult:
    """Compares a unit with what its model generates today.

    Args:
        folder: The unit.
        factory: ``MODULE:FACTORY``; by default the one that the lock names.
        is_trusted: Import the model and ask the compiler. Otherwise nothing of the unit or its repository runs: only
            what its files say by themselves is told.

    Raises:
        UnitError: There is no unit, or it does not say how to make its model.
        FactoryError: The model cannot be made.
    """
    if not is_trusted:
        return check_files(folder)
    lock = read_lock(folder)
    disk = read_unit(folder)
    breaches = broken_edits(folder, disk)
    changes = list(unsettled(disk))
    if not breaches:
        new = regenerated(folder, factory)
        changes += _changes(disk, new)
        changes += _merged_ledger(lock, new) if not changes else []
    return CheckResult(
        folder,
        tuple(changes),
        tuple(breaches),
        other_versions(lock),
        tuple(path for path, _, _ in edits(disk.files)),
        tuple(changed_sources(lock, folder)),
        factory or str(lock.get("factory") or ""),
        renewal=(
            renewal_of(lock, folder)
            if factory is None
            else command_of(options_of(lock, folder, factory), folder)
        ),
    )


def broken_edits(folder: Path, disk: UnitOnDisk | None = None) -> list[Breach]:
    """Edits that break what the unit's other files rely on, found without running anything."""
    disk = disk or read_unit(folder)
    files, written = texts_of(disk)
    breaches = find_breaches(files, written)
    broken = {breach.path for breach in breaches}
    edited = [path for path in written if path in files and files[path] != written[path]]
    kernels = {Path(path).stem for path in edited if path.endswith(".cpp") and path not in broken}
    if any(path.endswith(".h") for path in edited):
        kernels |= {Path(path).stem for path in written if path.endswith(".cpp") and path not in broken}
    return breaches + syntax_errors(folder.resolve(), sorted(kernels))


def regenerated(folder: Path, factory: str | None = None) -> dict[str, bytes]:
    """The files that the unit's model generates today, with the unit's own names."""
    lock = read_lock(folder)
    options = options_of(lock, folder, factory)
    assert options.factory is not None
    torch.manual_seed(SEED)
    call = resolve(options.factory, options.inputs)

    def capture() -> CapturedGraph:
        shapes = dynamic_shapes(call, options.dynamic)
        return capture_call(call.model, call.args, call.kwargs, options, shapes)

    _, _, files = plan_and_text(capture, options, folder, Clock(), torch_kernels_of(lock))
    return {
        path: content if isinstance(content, bytes) else content.encode() for path, content in files.items()
    }


def _merged_ledger(lock: Mapping[str, Any], new: Mapping[str, bytes]) -> list[Change]:
    """A lock that is no longer what goes with its files: git merged two, and longhand has not looked at that yet."""
    today = json.loads(new[LOCK])
    for entry in ("kernels", "hashes", "ledger"):
        if lock.get(entry) != today[entry]:
            return [
                Change(LOCK, 1, f"its {entry} are not those of the unit: longhand generate settles a merge")
            ]
    return []


def _changes(disk: UnitOnDisk, new: Mapping[str, bytes]) -> list[Change]:
    changes = []
    for path in sorted(new):
        if path == LOCK or path.startswith(f"{BASE}/"):
            continue
        base = disk.files.get(f"{BASE}/{path}")
        if path.endswith(".pt"):
            digest = hashlib.sha256(new[path]).hexdigest()
            if digest not in disk.hashes.get(path, ()):
                changes.append(Change(path, 1, "its tensors differ"))
        elif base is None:
            changes.append(Change(path, 1, "would be new"))
        elif base.replace(b"\r\n", b"\n") != new[path]:  # git may give text the line ends of a machine
            old_text, new_text = base.decode(errors="replace"), new[path].decode()
            there = changed_lines(new_text, old_text)
            here = changed_lines(old_text, new_text)
            n_lines = max(len(there), len(here))
            line = there[0][0] if there else here[0][0]
            changes.append(Change(path, line, f"{n_lines} line{'s' * (n_lines != 1)} would change"))
    old = {path.removeprefix(f"{BASE}/") for path in disk.files if path.startswith(f"{BASE}/")}
    for path in sorted(old - set(new)):
        if not path.endswith(NEW) and not path.startswith(f"{ASIDE}/"):
            changes.append(Change(path, 1, "is no longer needed"))
    return changes
