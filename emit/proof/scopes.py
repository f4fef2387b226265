"""What a function of a Python text binds itself, what it is given, and what functions inside it may read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def local_names(arguments: ast.arguments | None, body: Iterable[ast.stmt]) -> set[str]:
    """What a function (or module) binds itself."""
    found = set(parameter_names(arguments)) if arguments is not None else set()
    elsewhere: set[str] = set()
    for node in _own_nodes(body):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {alias.asname or alias.name.partition(".")[0] for alias in names}
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                elsewhere |= set(names)
    return found - elsewhere


def parameter_names(arguments: ast.arguments) -> list[str]:
    """All of them, in order."""
    listed = [
        *arguments.posonlyargs,
        *arguments.args,
        arguments.vararg,
        *arguments.kwonlyargs,
        arguments.kwarg,
    ]
    return [argument.arg for argument in listed if argument is not None]


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of the scopes inside it."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _own_nodes([*node.decorator_list, *defaults_of(node.args)])
        elif isinstance(node, ast.ClassDef):
            yield from _own_nodes([*node.decorator_list, *node.bases])
        elif isinstance(node, ast.Lambda):
            yield from _own_nodes(defaults_of(node.args))
        elif isinstance(node, _COMPREHENSIONS):
            # Its targets are its own; `:=` inside it binds outside.
            yield from (part for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
            yield from (part.target for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
        else:
            yield from _own_nodes(ast.iter_child_nodes(node))


def captured_names(body: Iterable[ast.stmt]) -> set[str]:
    """What functions and classes inside a scope mention: they may read any definition of it, at any time."""
    inner = [
        node
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef))
    ]
    return {part.id for node in inner for part in ast.walk(node) if isinstance(part, ast.Name)}


def has_items(iterated: ast.expr) -> bool:
    """Whether a loop is walked at least once: over layers that a unit holds, or a range of numbers that are there."""
    match iterated:
        case ast.Call(ast.Name("range"), [*given]) if all(isinstance(one, ast.Constant) for one in given):
            return len(range(*(one.value for one in given))) > 0  # type: ignore[attr-defined]
        case ast.Attribute() | ast.Subscript():
            owner: ast.expr = iterated
            while isinstance(owner, ast.Attribute | ast.Subscript):
                owner = owner.value
            return isinstance(owner, ast.Name) and owner.id == "self"
    return False


def defaults_of(arguments: ast.arguments) -> list[ast.expr]:
    return [default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None]
