"""Fingerprints of the model's functions, kept in the lock: how `load` sees, without running it, that a model changed.

A function counts as its code does: comments, docstrings and layout do not. With a method goes its class's `__init__`,
which decides what the method's parts are.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping

_DIGITS = 12
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def fingerprints(text: str, names: Iterable[str]) -> dict[str, str]:
    """A fingerprint for each named function of a file (``Attention.forward``), and for the `__init__` beside it.

    Names that the file does not have, and lambdas, are left out; so is everything where it is no Python.
    """
    try:
        functions = dict(_functions(ast.parse(text), ""))
    except (SyntaxError, ValueError):
        return {}
    wanted = set()
    for name in names:
        plain = name.replace("<locals>.", "")
        wanted |= {plain, f"{plain.rpartition('.')[0]}.__init__"}
    return {name: _fingerprint(functions[name]) for name in sorted(wanted & set(functions))}


def changed_functions(text: str, known: Mapping[str, str]) -> list[str]:
    """Which of these functions are gone from a file, or are not as they were."""
    now = fingerprints(text, known)
    return [name for name in sorted(known) if now.get(name) != known[name]]


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, child
            yield from _functions(child, f"{name}.")
        else:
            yield from _functions(child, prefix)


def _fingerprint(function: _Function) -> str:
    for node in ast.walk(function):
        if isinstance(node, _Function | ast.ClassDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    # Unparsed and not dumped: the text of a tree changes less between Pythons than its fields.
    return hashlib.sha256(ast.unparse(function).encode()).hexdigest()[:_DIGITS]
