"""`longhand eject`: a file of a unit that longhand shall never write again."""

from __future__ import annotations

from pathlib import Path

from longhand.emit.unit.lock_file import LOCK, lock_text, settled_lock
from longhand.emit.unit.on_disk import BASE, replace_file, sole
from longhand.errors import UnitError


def eject(file: Path, *, undo: bool = False) -> tuple[Path, str]:
    """Notes in the unit's lock that a file is no longer longhand's.

    Args:
        file: Any file of a unit that longhand wrote.
        undo: Forget it: the file is merged again.

    Returns:
        The unit's folder, and the file's path in it.

    Raises:
        UnitError: The file is missing, in no unit, or not longhand's.
    """
    if file.is_dir():
        raise UnitError(f"{file} is a folder.", hint="Name one file of a unit, such as DIR/kernels/gelu.cpp.")
    if not file.is_file():
        raise UnitError(f"{file} does not exist.")
    folder = next((parent for parent in file.parents if (parent / LOCK).is_file()), None)
    if folder is None:
        raise UnitError(f"{file} is in no generated unit.")
    path = file.relative_to(folder).as_posix()
    with sole(folder):  # a unit that is written meanwhile would get the lock of its last version
        _note(folder, path, undo)
    return folder, path


def _note(folder: Path, path: str, undo: bool) -> None:
    file = folder / path
    lock = settled_lock(folder)
    ejected = set(lock.get("ejected", ()))
    if path not in lock.get("hashes", {}) or path.startswith(f"{BASE}/"):
        raise UnitError(f"{file} is no file that longhand writes: it is yours already.")
    if undo and path not in ejected:
        raise UnitError(f"{file} was not ejected.")
    ejected = ejected - {path} if undo else ejected | {path}
    if ejected:
        lock["ejected"] = sorted(ejected)
    else:
        lock.pop("ejected", None)
    replace_file(folder / LOCK, lock_text(lock).encode())
