"""Methods that call the model itself, such as ``generate`` of a language model: a compiled module's run in eager.

What is compiled is the call of the compiled module. Its other methods are the original's, and ``self(x)`` in them is
the original's call. That must not be silent.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
import warnings
from typing import TypeGuard

from torch import nn

from longhand.errors import EagerWarning

_looked_at: set[tuple[type, str]] = set()


def tell_of_loop(module: nn.Module, method: object) -> None:
    """Warns, once for each method of a class, where a module's method calls the module.

    Args:
        module: The original.
        method: What was asked of the compiled module.
    """
    if not isinstance(method, types.MethodType) or method.__self__ is not module:
        return
    name = method.__name__
    if name.startswith("_") or hasattr(nn.Module, name):
        return
    owner = type(module)
    if (owner, name) in _looked_at:
        return
    _looked_at.add((owner, name))
    if where := _own_call(owner, name):
        kind = owner.__name__
        warnings.warn(
            f"longhand: {kind}.{name} is the original's, and calls the original in eager ({where}). Compile the step "
            f"instead: model.forward = longhand.compile(model.forward), then model.{name}(...).",
            EagerWarning,
            stacklevel=3,
        )


def _own_call(owner: type, name: str) -> str:
    """``file:line`` of the first call of the module itself that a method may reach; empty if there is none."""
    waiting, seen = [name], set()
    while waiting:
        name = waiting.pop(0)
        member = getattr(owner, name, None)
        function = inspect.unwrap(member) if callable(member) else None
        if name in seen or not isinstance(function, types.FunctionType) or hasattr(nn.Module, name):
            continue
        seen.add(name)
        try:
            lines, first = inspect.getsourcelines(function)
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError):
            continue
        me = next(iter(function.__code__.co_varnames[: function.__code__.co_argcount]), "self")
        for node in ast.walk(tree):
            if _is_own_call(node, me):
                return f"{function.__code__.co_filename}:{first + node.lineno - 1}"
            if isinstance(node, ast.Attribute) and _is(node.value, me):
                waiting.append(node.attr)
            elif _is_any_method(node, me):
                waiting += [each for kind in owner.__mro__ if kind is not nn.Module for each in vars(kind)]
    return ""


def _is(node: ast.AST, me: str) -> bool:
    return isinstance(node, ast.Name) and node.id == me


def _is_own_call(node: ast.AST, me: str) -> TypeGuard[ast.expr]:
    """``self(x)``, ``self.forward(x)``, or ``self.__call__`` under whatever name."""
    if isinstance(node, ast.Call):
        own = node.func
        is_forward = isinstance(own, ast.Attribute) and own.attr == "forward" and _is(own.value, me)
        return is_forward or _is(own, me)
    return isinstance(node, ast.Attribute) and node.attr == "__call__" and _is(node.value, me)


def _is_any_method(node: ast.AST, me: str) -> bool:
    """``getattr(self, name)``, or of its type, with a name that the text does not say."""
    if not (isinstance(node, ast.Call) and _is(node.func, "getattr") and len(node.args) > 1):
        return False
    whose, name = node.args[:2]
    is_of_type = (
        isinstance(whose, ast.Call) and _is(whose.func, "type") and any(_is(a, me) for a in whose.args)
    )
    return (is_of_type or _is(whose, me)) and not isinstance(name, ast.Constant)
