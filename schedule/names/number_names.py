"""What the user calls a number: ``BETA2`` for 0.999, where a file of the model binds it so."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from longhand.lower.ir import Constant, Pointwise
from longhand.schedule.names.buffer_names import BufferWords
from longhand.schedule.names.words import is_macro
from longhand.schedule.plan import KernelPlan


def constant_words(plan: KernelPlan, words: BufferWords) -> dict[int, str]:
    """By position in the body: the user's name for a number, where its statement has one."""
    found: dict[int, str] = {}
    for position, value in enumerate(plan.body):
        if not isinstance(value, Constant) or value.name or not value.dtype.is_floating_point:
            continue
        users = [user for user in plan.body if isinstance(user, Pointwise) and position in user.args]
        for user in users:
            origin = words.provenance(user.origin)
            word = _named_numbers(origin.file, origin.statement).get(value.value)
            if word is not None:
                found.setdefault(position, word)
    return found


@functools.lru_cache(maxsize=1024)
def _named_numbers(file: str, statement: str) -> dict[float, str]:
    """By number: what a statement calls it."""
    try:
        tree = ast.parse(statement)
    except SyntaxError:  # the head of a compound statement
        return {}
    bound = _bound_numbers(file) if file else {}
    found: dict[float, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name in bound:
                found[bound[name]] = name
            case ast.BinOp(ast.Constant(1 | 1.0), ast.Sub(), ast.Name(id=name)) if name in bound:
                found[1 - bound[name]] = f"ONE_MINUS_{name}"
    return found


@functools.lru_cache(maxsize=64)
def _bound_numbers(file: str) -> dict[str, float]:
    """The names in capitals that a file binds to a fraction, once, at its top level."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    pairs = [pair for statement in tree.body for pair in _bindings(statement)]
    names = [name for name, _ in pairs]
    return {
        name: value.value
        for name, value in pairs
        if name.isupper()
        and name.isascii()
        and not is_macro(name)
        and names.count(name) == 1
        and isinstance(value, ast.Constant)
        and isinstance(value.value, float)
    }


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """``A, B = 1.0, 2.0`` gives both names with their values."""
    match statement:
        case ast.Assign([ast.Name(id=name)], value):
            yield name, value
        case ast.AnnAssign(ast.Name(id=name), _, ast.expr() as value):
            yield name, value
        case ast.Assign([ast.Tuple(elts=targets)], ast.Tuple(elts=values)) if len(targets) == len(values):
            for target, value in zip(targets, values, strict=True):
                if isinstance(target, ast.Name):
                    yield target.id, value
