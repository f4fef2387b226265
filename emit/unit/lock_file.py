"""The lock of a unit on disk: what may stand in it, how it is read, and the tools it names. Without torch.

A lock comes with a repository, and whoever wrote that may have written it: regular files only, of bounded size,
and never one that waits.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
import stat
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

from longhand.errors import UnitError
from longhand.schedule.names.words import is_identifier, is_word

LARGEST_TEXT = 32 << 20
LARGEST_TENSORS = 64 << 30  # constants.pt


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """The bytes of a file; a link is followed.

    Args:
        path: The file.
        limit: How long it may be; by default by its kind.

    Raises:
        UnitError: It is no regular file (a pipe would wait for ever), or too long.
        OSError: It cannot be read.
    """
    limit = limit or (LARGEST_TENSORS if path.suffix == ".pt" else LARGEST_TEXT)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnitError(f"{path} is no regular file.", hint="Remove it: a unit holds plain files.")
        if status.st_size <= limit:
            content = file.read(status.st_size + 1)  # no more: so much memory is taken at once
            if len(content) <= status.st_size:
                return content
    raise UnitError(
        f"{path} is too long, or grows: {status.st_size} bytes, and at most {limit} are read.",
        hint="Remove it, or write the unit anew: longhand generate.",
    )


def leaves(path: Path, folder: Path) -> bool:
    """Whether a path leads out of a folder by way of a link."""
    try:
        return not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a loop of links
        return True


LOCK = "longhand.lock"
FORMAT = 1
_LONGEST = 100_000  # entries of a table, characters of a text
_Check = Callable[[Any], bool]


def checked(lock: Any) -> dict[str, Any]:
    """The lock.

    Raises:
        UnitError: Its format is another longhand's.
        ValueError: An entry has not the type that it must have; the message names it.
    """
    if not isinstance(lock, dict):
        raise ValueError("it is no table")
    version = lock.get("format", FORMAT)
    if type(version) is not int or version < 1:
        raise ValueError("format is no positive number")
    if version > FORMAT:
        raise UnitError(
            f"The lock is of format {version}; this longhand knows up to {FORMAT}.",
            hint="Install a newer longhand, or delete the folder and generate it anew.",
        )
    for name, is_right in _ENTRIES.items():
        if name in lock and not is_right(lock[name]):
            raise ValueError(f"{name} is not what longhand writes there")
    return lock


def parsed(content: bytes) -> dict[str, Any]:
    """The lock that a text is.

    Raises:
        UnitError: As `checked`.
        ValueError: It is no JSON, or as `checked`.
    """
    try:
        return checked(json.loads(content))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_path(value: Any) -> bool:
    """Whether it is the path of a file inside of a unit."""
    if not _is_text(value) or not value or not value.isprintable():
        return False
    pure = PurePosixPath(value)
    return not pure.is_absolute() and ".." not in pure.parts and "\\" not in value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def _is_text_or_none(value: Any) -> bool:
    return value is None or _is_text(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**63


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value >= 0


def _one_of(*words: str) -> _Check:
    return lambda value: value in words if isinstance(value, str) else False


def _matching(pattern: str) -> _Check:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII) is not None


def _list(each: _Check, length: int | None = None) -> _Check:
    def is_right(value: Any) -> bool:
        fits = isinstance(value, list) and len(value) <= _LONGEST and length in (None, len(value))
        return fits and all(map(each, value))

    return is_right


def _table(key: _Check, each: _Check) -> _Check:
    def is_right(value: Any) -> bool:
        if not isinstance(value, dict) or len(value) > _LONGEST:
            return False
        return all(map(key, value)) and all(map(each, value.values()))

    return is_right


def _row(*columns: _Check) -> _Check:
    def is_right(value: Any) -> bool:
        return (
            isinstance(value, list)
            and len(value) == len(columns)
            and all(column(item) for column, item in zip(columns, value, strict=True))
        )

    return is_right


def _fields(**fields: _Check) -> _Check:
    """A table in which these entries, where they are there, are right."""

    def is_right(value: Any) -> bool:
        return isinstance(value, dict) and all(
            check(value[name]) for name, check in fields.items() if name in value
        )

    return is_right


_NAMES = _list(_is_text)


def _is_step(value: Any, is_inside: bool = False) -> bool:
    """A step of the picture; a repeat holds plain steps alone."""
    if not isinstance(value, dict):
        return False
    if "repeat" in value:
        inner = value.get("steps")
        if is_inside or not isinstance(inner, list) or len(inner) > _LONGEST:
            return False
        return _REPEAT(value) and all(_is_step(one, is_inside=True) for one in inner)
    kinds = [name for name in ("kernel", "call", "make", "drop") if name in value]
    return len(kinds) == 1 and _STEP(value)


_STEP = _fields(
    kernel=is_word,
    call=_is_text,
    make=_is_text,
    drop=_NAMES,
    of=_is_text,
    reads=_NAMES,
    writes=_NAMES,
    bytes=_is_count,
    quotes=_NAMES,
    groups=_is_count,
    reason=_is_text,
)
_REPEAT = _fields(
    repeat=_NAMES,
    takes=_NAMES,
    gives=_NAMES,
    begins=_table(_is_text, _is_text),
    varies=_is_flag,
    next=_table(_is_text, _is_text),
    ends=_table(_is_text, _is_text),
)
_PASS = _fields(
    steps=_list(_is_step),
    results=_NAMES,
    refusals=_list(_table(_is_text, _is_text)),
    buffers=_table(_is_text, _matching(r"[a-z0-9_]+ \([0-9, ]{0,300}\) [a-z]+")),
    left_out=_table(_is_text, _is_count),
)
_ENTRIES: dict[str, _Check] = {
    "name": lambda value: _is_text(value) and is_identifier(value),
    "source": _is_text,
    "factory": _is_text_or_none,
    "device": _one_of("cpu", "cuda"),
    "language": _is_text,
    "arch": lambda value: value is None or _matching(r"[a-z]+[a-z0-9_]{0,20}")(value),
    "mode": _is_text,
    "frontend": _is_text,
    "versions": _table(_is_text, _is_text),
    "inputs": _list(_is_text),
    "dynamic": _list(_is_text),
    "guards": _list(_table(_is_text, lambda value: True)),
    "hashes": _table(is_path, _matching("[0-9a-f]{64}")),
    "quotes": _table(_is_text, _is_text),
    "sources": _table(_is_text, _table(_is_text, _is_text)),
    "kernels": _table(is_word, _is_text),
    "traffic": _table(is_word, _list(_is_whole, 2)),
    "ledger": _table(
        _is_text, lambda value: isinstance(value, dict)
    ),  # entry by entry: schedule/names/unit_names.py
    "renamed": _fields(
        statements=_list(_row(_is_text, _is_text, _is_text)), locals=_list(_row(_is_text, _is_text, _is_text))
    ),
    "picture": _fields(
        version=_is_whole,
        kernels=_table(is_word, _table(_is_text, _NAMES)),
        passes=_list(_PASS),
    ),
    "train": _is_flag,
    "run": _is_flag,
    "activation_memory_budget": lambda value: _is_number(value) and 0 <= value <= 1,
    "ejected": _list(is_path),
    "tuned": _table(is_path, _table(is_word, _is_whole)),
}


def lock_text(lock: Mapping[str, Any]) -> str:
    """A lock as it stands on disk."""
    return json.dumps(lock, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def sides(content: bytes) -> list[bytes]:
    """A text as it is, or both of its sides where git's conflict markers stand in it."""
    if b"<<<<<<< " not in content:
        return [content]
    ours: list[bytes] = []
    theirs: list[bytes] = []
    waiting: list[bytes] = []
    here = [ours, theirs]  # whose the line is
    for line in content.splitlines(keepends=True):
        mark = line[:7] if line[7:8] in (b" ", b"\n", b"\r", b"") else b""
        if mark == b"<<<<<<<" and len(here) == 2:
            here, waiting = [ours], [b"|||||||", b"=======", b">>>>>>>"]
        elif mark in waiting:
            waiting = waiting[waiting.index(mark) + 1 :]
            here = {b"|||||||": [], b"=======": [theirs], b">>>>>>>": [ours, theirs]}[mark]
        else:
            for side in here:
                side.append(line)
    if waiting or ours == theirs:
        return [content]
    return [b"".join(ours), b"".join(theirs)]


