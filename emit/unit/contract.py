"""What an edited file must keep so that the unit's other files still fit it; looked at before anything runs.

An edited kernel that the new version does not have may live on under another name, with the edit.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import re
from collections.abc import Container, Iterable, Mapping
from pathlib import PurePosixPath

from longhand.emit.unit.on_disk import UnitOnDisk
from longhand.emit.unit.threeway import code_lines, merge

# Not `=======`, which on its own underlines a heading.
_MARKER = re.compile(r"^(<{7}|>{7})( |\r?$)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CPP_FUNCTION = re.compile(r'extern\s+"C"\s+void\s+(\w+)\s*\(([^)]*)\)')
_CPP_PARAMETER = re.compile(r"(?:const\s+)?([\w:]+)\s*(\*?)\s*(?:__restrict__\s+|__restrict\s+)?(\w+)")


@dataclasses.dataclass(frozen=True)
class Breach:
    """One place where an edit breaks what the rest of the unit relies on.

    Attributes:
        path: The file, relative to the unit.
        line: Counted from 1.
        what: What is wrong, in words.
    """

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def has_markers(text: str) -> bool:
    """Whether a merge left both sides of a conflict in a text."""
    return _MARKER.search(text) is not None


def find_breaches(files: Mapping[str, str], written: Mapping[str, str]) -> list[Breach]:
    """Every breach in the files that are not as longhand writes them.

    Args:
        files: The unit as it is or shall be: text by path.
        written: The same as longhand writes it.
    """
    breaches: list[Breach] = []
    unread = [path for path, text in written.items() if path.endswith(".py") and _tree(text) is None]
    if unread:
        return [
            Breach(path, 1, "what longhand wrote there is damaged in .base: generate it anew")
            for path in unread
        ]
    wanted, named = _imported_names(written), _keywords(written)
    for path, text in sorted(written.items()):
        mine = files.get(path)
        if mine == text:
            continue
        if mine is None:
            if path.endswith((".py", ".cpp", ".c", ".h")):
                breaches.append(Breach(path, 1, "the file is missing"))
            continue
        marker = _MARKER.search(mine)
        if marker and path.endswith((".py", ".cpp", ".c", ".h")):
            breaches.append(
                Breach(
                    path,
                    _line_at(mine, marker.start()),
                    "git's conflict markers are still in it: choose a side of each, or write what is right",
                )
            )
        elif path.endswith(".py"):
            breaches += _python_breaches(path, mine, text, wanted.get(path, set()))
        elif path.endswith(".cpp"):
            breaches += _cpp_breaches(path, mine, text, named)
    return breaches


def _tree(text: str) -> ast.Module | None:
    """The text as Python; None if it is none."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imported_names(files: Mapping[str, str]) -> dict[str, set[str]]:
    """Which names the unit's files import from each of them."""
    names: dict[str, set[str]] = {}
    for path, text in files.items():
        if not path.endswith(".py"):
            continue
        for node in ast.walk(_tree(text) or ast.Module([], [])):
            if isinstance(node, ast.ImportFrom) and node.level:
                folder = PurePosixPath(path).parents[node.level - 1]
                target = folder.joinpath(*(node.module or "").split("."))
                for name in (f"{target}.py", f"{target}/__init__.py"):
                    name = name.removeprefix("./")
                    if name in files:
                        names.setdefault(name, set()).update(alias.name for alias in node.names)
    # What model.py calls as kernels.NAME.
    for path in files:
        if path.startswith("kernels/") and path.endswith(".py") and path != "kernels/__init__.py":
            names.setdefault("kernels/__init__.py", set()).add(PurePosixPath(path).stem)
    return names


