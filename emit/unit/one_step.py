"""A unit's folder, changed in one step and by one process at a time: its files and its lock are of one version.

Whoever changes a unit reads it, decides, and changes it while it holds the folder (`sole`): what it decided from is
then what it changes. Several files change together by a folder that is built beside the unit and swapped in.

A run that was killed leaves its scratch folder beside the unit, or one file in it; the next one removes them. Whether
a folder is in use tells a lock on it, which the system gives up with its process: a process id means another process
in the next container. A folder that was swapped in is another one to the system: who waited for the old one asks again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from longhand.emit.unit.on_disk import BESIDE, files_in, is_beside
from longhand.errors import OutputError

MOST_WAIT_SECONDS = 120.0
_EXCHANGE = 2  # renameat2's RENAME_EXCHANGE
_HERE = -100  # AT_FDCWD
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


@contextlib.contextmanager
def sole(out: Path) -> Iterator[None]:
    """While nobody else changes a unit through this module. Holds nothing where there is no folder.

    Raises:
        OutputError: Another process has held it for two minutes.
    """
    descriptor = _held(out)
    try:
        yield
    finally:
        if descriptor is not None:
            release(descriptor)


def release(descriptor: int) -> None:
    """Ends a lock, also where a child that was forked meanwhile has the descriptor, too."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _held(out: Path) -> int | None:
    deadline = time.monotonic() + MOST_WAIT_SECONDS
    while (descriptor := _opened(out)) is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() > deadline:
                raise OutputError(
                    f"Another process has been changing {out} for {MOST_WAIT_SECONDS:g} s.",
                    hint="Wait for it, or end it; then try again. Nothing was changed.",
                ) from None
            time.sleep(0.01)
            continue
        except OSError:  # a file system without locks
            return descriptor
        if _is_at(descriptor, out):
            return descriptor
        os.close(descriptor)  # another one has been swapped in
    return None


def _opened(folder: Path, flags: int = 0) -> int | None:
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags)
    except OSError:
        return None


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def scratch_beside(out: Path, held: contextlib.ExitStack) -> Path:
    """A folder of this run's beside the unit, locked until `held` is closed."""
    while True:
        scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}.longhand-", dir=out.parent))
        with contextlib.suppress(BlockingIOError):
            descriptor = locked(scratch)
            if descriptor is not None:
                held.callback(release, descriptor)
            if scratch.exists():  # else another run took it for a dead one's
                return scratch


def locked(folder: Path) -> int | None:
    """A descriptor that locks a folder; None if it is gone, or where the file system has no locks.

    Raises:
        BlockingIOError: Another process has it.
    """
    descriptor = _opened(folder, os.O_NOFOLLOW)
    if descriptor is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return descriptor


def recover(out: Path) -> None:
    """Removes what killed runs left, and puts the old unit back where one died between two renames."""
    prefix = f".{out.name}.longhand-"
    if not out.parent.is_dir():
        return
    for left in sorted(out.parent.glob(f"{glob.escape(prefix)}*")):
        try:
            lock = locked(left)
        except BlockingIOError:
            continue
        if lock is None:
            continue
        try:
            if left.name.endswith(".old") and not out.exists():
                left.rename(out)
            else:
                shutil.rmtree(left, ignore_errors=True)
        finally:
            release(lock)
    with sole(out):  # nobody is between writing such a file and renaming it
        for folder, _, names in os.walk(out):
            for name in filter(is_beside, names):
                Path(folder, name).unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Gives one file these bytes, in one step; its mode stays, and a link goes on pointing to it.

    Raises:
        OutputError: It cannot be written. It is as it was.
    """
    path = Path(os.path.realpath(path))
    beside = path.with_name(f".{path.name}{BESIDE}{os.urandom(8).hex()}")
    try:
        beside.write_bytes(content)
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, beside)
        os.replace(beside, path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        beside.unlink(missing_ok=True)


def replace_files(out: Path, contents: Mapping[str, bytes]) -> None:
    """Gives some files of a unit other bytes, all in one step, for who holds it (`sole`).

    Files that links lead to are not in the folder: they cannot change with it, and change one after the other.

    Args:
        out: The unit.
        contents: The bytes by relative path, of files that are there.

    Raises:
        OutputError: It cannot be written. What was on disk is as it was.
    """
    out = Path(os.path.realpath(out))
    if len(contents) == 1 or any((out / path).is_symlink() for path in contents):
        for path, content in contents.items():
            replace_file(out / path, content)
        return
    try:
        with contextlib.ExitStack() as held:
            scratch = scratch_beside(out, held)
            held.callback(shutil.rmtree, scratch, ignore_errors=True)
            for path in files_in(out):
                target = scratch / path
                target.parent.mkdir(parents=True, exist_ok=True)
                if path in contents:
                    target.write_bytes(contents[path])
                    shutil.copymode(out / path, target)
                else:
                    carry(out / path, target)
            scratch.chmod(mode_of(out))
            swap(scratch, out)
    except OSError as error:
        raise OutputError(f"{out} cannot be written: {error.strerror or error}.") from error


def carry(source: Path, target: Path) -> None:
    """The same file in another folder: a second link to it, or a copy where links do not work."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def mode_of(out: Path) -> int:
    """The permissions that the unit's folder has, or will have."""
    if out.exists():
        return out.stat().st_mode & 0o7777
    mask = os.umask(0)
    os.umask(mask)
    return 0o777 & ~mask


def swap(scratch: Path, out: Path) -> bool:
    """`out` becomes what `scratch` holds, in one step of the file system where it has one, for who holds `out`.

    Returns:
        Whether it did: there was no `out`, and another process has made one meanwhile.
    """
    if not out.exists():
        try:
            scratch.rename(out)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            raise
        return True
    if exchange(scratch, out):
        return True
    aside = scratch.with_name(f"{scratch.name}.old")
    out.rename(aside)  # it is held: nobody takes it for a dead run's between the two steps
    try:
        scratch.rename(out)
    except OSError:
        aside.rename(out)
        raise
    shutil.rmtree(aside, ignore_errors=True)
    return True


def exchange(one: Path, other: Path) -> bool:
    """Swaps two folders at once (Linux); False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    result: int = rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), ctypes.c_uint(_EXCHANGE))
    return result == 0
