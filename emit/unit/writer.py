"""The unit on disk: built complete beside the old one, then swapped in, so that a kill at any moment leaves one whole.

What becomes of edited files is decided in merge.py. A run that was killed leaves its scratch folder beside the unit;
the next one removes it. Whether a scratch folder is in use tells a lock on it, which the system gives up with its
process: a process id means another process in the next container.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from longhand.emit.names.ledger import Ledger
from longhand.emit.unit.lock_schema import LOCK
from longhand.emit.unit.merge import plan_merge, with_conflicts, with_problems
from longhand.emit.unit.merge_report import ConflictStyle, MergePlan, MergeReport, Outcome
from longhand.emit.unit.on_disk import BASE, UnitOnDisk, content_of, lock_versions, read_unit
from longhand.emit.unit.reading import read_regular
from longhand.errors import EditError, OutputError

# Given a folder that holds a unit, and the edited files in it: what is wrong with each that is wrong.
Inspection = Callable[[Path, Sequence[str]], Mapping[str, str]]

_MOST_TURNS = 3
_EXCHANGE = 2  # renameat2's RENAME_EXCHANGE
_HERE = -100  # AT_FDCWD


def read_ledger(out: Path) -> Ledger | None:
    """The names that the unit in a folder gave; None if there is no unit, or its lock cannot be read.

    After a git merge that left conflict markers in the lock, both sides count; ours first.
    """
    try:
        content = read_regular(Path(out) / LOCK)
    except OSError:
        return None
    found = None
    for lock in reversed(lock_versions(content)):
        with contextlib.suppress(KeyError, TypeError, AttributeError):
            kernels = Ledger.from_json(lock["ledger"]).kernels
            statements = {key: lock[key] for key in ("quotes", "renamed") if key in lock}
            found = Ledger({**(found.kernels if found is not None else {}), **kernels}, statements)
    return found


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
    _recover(out)
    _check_place(files, out)
    new = {
        path: content if isinstance(content, bytes) else content.encode() for path, content in files.items()
    }
    for _ in range(_MOST_TURNS):
        disk = read_unit(out)
        try:
            plan = plan_merge(disk, new, style)
        except EditError as error:
            raise EditError(error.what, where=f"{_shown(out)}/{error.where}", hint=error.hint) from error
        report = _write(plan, disk, new, out, inspect)
        if report is not None:
            return report
    raise OutputError(f"{out} keeps changing while it is written.", hint="Nothing was changed. Run it again.")


def _shown(out: Path) -> str:
    """A folder as a person would write it from here."""
    return min(str(out), os.path.relpath(out), key=len)


def _write(
    plan: MergePlan, disk: UnitOnDisk, new: Mapping[str, bytes], out: Path, inspect: Inspection | None
) -> MergeReport | None:
    """Builds and swaps; None if somebody saved a file of the unit meanwhile."""
    held = contextlib.ExitStack()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = _scratch(out, held)
    except OSError as error:
        raise _refusal(out, error) from error
    try:
        _build(plan, out, scratch)
        if inspect is not None and not plan.report.has_conflicts:
            plan = _inspected(plan, disk, new, out, scratch, inspect)
        if _is_as_planned(plan, disk):
            return plan.report
        if read_unit(out).files != disk.files:
            return None
        _swap(scratch, out)
    except OSError as error:
        raise _refusal(out, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        held.close()
    return plan.report


def _scratch(out: Path, held: contextlib.ExitStack) -> Path:
    """A folder of this run's beside the unit, locked until `held` is closed."""
    while True:
        scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}.longhand-", dir=out.parent))
        lock = _locked(scratch)
        if lock is not None and scratch.exists():  # else another run took it for a dead one's
            held.callback(os.close, lock)
            return scratch