def _python_breaches(path: str, mine: str, text: str, wanted: set[str]) -> Iterable[Breach]:
    try:
        tree = ast.parse(mine.removeprefix("\ufeff"))  # a byte order mark is allowed in a file
    except SyntaxError as error:
        yield Breach(path, error.lineno or 1, f"syntax error: {error.msg}")
        return
    except (ValueError, RecursionError, MemoryError) as error:
        yield Breach(path, 1, f"not Python: {error or 'nested too deeply'}")
        return
    have, expected = _definitions(tree), _definitions(ast.parse(text))
    for name in sorted(wanted & set(expected)):
        if name not in have:
            renamed = [item for other, item in have.items() if other not in expected]
            line = renamed[0].lineno if len(renamed) == 1 else 1
            yield Breach(path, line, f"{name} is gone or was renamed, and other files of the unit use it")
            continue
        yield from _signature_breaches(path, name, have[name], expected[name])


def _definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """What a module binds at its top level."""
    definitions: dict[str, ast.stmt] = {}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            definitions[statement.name] = statement
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            definitions |= dict.fromkeys(
                (alias.asname or alias.name.partition(".")[0] for alias in statement.names), statement
            )
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for node in (node for target in targets for node in ast.walk(target)):
                if isinstance(node, ast.Name):
                    definitions[node.id] = statement
        elif isinstance(statement, ast.If | ast.Try):
            definitions |= _definitions(ast.Module(statement.body, []))
    return definitions


def _signature_breaches(path: str, name: str, mine: ast.stmt, text: ast.stmt) -> Iterable[Breach]:
    if isinstance(text, ast.FunctionDef) and isinstance(mine, ast.FunctionDef):
        yield from _parameter_breaches(path, name, mine, text)
    elif isinstance(text, ast.ClassDef) and isinstance(mine, ast.ClassDef):
        methods = {item.name: item for item in mine.body if isinstance(item, ast.FunctionDef)}
        for item in text.body:
            if not isinstance(item, ast.FunctionDef) or item.name not in ("__init__", "forward"):
                continue
            if item.name in methods:
                yield from _parameter_breaches(path, f"{name}.{item.name}", methods[item.name], item)
            elif item.name == "forward":
                yield Breach(path, mine.lineno, f"{name}.forward is gone or was renamed")


def _parameter_breaches(
    path: str, name: str, mine: ast.FunctionDef, text: ast.FunctionDef
) -> Iterable[Breach]:
    have = [arg.arg for arg in (*mine.args.posonlyargs, *mine.args.args)]
    expected = [arg.arg for arg in (*text.args.posonlyargs, *text.args.args)]
    n_more = len(have) - len(expected)
    more_have_defaults = n_more >= 0 and len(mine.args.defaults) - len(text.args.defaults) >= n_more
    if have[: len(expected)] != expected or not more_have_defaults:
        yield Breach(
            path,
            mine.lineno,
            f"the signature of {name} changed: its callers pass ({', '.join(expected)}), "
            f"it takes ({', '.join(have)})",
        )


def _keywords(files: Mapping[str, str]) -> dict[str, set[str]]:
    """For each kernel the parameters that callers name: ``kernels.softmax(x, out, n_rows=4, ...)``."""
    keywords: dict[str, set[str]] = {}
    for path, text in files.items():
        if path.endswith(".py") and "/" not in path:
            for node in ast.walk(_tree(text) or ast.Module([], [])):
                match node:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Name(id="kernels"), attr=name), keywords=given
                    ):
                        keywords.setdefault(name, set()).update(one.arg for one in given if one.arg)
    return keywords


def _cpp_breaches(path: str, mine: str, text: str, named: Mapping[str, set[str]]) -> Iterable[Breach]:
    have, expected = _cpp_functions(mine), _cpp_functions(text)
    for name, types in expected.items():
        if name not in have:
            line = min((place for other, (_, place) in have.items() if other not in expected), default=1)
            words = f'extern "C" void {name}(...) is gone or was renamed, and model.py calls it'
            yield Breach(path, line, words)
        elif _as_called(have[name][0], named.get(name, ())) != _as_called(types[0], named.get(name, ())):
            shown = ", ".join(f"{kind} {word}" for kind, word in types[0])
            yield Breach(path, have[name][1], f"the signature of {name} changed: its callers pass ({shown})")


