"""The unit on disk: built complete beside the old one, then swapped in, so that a kill at any moment leaves one whole.

What becomes of edited files is decided in merge.py, from the unit as it is read; it is swapped only if it still is that
unit (one_step.py). Building and running edited kernels takes long, so nobody is kept out meanwhile; where others keep
changing the unit, the last turn keeps them out.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from longhand.emit.unit.lock_file import LOCK, lock_versions, read_regular
from longhand.emit.unit.merge import plan_merge, with_conflicts, with_problems
from longhand.emit.unit.on_disk import (
    BASE,
    UnitOnDisk,
    carry,
    content_of,
    mode_of,
    read_unit,
    recover,
    scratch_beside,
    sole,
    swap,
)
from longhand.emit.unit.threeway import ConflictStyle, MergePlan, MergeReport, Outcome
from longhand.errors import EditError, OutputError
from longhand.schedule.named_plan import Ledger

# Given a folder that holds a unit, and the edited files in it: what is wrong with each that is wrong.
Inspection = Callable[[Path, Sequence[str]], Mapping[str, str]]

# Holds the unit, or does nothing where it is held.
Hold = Callable[[], contextlib.AbstractContextManager[None]]

_MOST_TURNS = 3


def read_ledger(out: Path) -> Ledger | None:
    """The names that the unit in a folder gave; None if there is no unit, or its lock cannot be read.

    After a git merge that left conflict markers in the lock, both sides count; ours first.
    """
    try:
        content = read_regular(Path(out) / LOCK)
    except OSError:
        return None
    ledger = None
    for lock in reversed(lock_versions(content)):
        with contextlib.suppress(KeyError, TypeError, AttributeError):
            kernels = Ledger.from_json(lock["ledger"]).kernels
            statements = {key: lock[key] for key in ("quotes", "renamed") if key in lock}
            ledger = Ledger({**(ledger.kernels if ledger is not None else {}), **kernels}, statements)
    return ledger


def write_unit(
    files: Mapping[str, str | bytes],
    out: Path,
    inspect: Inspection | None = None,
    style: ConflictStyle = ConflictStyle.BESIDE,
) -> MergeReport:
    """Makes the folder hold this version of the unit, with the edits that were made to the last one.

    Args:
        files: What `emit_unit` returned.
        out: The folder; it and its parents are made where missing.
        inspect: Looks at edited kernels once the new unit stands, before it takes the old one's place. A merge that
            it finds wrong becomes a conflict, one into a kernel of another name is set aside.
        style: What is put into the unit where both sides changed the same lines.

    Raises:
        OutputError: It cannot be written. What was on disk is as it was.
        EditError: An edit breaks what the other files rely on. What was on disk is as it was.
    """
    out = Path(os.path.realpath(out))
    recover(out)
    _check_place(files, out)
    new = {
        path: content if isinstance(content, bytes) else content.encode() for path, content in files.items()
    }
    for turn in range(_MOST_TURNS):
        is_last = turn == _MOST_TURNS - 1
        with sole(out) if is_last else contextlib.nullcontext():
            hold = contextlib.nullcontext if is_last else functools.partial(sole, out)
            report = _turn(new, out, inspect, style, hold)
        if report is not None:
            return report
    raise OutputError(f"{out} keeps changing while it is written.", hint="Nothing was changed. Run it again.")


def _turn(
    new: Mapping[str, bytes],
    out: Path,
    inspect: Inspection | None,
    style: ConflictStyle,
    hold: Hold,
) -> MergeReport | None:
    """Reads, decides, builds and swaps; None if the unit changed meanwhile. Holds it for reading and for swapping."""
    with hold():
        disk = read_unit(out)
    try:
        plan = plan_merge(disk, new, style)
    except EditError as error:
        raise EditError(error.what, where=f"{_shown(out)}/{error.where}", hint=error.hint) from error
    return _write(plan, disk, new, out, inspect, hold)


def _shown(out: Path) -> str:
    """A folder as a person would write it from here."""
    return min(str(out), os.path.relpath(out), key=len)


def _write(
    plan: MergePlan,
    disk: UnitOnDisk,
    new: Mapping[str, bytes],
    out: Path,
    inspect: Inspection | None,
    hold: Hold,
) -> MergeReport | None:
    held = contextlib.ExitStack()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = scratch_beside(out, held)
    except OSError as error:
        raise _refusal(out, error) from error
    try:
        is_whole = _build(plan, disk, out, scratch)
        if is_whole and inspect is not None and not plan.report.has_conflicts:
            plan, is_whole = _inspected(plan, disk, new, out, scratch, inspect)
        with hold():
            if not is_whole or read_unit(out).files != disk.files:
                return None
            if _is_as_planned(plan, disk) or swap(scratch, out):
                return plan.report
        return None
    except OSError as error:
        raise _refusal(out, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        held.close()


def _is_as_planned(plan: MergePlan, disk: UnitOnDisk) -> bool:
    """Whether the folder holds it all already: then it is left alone, times and all."""
    planned = {**dict.fromkeys(plan.carried), **plan.contents}
    return planned.keys() == disk.files.keys() and all(
        disk.files[path] == content for path, content in plan.contents.items()
    )


def _inspected(
    plan: MergePlan,
    disk: UnitOnDisk,
    new: Mapping[str, bytes],
    out: Path,
    scratch: Path,
    inspect: Inspection,
    staying: frozenset[str] = frozenset(),
) -> tuple[MergePlan, bool]:
    """The plan after its edited kernels ran: wrong merges become conflicts, wrong edits that were kept are reported.

    Also whether what stands in `scratch` is that plan, as `_build` says it.
    """
    edited = plan.report.of(Outcome.KEPT, Outcome.MERGED, Outcome.EJECTED)
    problems = inspect(scratch, edited) if edited else {}
    if not problems:
        return plan, True
    wrong_merges = {path: problems[path] for path in plan.report.of(Outcome.MERGED) if path in problems}
    if not wrong_merges:
        return with_problems(plan, problems), True
    strangers = {file.source for file in plan.report.files if file.path in wrong_merges and file.source}
    if strangers:  # not the kernel under another name, after all
        plan = plan_merge(disk, new, staying=staying | strangers)
    else:
        plan = with_conflicts(plan, disk, new, wrong_merges)
    _empty(scratch)
    is_whole = _build(plan, disk, out, scratch)
    if is_whole and strangers:
        return _inspected(plan, disk, new, out, scratch, inspect, staying | strangers)
    return plan, is_whole


def _empty(scratch: Path) -> None:
    """Removes what is in a folder, but not the folder itself, which is locked."""
    for left in scratch.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


def _refusal(out: Path, error: OSError) -> OutputError:
    return OutputError(
        f"{out} cannot be written: {error.strerror or error}.",
        hint="Nothing was changed. Choose another --out.",
    )


def _check_place(files: Mapping[str, str | bytes], out: Path) -> None:
    """Refuses a folder that is something else already."""
    if not out.exists():
        return
    if not out.is_dir():
        raise OutputError(f"{out} is a file, not a folder.", hint="Choose another --out.")
    if (out / LOCK).exists():
        if not os.access(out, os.W_OK):
            raise OutputError(f"{out} is not writable.", hint="Nothing was changed. Choose another --out.")
        return
    if Path.cwd().is_relative_to(out):
        raise OutputError(
            f"{out} holds the current folder, and a unit is a folder of its own.",
            hint="Nothing was changed. Choose another --out.",
        )
    foreign = [path for path in files if (out / path).exists()]
    if foreign:
        is_unit = (out / BASE).is_dir()
        what = "it was deleted" if is_unit else "longhand did not write it"
        hint = f"Get {LOCK} back (from git, say), or choose another --out."
        raise OutputError(
            f"{out} holds {foreign[0]}, but no {LOCK}: {what}.",
            hint=hint if is_unit else "Choose another --out.",
        )


def _build(plan: MergePlan, disk: UnitOnDisk, out: Path, scratch: Path) -> bool:
    """Makes the planned folder; False if a file of the old one that goes on in it is not the one that was read."""
    is_whole = True
    for path, content in {**{path: disk.files[path] for path in plan.carried}, **plan.contents}.items():
        target = scratch / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path not in plan.contents or content_of(out / path) == content:
            carry(out / path, target)
            is_whole = is_whole and (content_of(target) or b"") == content
        else:
            target.write_bytes(content)
    scratch.chmod(mode_of(out))
    return is_whole
