"""Globals that are as fixed as the code that reads them: numbers and texts that a module's source sets once."""

from __future__ import annotations

import ast
import inspect
import sys
from typing import Any

__all__ = ["is_settled"]

_FIXED = (bool, int, float, str, bytes, type(None))


def is_settled(names: dict[str, Any], name: str) -> bool:
    """Whether a global is such a value: one assignment at the module's top level, and no function that sets it."""
    module = sys.modules.get(names.get("__name__", ""))
    if module is None or vars(module) is not names or type(names[name]) not in _FIXED:
        return False
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return False
    set_by_functions = {one for node in ast.walk(tree) if isinstance(node, ast.Global) for one in node.names}
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    is_set = [target for statement in tree.body for target in _targets(statement) if target == name]
    return len(is_set) == 1 and name not in set_by_functions and not called & {"globals", "exec", "setattr"}


def _targets(statement: ast.stmt) -> list[str]:
    """The names that a statement of a module sets; none in the functions and classes that it defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    return [
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