def _as_called(parameters: Iterable[tuple[str, str]], named: Container[str]) -> list[tuple[str, str]]:
    """What callers see of parameters: their types, and the names of those that go by keyword."""
    return [(kind, word if word in named else "") for kind, word in parameters]


def _cpp_functions(text: str) -> dict[str, tuple[list[tuple[str, str]], int]]:
    """For each ``extern "C"`` function its parameters as (type, name), and its line."""
    bare = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    functions = {}
    for match in _CPP_FUNCTION.finditer(bare):
        parameters = []
        for words in filter(None, (piece.strip() for piece in match[2].split(","))):
            parameter = _CPP_PARAMETER.fullmatch(words)
            kind = f"{parameter[1]}{parameter[2]}" if parameter else words
            parameters.append((kind, parameter[3] if parameter else ""))
        functions[match[1]] = (parameters, _line_at(bare, match.start()))
    return functions


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


_LEAST_LIKE = 0.5  # of the lines of code: what git calls a rename


@dataclasses.dataclass(frozen=True)
class Move:
    """An edited kernel's way into the file of another.

    Attributes:
        source: The old file.
        target: The new one.
        text: The new one's text with the edit.
    """

    source: str
    target: str
    text: str


def find_moves(disk: UnitOnDisk, edited: Iterable[str], new: Mapping[str, str]) -> list[Move]:
    """Where edits of kernels go that the new version does not have; those that fit nowhere are not among them.

    Args:
        disk: The unit as it was.
        edited: The edited files whose kernels are gone.
        new: The files of the kernels that are new, by path.
    """
    moves: list[Move] = []
    taken: set[str] = set()
    for paths in _by_stem(edited).values():
        candidates = [
            candidate
            for other in _by_stem(new)
            if other not in taken and (candidate := _moved(disk, paths, other, new))
        ]
        if candidates:
            _, best = max(candidates, key=lambda entry: entry[0])
            moves += best
            taken.add(PurePosixPath(best[0].target).stem)
    return moves


def _by_stem(paths: Iterable[str]) -> dict[str, list[str]]:
    by_stem: dict[str, list[str]] = {}
    for path in sorted(paths):
        by_stem.setdefault(PurePosixPath(path).stem, []).append(path)
    return by_stem


def _moved(
    disk: UnitOnDisk, paths: list[str], other: str, new: Mapping[str, str]
) -> tuple[float, list[Move]] | None:
    """How like another kernel is to this one, and the edits in it; None if they do not fit."""
    likeness, moves = [], []
    for path in paths:
        pure = PurePosixPath(path)
        target, name = str(pure.with_stem(other)), pure.stem
        bases = disk.bases(path)
        if target not in new or not bases:
            return None
        try:
            ours, base = (_renamed(text.decode(), name, other) for text in (disk.files[path], bases[0]))
        except UnicodeDecodeError:
            return None
        merged = merge(ours, base, new[target])
        if merged.conflicts or find_breaches({target: merged.text}, {target: new[target]}):
            return None
        matcher = difflib.SequenceMatcher(None, code_lines(base), code_lines(new[target]), autojunk=False)
        likeness.append(matcher.ratio())
        moves.append(Move(path, target, merged.text))
    return (min(likeness), moves) if min(likeness) >= _LEAST_LIKE else None


def _renamed(text: str, name: str, other: str) -> str:
    """The text with the kernel's own name, and that of its Triton function, changed: not `F.gelu`."""
    return re.sub(rf"(?<![\w.]){re.escape(name)}(?=\b|_kernel\b)", other, text)


def tuned_at_home(
    tuned: Mapping[str, Mapping[str, int]], moves: Iterable[Move]
) -> dict[str, Mapping[str, int]]:
    """What `longhand tune` set, by the files where it is now."""
    homes = {move.source: move.target for move in moves}
    return {homes.get(path, path): values for path, values in tuned.items()}
