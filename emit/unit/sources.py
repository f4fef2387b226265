"""Fingerprints of the model's code, kept in the lock: how `load` sees, without running it, that a model changed.

Told are the functions that the kernels quote, and what these use of their file: the class around them with its
`__init__`, methods called on `self`, other functions, base classes, values at the top level. A piece counts as its
code does: comments, docstrings and layout do not.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping

_DIGITS = 12
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
class SourceFile:
    """The pieces of a Python file, by dotted name.

    Attributes:
        functions: ``Net.forward``; functions inside functions too.
        classes: ``Net``.
        values: The statements that bind a name at the top level.
        imports: What a name at the top level stands for elsewhere; a module where `Imported.name` is empty.
    """

    functions: Mapping[str, _Function]
    classes: Mapping[str, ast.ClassDef]
    values: Mapping[str, tuple[ast.stmt, ...]]
    imports: Mapping[str, Imported]

    @staticmethod
    def of(text: str) -> SourceFile:
        """Reads a file; one without pieces where it is no Python."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.Module([], [])
        pieces = dict(_pieces(tree, ""))
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
        found: set[str] = set()
        taken: set[Imported] = set()
        waiting = [name.replace("<locals>.", "") for name in names]
        while waiting:
            name = waiting.pop()
            if name in found or not self._has(name):
                continue
            found.add(name)
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
        return found, taken

    def fingerprint(self, name: str) -> str | None:
        """Of one piece; None if the file does not have it."""
        if name in self.functions:
            return _fingerprint(self.functions[name])
        if name in self.classes:
            return _fingerprint(_outline(self.classes[name]))
        if name in self.values:
            return _fingerprint(*self.values[name])
        return None

    def _has(self, name: str) -> bool:
        return name in self.functions or name in self.classes or name in self.values

    def _used_by(self, name: str) -> Iterator[str | Imported]:
        """The names of pieces that a piece reads; some may not be there."""
        nodes: tuple[ast.AST, ...]
        if name in self.functions:
            nodes = (self.functions[name],)
        else:
            nodes = (_outline(self.classes[name]),) if name in self.classes else self.values[name]
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


def fingerprints(text: str, names: Iterable[str]) -> dict[str, str]:
    """A fingerprint for each named function of a file (``Attention.forward``), and for what it uses there.

    Names that the file does not have, and lambdas, are left out; so is everything where it is no Python.
    """
    file = SourceFile.of(text)
    reached, _ = file.reached_from(names)
    found = {name: file.fingerprint(name) for name in sorted(reached)}
    return {name: digest for name, digest in found.items() if digest is not None}


def changed_functions(text: str, known: Mapping[str, str]) -> list[str]:
    """Which of these pieces are gone from a file, or are not as they were."""
    file = SourceFile.of(text)
    return [name for name in sorted(known) if file.fingerprint(name) != known[name]]


def _pieces(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Function | ast.ClassDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function | ast.ClassDef):
            yield f"{prefix}{child.name}", child
            yield from _pieces(child, f"{prefix}{child.name}.")
        else:
            yield from _pieces(child, prefix)


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
    words = []
    for node in nodes:
        for inner in ast.walk(node):
            if (
                isinstance(inner, _Function | ast.ClassDef)
                and ast.get_docstring(inner, clean=False) is not None
            ):
                inner.body = inner.body[1:] or [ast.Pass()]
        # Unparsed and not dumped: the text of a tree changes less between Pythons than its fields.
        words.append(ast.unparse(node))
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:_DIGITS]