def lock_versions(content: bytes) -> list[dict[str, Any]]:
    """The lock as JSON; both sides of it where git left conflict markers; nothing where it cannot be read.

    Raises:
        UnitError: It is of a later longhand's format.
    """
    versions = []
    for side in sides(content):
        with contextlib.suppress(ValueError):
            versions.append(parsed(side))
    return versions


def read_lock(folder: Path) -> dict[str, Any]:
    """The unit's lock.

    Raises:
        UnitError: There is none, or it cannot be read.
    """
    path = folder / LOCK
    hint = "Make one: longhand generate MODULE:FACTORY --out DIR."
    if not folder.is_dir():
        what = "is a file, not a unit's folder" if folder.exists() else "does not exist"
        raise UnitError(f"{folder} {what}.", hint=hint)
    if not path.exists():
        raise UnitError(f"{folder} is no generated unit: it has no {LOCK}.", hint=hint)
    try:
        content = read_regular(path)
    except OSError as error:
        raise UnitError(f"{path} cannot be read: {error.strerror or error}.") from error
    for lock in lock_versions(content):
        return lock
    raise UnitError(
        f"{path} is damaged: {_damage(content)}.",
        hint="Write it anew: longhand generate MODULE:FACTORY --out DIR.",
    )


def _damage(content: bytes) -> str:
    try:
        parsed(content)
    except ValueError as error:
        return str(error)
    return "it cannot be read"


def settled_lock(folder: Path) -> dict[str, Any]:
    """The unit's lock, to be written again: one that git left conflict markers in is refused.

    Raises:
        UnitError: There is none, or it cannot be read, or it has two sides.
    """
    lock = read_lock(folder)
    if len(lock_versions(read_regular(folder / LOCK))) > 1:
        raise UnitError(
            f"{folder / LOCK} has git's conflict markers in it.",
            hint="longhand generate MODULE:FACTORY --out DIR settles them; then try again.",
        )
    return lock


def tool_versions() -> dict[str, str]:
    """What the text of a unit depends on besides the model: the versions of longhand and of its tools."""
    return dict(_tool_versions())


@functools.cache
def _tool_versions() -> Mapping[str, str]:
    versions = {}
    for package in ("torch", "longhand", "triton", "black", "clang-format"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    versions["torch"] = versions["torch"].partition("+")[0]
    return versions
