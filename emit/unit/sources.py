"""Fingerprints of the model's code, kept in the lock: how `load` sees, without running it, that a model changed.

Of each piece that the model is made of, in the files where its code stands.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib.util
import linecache
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_DIGITS = 12
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # where statements stand in a statement
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclasses.dataclass(frozen=True)
class Imported:
    """A name that a file takes from another one.

    Attributes:
        module: As written behind ``from`` or ``import``; may be empty.
        level: The dots before it.
        name: The name there.
    """

    module: str
    level: int
    name: str


@dataclasses.dataclass(frozen=True)
class _PieceFacts:
    """What was found out of a file's pieces.

    Attributes:
        fingerprints: By piece.
        uses: By piece, the names of pieces that it reads, each once.
    """

    fingerprints: dict[str, str]
    uses: dict[str, tuple[str | Imported, ...]]


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """The pieces of a Python file, by dotted name.

    Attributes:
        functions: ``Net.forward``; functions inside functions too.
        classes: ``Net``.
        values: The statements that bind a name at the top level.
        imports: What a name at the top level stands for elsewhere; a module where `Imported.name` is empty.
        known: What was found out of a piece, by its name: one model is asked about for each of its graphs.
    """

    functions: Mapping[str, _Function]
    classes: Mapping[str, ast.ClassDef]
    values: Mapping[str, tuple[ast.stmt, ...]]
    imports: Mapping[str, Imported]
    known: _PieceFacts = dataclasses.field(
        default_factory=lambda: _PieceFacts({}, {}), compare=False, repr=False
    )

    @staticmethod
    @functools.lru_cache(maxsize=8)  # the files of one model: their trees are large
    def of(text: str) -> SourceFile:
        """Reads a file; one without pieces where it is no Python. What is the same text is read once."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.Module([], [])
        pieces = dict(_pieces(tree.body, ""))
        for piece in pieces.values():
            _drop_docstring(piece)
        values: dict[str, tuple[ast.stmt, ...]] = {}
        imports: dict[str, Imported] = {}
        for statement in _statements(tree.body):
            if isinstance(statement, ast.Import | ast.ImportFrom):
                imports |= _imports(statement)
            elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
                for name in _names(statement, ast.Store):
                    values[name] = (*values.get(name, ()), statement)
        return SourceFile(
            {name: piece for name, piece in pieces.items() if not isinstance(piece, ast.ClassDef)},
            {name: piece for name, piece in pieces.items() if isinstance(piece, ast.ClassDef)},
            values,
            imports,
        )

    def reached_from(self, names: Iterable[str]) -> tuple[set[str], set[Imported]]:
        """Every piece that these functions and classes rely on, themselves included, and what they take from other
        files."""
        pieces: set[str] = set()
        taken: set[Imported] = set()
        waiting = [name.replace("<locals>.", "") for name in names]
        while waiting:
            name = waiting.pop()
            if name in pieces or not self._has(name):
                continue
            pieces.add(name)
            owner = name.rpartition(".")[0]
            # The class of a method; of a function inside a function the one around it.
            waiting += [owner] if owner else []
            if name in self.classes:
                waiting.append(f"{name}.__init__")
            for used in self._used_by(name):
                if isinstance(used, Imported):
                    taken.add(used)
                else:
                    waiting.append(used)
        return pieces, taken

    def fingerprint(self, name: str) -> str | None:
        """Of one piece; None if the file does not have it."""
        fingerprint = self.known.fingerprints.get(name)
        if fingerprint is None and self._has(name):
            fingerprint = self.known.fingerprints[name] = _fingerprint(*self._nodes(name))
        return fingerprint

    def _nodes(self, name: str) -> tuple[ast.AST, ...]:
        """What a piece is written as."""
        if name in self.functions:
            return (self.functions[name],)
        return (_outline(self.classes[name]),) if name in self.classes else self.values[name]

    def _has(self, name: str) -> bool:
        return name in self.functions or name in self.classes or name in self.values

    def _used_by(self, name: str) -> tuple[str | Imported, ...]:
        """The names of pieces that a piece reads; some may not be there."""
        uses = self.known.uses.get(name)
        if uses is None:
            uses = self.known.uses[name] = tuple(dict.fromkeys(self._uses(name)))
        return uses

    def _uses(self, name: str) -> Iterator[str | Imported]:
        nodes = self._nodes(name)
        own = {other for node in nodes for other in _own_names(node)}
        scopes = [name.rsplit(".", n)[0] for n in range(1, name.count(".") + 1)]
        for node in (inner for outer in nodes for inner in ast.walk(outer)):
            if isinstance(node, ast.Name) and node.id not in own:
                yield from (f"{scope}.{node.id}" for scope in scopes if scope in self.functions)
                yield node.id
                imported = self.imports.get(node.id)
                if imported is not None and imported.name:
                    yield imported
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                imported = self.imports.get(node.value.id)
                if node.value.id in ("self", "cls"):
                    yield from self._method(name.rpartition(".")[0], node.attr)
                elif imported is not None:
                    parts = filter(None, (imported.module, imported.name))
                    yield Imported(".".join(parts), imported.level, node.attr)

    def _method(self, owner: str, name: str) -> Iterator[str]:
        """A class's method or that of its bases in this file."""
        seen: set[str] = set()
        waiting = [owner]
        while waiting:
            class_name = waiting.pop()
            if class_name in seen or class_name not in self.classes:
                continue
            seen.add(class_name)
            yield f"{class_name}.{name}"
            waiting += [base.id for base in self.classes[class_name].bases if isinstance(base, ast.Name)]