def _locked(folder: Path) -> int | None:
    """A descriptor that locks a folder; None if another process has it, or it is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_as_planned(plan: MergePlan, disk: UnitOnDisk) -> bool:
    """Whether the folder holds it all already: then it is left alone, times and all."""
    planned = {**dict.fromkeys(plan.carried), **plan.contents}
    return planned.keys() == disk.files.keys() and all(
        disk.files[path] == content for path, content in plan.contents.items()
    )


def replace_file(path: Path, content: bytes) -> None:
    """Gives one file other bytes, in one step; its mode stays, and a link goes on pointing to it.

    Raises:
        OutputError: It cannot be written. It is as it was.
    """
    path = Path(os.path.realpath(path))
    beside = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        beside.write_bytes(content)
        shutil.copymode(path, beside)
        os.replace(beside, path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        beside.unlink(missing_ok=True)


def _inspected(
    plan: MergePlan,
    disk: UnitOnDisk,
    new: Mapping[str, bytes],
    out: Path,
    scratch: Path,
    inspect: Inspection,
    staying: frozenset[str] = frozenset(),
) -> MergePlan:
    """The plan after its edited kernels ran: wrong merges become conflicts, wrong edits that were kept are reported."""
    edited = plan.report.of(Outcome.KEPT, Outcome.MERGED, Outcome.EJECTED)
    problems = inspect(scratch, edited) if edited else {}
    if not problems:
        return plan
    wrong_merges = {path: problems[path] for path in plan.report.of(Outcome.MERGED) if path in problems}
    if not wrong_merges:
        return with_problems(plan, problems)
    strangers = {file.source for file in plan.report.files if file.path in wrong_merges and file.source}
    if strangers:  # not the kernel under another name, after all
        plan = plan_merge(disk, new, staying=staying | strangers)
    else:
        plan = with_conflicts(plan, disk, new, wrong_merges)
    _empty(scratch)
    _build(plan, out, scratch)
    return _inspected(plan, disk, new, out, scratch, inspect, staying | strangers) if strangers else plan


def _empty(scratch: Path) -> None:
    """Removes what is in a folder, but not the folder itself, which is locked."""
    for left in scratch.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


def _recover(out: Path) -> None:
    """Removes what killed runs left, and puts the old unit back where one died between two renames."""
    prefix = f".{out.name}.longhand-"
    if not out.parent.is_dir():
        return
    for left in sorted(out.parent.glob(f"{glob.escape(prefix)}*")):
        lock = _locked(left)
        if lock is None:
            continue
        try:
            if left.name.endswith(".old") and not out.exists():
                left.rename(out)
            else:
                shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(lock)


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


def _build(plan: MergePlan, out: Path, scratch: Path) -> None:
    for path, content in plan.contents.items():
        target = scratch / path
        target.parent.mkdir(parents=True, exist_ok=True)
        same = content_of(out / path) == content
        if same:
            _carry(out / path, target)
        else:
            target.write_bytes(content)
    for path in plan.carried:
        target = scratch / path
        target.parent.mkdir(parents=True, exist_ok=True)
        _carry(out / path, target)
    mode = out.stat().st_mode & 0o7777 if out.exists() else 0o777 & ~_umask()
    scratch.chmod(mode)


def _carry(source: Path, target: Path) -> None:
    """The same file in the new folder: a second link to it, or a copy where links do not work."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _swap(scratch: Path, out: Path) -> None:
    """`out` becomes what `scratch` holds, in one step of the file system where it has one."""
    if not out.exists():
        scratch.rename(out)
        return
    if _exchange(scratch, out):
        return
    aside = scratch.with_name(f"{scratch.name}.old")
    lock = _locked(out)  # so that nobody takes it for a dead run's between the two steps
    try:
        out.rename(aside)
        try:
            scratch.rename(out)
        except OSError:
            aside.rename(out)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        if lock is not None:
            os.close(lock)


def _exchange(one: Path, other: Path) -> bool:
    """Swaps two folders at once (Linux); False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    result: int = rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), ctypes.c_uint(_EXCHANGE))
    return result == 0
