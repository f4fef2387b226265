"""The user's source, as far as the lock quotes it: the functions in which the quoted statements stand.

The lock says ``file:line`` of each statement, and a lock may be a stranger's. So a file is looked for below the
project's root alone (the nearest folder around the unit with a ``pyproject.toml`` or ``.git``, else the current one, if
the unit is below it), has to be a regular one that ends in ``.py``, links resolved, and of it only those functions are
shown in which a statement stands that the lock quotes. A statement that is not there (its source was changed since, is
installed elsewhere, or is not here) is shown as the quote that it is.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from longhand.capture.source import Statement, UserFile
from longhand.emit.unit.lock_file import is_path, read_regular
from longhand.errors import UnitError
from longhand.staleness.revisions import file_at

_LARGEST = 4 << 20  # bytes of a file with a model in it
_MOST_LINES = 4_000
_LOCALS = "<locals>."
ReadsSource = Callable[[str], str | None]


@dataclasses.dataclass(frozen=True)
class SourceLine:
    """A line of the user's file.

    Attributes:
        number: From 1.
        text: Without its end.
        quotes: The statements of the lock that stand on it.
    """

    number: int
    text: str
    quotes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class SourcePiece:
    """One function.

    Attributes:
        file: Relative to the project.
        name: ``Attention.forward``.
        lines: All of it.
    """

    file: str
    name: str
    lines: tuple[SourceLine, ...]


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """What there is of the model's source.

    Attributes:
        pieces: Function by function, as they stand in their files.
        missing: Quotes that are in none of them, with the place that the lock names.
    """

    pieces: tuple[SourcePiece, ...]
    missing: tuple[tuple[str, str], ...]


def project_root(folder: Path) -> Path | None:
    """Below which folder a unit's sources may be read; None if nothing says so."""
    folder = folder.resolve()
    for parent in folder.parents:
        if (parent / "pyproject.toml").is_file() or (parent / ".git").exists():
            return parent
    here = Path.cwd().resolve()
    return here if folder.is_relative_to(here) and here.parent != here else None


def source_on_disk(root: Path | None) -> ReadsSource:
    """Reads files below a root: what leads out of it, by name or by link, is not there."""

    def read(file: str) -> str | None:
        if root is None or not _is_source(file):
            return None
        try:
            path = (root / file).resolve(strict=True)
            if not path.is_relative_to(root.resolve()) or path.suffix != ".py":
                return None
            return read_regular(path, _LARGEST).decode(errors="replace")
        except (OSError, RuntimeError, UnitError):
            return None

    return read


def source_at(root: Path | None, revision: str) -> ReadsSource:
    """Reads them as they were at a git revision."""

    def read(file: str) -> str | None:
        if root is None or not _is_source(file):
            return None
        content = file_at(root, revision, file)
        return None if content is None or len(content) > _LARGEST else content.decode(errors="replace")

    return read


def _is_source(file: str) -> bool:
    return is_path(file) and file.endswith(".py")


def find_source(quotes: Mapping[str, str], read: ReadsSource) -> ModelSource:
    """The functions with the quoted statements.

    Args:
        quotes: By quote: ``file:line``, as in the lock.
        read: The text of a file; None where it is not to be had.
    """
    files: dict[str, dict[tuple[str, str], str]] = {}
    for quote, where in quotes.items():
        file, _, _ = where.rpartition(":")
        name, _, statement = quote.partition("    ")
        files.setdefault(file, {})[name.replace(_LOCALS, ""), statement] = quote
    pieces: list[SourcePiece] = []
    n_lines = 0
    for file, wanted in sorted(files.items()):
        for piece in _pieces(file, read(file) or "", wanted):
            n_lines += len(piece.lines)
            if n_lines <= _MOST_LINES:
                pieces.append(piece)
    shown = {quote for piece in pieces for line in piece.lines for quote in line.quotes}
    missing = tuple((quote, where) for quote, where in quotes.items() if quote not in shown)
    return ModelSource(tuple(pieces), missing)


def _pieces(file: str, text: str, wanted: Mapping[tuple[str, str], str]) -> Iterable[SourcePiece]:
    """The functions of a file in which one of the wanted statements stands."""
    lines = text.splitlines(keepends=True)
    try:
        source = UserFile(tuple(lines))
        functions = dict(_functions(ast.parse(text).body, ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for name, node in functions.items():
        if not any(function == name for function, _ in wanted):
            continue
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        span = range(first, (node.end_lineno or first) + 1)
        shown = [
            SourceLine(number, lines[number - 1].rstrip("\r\n"), _quotes(source.statement(number), wanted))
            for number in span
            if number <= len(lines)
        ]
        if any(line.quotes for line in shown):
            yield SourcePiece(file, name, tuple(shown))


def _quotes(statement: Statement | None, wanted: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    if statement is None:
        return ()
    quote = wanted.get((statement.qualname, statement.text))
    return () if quote is None else (quote,)


def _functions(
    body: Iterable[ast.stmt], prefix: str
) -> Iterable[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions by dotted name; those inside of functions belong to these."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _functions([*node.body, *node.orelse], prefix)