def changed_functions(text: str, known: Mapping[str, str]) -> list[str]:
    """Which of these pieces are gone from a file, or are not as they were."""
    file = SourceFile.of(text)
    return [name for name in sorted(known) if file.fingerprint(name) != known[name]]


def _pieces(body: Iterable[ast.AST], prefix: str) -> Iterator[tuple[str, _Function | ast.ClassDef]]:
    """Functions and classes, which stand among statements alone: most of a tree is expressions."""
    for statement in body:
        inside = prefix
        if isinstance(statement, _Function | ast.ClassDef):
            inside = f"{prefix}{statement.name}."
            yield f"{prefix}{statement.name}", statement
        for block in _BLOCKS:
            yield from _pieces(getattr(statement, block, ()), inside)


def _drop_docstring(piece: _Function | ast.ClassDef) -> None:
    if ast.get_docstring(piece, clean=False) is not None:
        piece.body = piece.body[1:] or [ast.Pass()]


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """A module's statements, those inside ``if`` and ``try`` too."""
    for statement in body:
        if isinstance(statement, ast.If | ast.Try):
            yield from _statements([*statement.body, *statement.orelse])
        else:
            yield statement


def _imports(statement: ast.Import | ast.ImportFrom) -> dict[str, Imported]:
    if isinstance(statement, ast.ImportFrom):
        return {
            alias.asname or alias.name: Imported(statement.module or "", statement.level, alias.name)
            for alias in statement.names
        }
    # `import a.b` binds a; only `import a` and `import a.b as c` say whose attribute is read.
    return {
        alias.asname or alias.name: Imported(alias.name, 0, "")
        for alias in statement.names
        if alias.asname or "." not in alias.name
    }


def _names(node: ast.AST, context: type[ast.expr_context]) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, context):
            yield inner.id


def _own_names(node: ast.AST) -> set[str]:
    """Parameters and locals of a function: names that are none of the file's."""
    if not isinstance(node, _Function):
        return set()
    ours = {name for inner in ast.walk(node) if isinstance(inner, ast.Global) for name in inner.names}
    parameters = {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
    return parameters | (set(_names(node, ast.Store)) - ours)


def _outline(node: ast.ClassDef) -> ast.ClassDef:
    """A class without its functions and classes, which are pieces of their own."""
    body = [item for item in node.body if not isinstance(item, _Function | ast.ClassDef)]
    outline = ast.ClassDef(node.name, node.bases, node.keywords, body or [ast.Pass()], node.decorator_list)
    return ast.copy_location(outline, node)


def _fingerprint(*nodes: ast.AST) -> str:
    # Unparsed and not dumped: the text of a tree changes less between Pythons than its fields.
    return hashlib.sha256("\n".join(map(ast.unparse, nodes)).encode()).hexdigest()[:_DIGITS]


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
    fingerprints: dict[str, dict[str, str]] = {}
    for file in sorted(wanted):
        prints = {name: read[file].fingerprint(name) for name in sorted(wanted[file])}
        pieces = {name: digest for name, digest in prints.items() if digest is not None}
        if pieces:
            fingerprints[in_project(file)] = pieces
    return fingerprints


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
        for candidate in (target.with_suffix(".py"), target / "__init__.py"):
            if parts and candidate.is_file() and candidate.is_relative_to(root):
                return str(candidate)
    return None
