"""Which files the model's code stands in, and the fingerprint of each piece there that the model is made of."""

from __future__ import annotations

import importlib.util
import linecache
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from longhand.emit.unit.sources import Imported, SourceFile

_INSTALLED = ("site-packages", "dist-packages")


def source_fingerprints(
    functions: Mapping[str, Iterable[str]], factory: str | None
) -> dict[str, dict[str, str]]:
    """By file, relative to its project, and by piece.

    Args:
        functions: The functions that the kernels quote, by file.
        factory: ``MODULE:FACTORY``, which says with what numbers and for what sizes the model is made.
    """
    waiting: dict[str, set[str]] = {}
    for file, names in functions.items():
        waiting.setdefault(_absolute(file), set()).update(names)
    if factory and (made := _factory_file(factory)):
        waiting.setdefault(made[0], set()).add(made[1])
    read: dict[str, SourceFile] = {}
    wanted: dict[str, set[str]] = {}
    while waiting:
        file, names = waiting.popitem()
        if file not in read:
            read[file] = SourceFile.of("".join(linecache.getlines(file)))
        reached, taken = read[file].reached_from(names)
        new = reached - wanted.setdefault(file, set())
        wanted[file] |= reached
        if not new:
            continue
        for imported in taken:
            if (other := _imported_file(file, imported)) is not None:
                waiting.setdefault(other, set()).add(imported.name)
    found: dict[str, dict[str, str]] = {}
    for file in sorted(wanted):
        prints = {name: read[file].fingerprint(name) for name in sorted(wanted[file])}
        pieces = {name: digest for name, digest in prints.items() if digest is not None}
        if pieces:
            found[in_project(file)] = pieces
    return found


def in_project(file: str) -> str:
    """A file's path within its project or its installed package, so that the lock is the same on every machine."""
    path = Path(file)
    root = _root(path)
    return path.name if root is None else path.relative_to(root).as_posix()


def _root(path: Path) -> Path | None:
    """Where a file's project, or the installed packages, begin."""
    for parent in path.parents:
        if parent.name in _INSTALLED or (parent / "pyproject.toml").exists():
            return parent
    repository = next((parent for parent in path.parents if (parent / ".git").exists()), None)
    # Where nothing says what the project is: where Python finds the file, so that models/net.py is not just net.py.
    imported_from = [place for place in map(Path, map(os.path.abspath, sys.path)) if place in path.parents]
    return repository or max(imported_from, key=lambda place: len(place.parts), default=None)


def _factory_file(factory: str) -> tuple[str, str] | None:
    """The file and the dotted name; None where they cannot be told."""
    module, _, name = factory.partition(":")
    if module in sys.modules:
        file = getattr(sys.modules[module], "__file__", None)
    else:
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError):
            return None
        file = spec.origin if spec is not None else None
    return (_absolute(file), name) if file and file.endswith(".py") else None


def _absolute(file: str) -> str:
    """So that a file has one name; what is typed into a prompt is no file."""
    return os.path.abspath(file) if os.path.exists(file) else file


def _imported_file(file: str, imported: Imported) -> str | None:
    """The file that an import names, if it is of the same project; installed packages are not followed."""
    path = Path(file)
    root = _root(path) or path.parent
    if root.name in _INSTALLED:
        return None
    parts = imported.module.split(".") if imported.module else []
    if imported.level:
        places = [path.parents[imported.level - 1]]
    else:
        places = [parent for parent in path.parents if parent.is_relative_to(root)]
    for place in places:
        target = place.joinpath(*parts)
        for found in (target.with_suffix(".py"), target / "__init__.py"):
            if parts and found.is_file() and found.is_relative_to(root):
                return str(found)
    return None
