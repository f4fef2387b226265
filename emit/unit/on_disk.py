"""A unit's folder: as it was found, and changed in one step and by one process at a time.

Its files, what longhand wrote, and both sides of what git left markers in; files and lock are of one version.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import fcntl
import glob
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from longhand.emit.unit.lock_file import LOCK, leaves, lock_versions, read_regular, sides
from longhand.errors import OutputError

BASE = ".base"
ASIDE = "kernels/aside"
NEW = ".new"
BESIDE = ".longhand-"  # .NAME.longhand-0123456789abcdef is NAME before it is renamed
_NOT_CARRIED = frozenset({"__pycache__"})


@dataclasses.dataclass(frozen=True)
class UnitOnDisk:
    """A unit's files as found, with what git may have done to them.

    Attributes:
        files: Bytes by path, `.base/` included.
        hashes: What the lock says of each file that longhand wrote.
        ejected: Files that are no longer longhand's.
        tuned: The tunables that `longhand tune` set, by file.
    """

    files: Mapping[str, bytes]
    hashes: Mapping[str, tuple[str, ...]]
    ejected: frozenset[str]
    tuned: Mapping[str, Mapping[str, int]]

    @staticmethod
    def of(files: Mapping[str, bytes]) -> UnitOnDisk:
        """Reads the lock among the files; both sides of it where git left conflict markers."""
        hashes: dict[str, tuple[str, ...]] = {}
        ejected: set[str] = set()
        tuned: dict[str, dict[str, int]] = {}
        for lock in lock_versions(files.get(LOCK, b"")):
            for path, digest in lock.get("hashes", {}).items():
                hashes[path] = (*hashes.get(path, ()), str(digest))
            ejected.update(lock.get("ejected", ()))
            for path, values in lock.get("tuned", {}).items():
                tuned[path] = {**values, **tuned.get(path, {})}
        return UnitOnDisk(files, hashes, frozenset(ejected), tuned)

    def bases(self, path: str) -> list[bytes]:
        """The texts that an edit of a file may have started from; several after a git merge left markers."""
        pending = self.files.get(f"{BASE}/{path}{NEW}")
        if pending is not None and f"{path}{NEW}" not in self.files:
            return [pending]
        base = self.files.get(f"{BASE}/{path}")
        return [] if base is None else sides(base)

    def is_edited(self, path: str) -> bool:
        """Whether a file is there and not as longhand last wrote it."""
        content = self.files.get(path)
        if content is None:
            return False
        bases = self.bases(path)
        if all(side in bases for side in sides(content)):
            return False
        return hashlib.sha256(content).hexdigest() not in self.hashes.get(path, ())

    def knows(self, path: str) -> bool:
        """Whether longhand wrote a file of this name."""
        return path in self.hashes or f"{BASE}/{path}" in self.files


def read_unit(out: Path, *, follow_links: bool = True) -> UnitOnDisk:
    """A unit's files; none where there is no folder.

    Args:
        out: The folder.
        follow_links: Otherwise what a link leads to outside of the folder counts as empty: it is not the unit's.

    Raises:
        OutputError: One cannot be read.
        UnitError: One is no regular file, or too long to be a unit's.
    """
    files = {}
    for path in files_in(out):
        content = content_of(out / path) if follow_links or not leaves(out / path, out) else b""
        if content is None and not (out / path).is_symlink():
            raise OutputError(f"{out / path} cannot be read.", hint="Nothing was changed.")
        files[path] = content or b""  # a link to a folder, or to nothing, is carried as it is
    return UnitOnDisk.of(files)


def is_beside(name: str) -> bool:
    """Whether a file is what a process that writes, or was killed, keeps for a moment: no part of the unit."""
    return re.fullmatch(rf"\..+{re.escape(BESIDE)}[0-9a-f]{{16}}", name) is not None


def files_in(out: Path) -> dict[str, None]:
    """Every file (and symbolic link) of a unit, as relative paths."""
    files: dict[str, None] = {}
    for folder, folders, names in os.walk(out):
        folders[:] = sorted(name for name in folders if name not in _NOT_CARRIED)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted(name for name in [*names, *links] if not is_beside(name)):
            files[Path(folder, name).relative_to(out).as_posix()] = None
    return files


def content_of(path: Path) -> bytes | None:
    """A file's bytes; None of a folder, and of what cannot be read."""
    if path.is_dir():
        return None
    try:
        return read_regular(path)
    except OSError:
        return None


def edits(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes, bytes]]:
    """(path, text as written, text as it is) for each file that somebody edited."""
    disk = UnitOnDisk.of(files)
    for path in sorted(files):
        if path.startswith(f"{BASE}/") or path in (LOCK,) or not disk.is_edited(path):
            continue
        bases = disk.bases(path)
        if bases:
            yield path, bases[0], files[path]


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
