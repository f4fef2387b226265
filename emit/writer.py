"""The unit on disk: built complete beside the old one, then swapped in, so that a kill at any moment leaves one whole.

What the user edited is never lost: a file that is not as longhand last wrote it (`.base/`) stays, and the new text
is put beside it as ``FILE.new``. Files of the user's own in the folder stay too.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from longhand.emit.ledger import Ledger
from longhand.emit.lock import LOCK
from longhand.errors import OutputError

BASE = ".base"
_NOT_CARRIED = frozenset({"__pycache__"})
_EXCHANGE = 2  # renameat2's RENAME_EXCHANGE
_HERE = -100  # AT_FDCWD


@dataclasses.dataclass(frozen=True)
class Written:
    """What `write_unit` did.

    Attributes:
        changed: Files that are new or have new text.
        kept: Files that the user had edited and that the new version would have changed: untouched, the new text
            beside them as ``FILE.new``.
        removed: Files of the old version that the new one does not have.
    """

    changed: tuple[str, ...]
    kept: tuple[str, ...]
    removed: tuple[str, ...]


def read_ledger(out: Path) -> Ledger | None:
    """The names that the unit in a folder gave; None if there is no unit, or its lock cannot be read."""
    try:
        lock = json.loads((Path(out) / LOCK).read_text())
        return Ledger.from_json(lock["ledger"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_unit(files: Mapping[str, str | bytes], out: Path) -> Written:
    """Makes the folder hold this version of the unit.

    Args:
        files: What `emit_unit` returned.
        out: The folder; it and its parents are made where missing.

    Raises:
        OutputError: It cannot be written. What was on disk is as it was.
    """
    out = Path(os.path.realpath(out))
    _check_place(files, out)
    plan = _merge_plan(files, out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise _refusal(out, error) from error
    try:
        _build(plan, out, scratch)
        _swap(scratch, out)
    except OSError as error:
        raise _refusal(out, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Written(plan.changed, plan.kept, plan.removed)


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
    foreign = [path for path in files if (out / path).exists()]
    if foreign:
        raise OutputError(
            f"{out} holds {foreign[0]}, but no {LOCK}: longhand did not write it.",
            hint="Choose another --out.",
        )


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What the folder shall hold: new contents, and old files that are carried over as they are."""

    contents: Mapping[str, bytes]
    carried: tuple[str, ...]
    changed: tuple[str, ...]
    kept: tuple[str, ...]
    removed: tuple[str, ...]


def _merge_plan(files: Mapping[str, str | bytes], out: Path) -> _Plan:
    new = {
        path: content if isinstance(content, bytes) else content.encode() for path, content in files.items()
    }
    old = _files_in(out)
    contents: dict[str, bytes] = {}
    changed: list[str] = []
    kept: list[str] = []
    removed: list[str] = []
    hashes = _old_hashes(out)
    for path, content in new.items():
        if path.startswith(f"{BASE}/"):
            continue
        found = _read(out / path) if path in old else None
        base = new.get(f"{BASE}/{path}")
        if found is None or found == content or path == LOCK or not _is_edited(out, path, found, hashes):
            contents[path] = content
            if base is not None:
                contents[f"{BASE}/{path}"] = base
            if found != content:
                changed.append(path)
        elif _read(out / BASE / path) == base and base is not None:
            # Edited, and the new version is the one that the edit started from: nothing to merge.
            contents[f"{BASE}/{path}"] = base
        else:
            kept.append(path)
            contents[f"{path}.new"] = content
    carried = []
    for path in old:
        stem = path.removeprefix(f"{BASE}/").removesuffix(".new")
        if path in contents:
            continue
        if path in new or (path.startswith(f"{BASE}/") and stem in kept):
            carried.append(path)
        elif path.startswith(f"{BASE}/"):
            if stem not in new and _is_edited(out, stem, _read(out / stem), hashes):
                carried.append(path)
        elif path.endswith(".new") and stem in new:
            continue  # of an earlier version
        elif path in hashes and not _is_edited(out, path, _read(out / path), hashes):
            removed.append(path)
        else:
            carried.append(path)
    return _Plan(contents, tuple(carried), tuple(changed), tuple(kept), tuple(removed))


def _files_in(out: Path) -> dict[str, None]:
    """Every file (and symbolic link) below a folder, as relative paths."""
    found: dict[str, None] = {}
    for folder, folders, names in os.walk(out):
        folders[:] = sorted(name for name in folders if name not in _NOT_CARRIED)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted([*names, *links]):
            found[Path(folder, name).relative_to(out).as_posix()] = None
    return found


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _old_hashes(out: Path) -> dict[str, str]:
    """What the old lock says of each file that longhand wrote."""
    try:
        found = json.loads((out / LOCK).read_text())["hashes"]
        return {str(path): str(digest) for path, digest in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _is_edited(out: Path, path: str, found: bytes | None, hashes: Mapping[str, str]) -> bool:
    """Whether a file is not as longhand last wrote it."""
    if found is None:
        return False
    base = _read(out / BASE / path)
    if base is not None:
        return found != base
    return not path.endswith(".pt") or path not in hashes


def _build(plan: _Plan, out: Path, scratch: Path) -> None:
    for path, content in plan.contents.items():
        target = scratch / path
        target.parent.mkdir(parents=True, exist_ok=True)
        same = _read(out / path) == content
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
    out.rename(aside)
    try:
        scratch.rename(out)
    except OSError:
        aside.rename(out)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swaps two folders at once (Linux); False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    result: int = rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), ctypes.c_uint(_EXCHANGE))
    return result == 0
