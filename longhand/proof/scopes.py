"""What a function of a Python text binds and may read, and which name a kernel gives to two things.

A value that takes the place of a parameter, an offset or a base: a kernel has one scope for all of them.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def names_of_scope(arguments: ast.arguments | None, body: Iterable[ast.stmt]) -> tuple[set[str], set[str]]:
    """What a function (or module) binds itself, and what functions and classes inside a function mention.

    These may read any definition of a name, at any time. Of a module nobody asks for that: all of it would be walked.
    """
    is_function = arguments is not None
    bound_names = set(parameter_names(arguments)) if arguments is not None else set()
    elsewhere: set[str] = set()
    captured: set[str] = set()
    for node in _own_nodes(body):
        match node:
            case ast.Name(id=name):
                if not isinstance(node.ctx, ast.Load):
                    bound_names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound_names.add(name)
                captured |= _mentioned([node]) if is_function else set()
            case ast.Lambda() if is_function:
                captured |= _mentioned([node])
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() if is_function:
                captured |= _mentioned(part for part in ast.walk(node) if isinstance(part, ast.Lambda))
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                bound_names.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                bound_names |= {alias.asname or alias.name.partition(".")[0] for alias in names}
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                elsewhere |= set(names)
    return bound_names - elsewhere, captured


def dropped_fields(body: Iterable[ast.stmt]) -> set[str]:
    """What a function drops of objects: ``saved.x`` of ``del saved.x``."""
    fields = (node for node in _own_nodes(body) if isinstance(node, ast.Attribute))
    return {dotted(node) for node in fields if isinstance(node.ctx, ast.Del)} - {""}


def dotted(node: ast.expr) -> str:
    """``saved.layer.x``; empty of an expression that is no chain of names."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name) if owner := dotted(value):
            return f"{owner}.{name}"
    return ""


def _mentioned(nodes: Iterable[ast.AST]) -> set[str]:
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


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


def functions_in(body: Iterable[ast.AST]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function among these statements and inside them, but for lambdas: they stand among statements alone."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from functions_in(getattr(statement, block, ()))


def child_nodes(node: ast.AST) -> list[ast.AST]:
    """The nodes that a node holds, in order, without operators and contexts, which hold nothing."""
    children: list[ast.AST] = []
    for field in node._fields:
        if field not in ("ctx", "op", "ops"):
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                children.append(value)
            elif isinstance(value, list):
                children += [one for one in value if isinstance(one, ast.AST)]
    return children


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of the scopes inside it; in whatever order."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*node.decorator_list, *defaults_of(node.args)]
        elif isinstance(node, ast.ClassDef):
            waiting += [*node.decorator_list, *node.bases]
        elif isinstance(node, ast.Lambda):
            waiting += defaults_of(node.args)
        elif isinstance(node, _COMPREHENSIONS):
            # Its targets are its own; `:=` inside it binds outside.
            for part in ast.walk(node):
                if isinstance(part, ast.NamedExpr):
                    yield part.target
        else:
            waiting += child_nodes(node)


def has_items(iterated: ast.expr) -> bool:
    """Whether a loop is walked at least once: over layers that a unit holds, or a range of numbers that are there."""
    match iterated:
        case ast.Call(ast.Name("range"), [*given]) if all(isinstance(one, ast.Constant) for one in given):
            return len(range(*(one.value for one in given))) > 0  # type: ignore[attr-defined]
        # The layers from the fourth on: a unit that has such a loop was written for layers that there are.
        case ast.Call(ast.Name("range"), [*_, ast.Call(ast.Name("len"), [held])]):
            return has_items(held)
        case ast.Call(ast.Name("zip"), [first, *_], [ast.keyword("strict", ast.Constant(True))]):
            return has_items(first)
        case ast.Attribute() | ast.Subscript():
            owner: ast.expr = iterated
            while isinstance(owner, ast.Attribute | ast.Subscript):
                owner = owner.value
            return isinstance(owner, ast.Name) and owner.id == "self"
    return False


def defaults_of(arguments: ast.arguments) -> list[ast.expr]:
    return [default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None]


@dataclasses.dataclass(frozen=True, order=True)
class Fault:
    """One thing that is wrong with a text.

    Attributes:
        path: The file, relative to the unit.
        line: Counted from 1.
        name: What it is about.
        what: In words, the name included.
        is_harmless: It is untidy, and changes nothing of what the text computes.
    """

    path: str
    line: int
    name: str
    what: str
    is_harmless: bool = False

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def kernel_faults(path: str, tree: ast.Module) -> list[Fault]:
    """Every name that a kernel, or the function that launches it, gives twice."""
    faults: list[Fault] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name != "reference":
            faults += _parameter_faults(path, node)
            if _is_kernel(node):
                faults += _block_faults(path, node.body, {})
    return faults


def _is_kernel(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(decorator).endswith("triton.jit") for decorator in node.decorator_list)


def _parameter_faults(path: str, node: ast.FunctionDef) -> Iterator[Fault]:
    given = set(parameter_names(node.args))
    widened = {
        target
        for part in ast.walk(node)
        if isinstance(part, ast.Assign)
        for target in part.targets
        if isinstance(target, ast.Name) and _is_widened(target.id, part.value)
    }
    for part in ast.walk(node):
        if not isinstance(part, ast.Name) or not isinstance(part.ctx, ast.Store) or part in widened:
            continue
        if part.id in given:
            words = f"`{part.id}` is a parameter of {node.name}, and another value is given its name"
            yield Fault(path, part.lineno, part.id, words)


def _is_widened(name: str, value: ast.expr) -> bool:
    """Whether a value is the parameter itself in another type: ``n_cols = tl.cast(n_cols, tl.int64)``."""
    return isinstance(value, ast.Call) and ast.unparse(value).startswith(f"tl.cast({name}, ")


def _block_faults(path: str, body: Iterable[ast.stmt], outer: dict[str, ast.stmt]) -> list[Fault]:
    """Assignments in a block of a name that the block, or one around it, has given to something else before."""
    faults: list[Fault] = []
    known = dict(outer)
    reads: dict[str, set[str]] = {}  # what each name of this block is computed from, also through others
    for statement in body:
        if isinstance(statement, ast.Assign):
            sources = _names(statement.value, ast.Load)
            sources |= {deep for name in sources for deep in reads.get(name, ())}
            for target in statement.targets:
                for name in sorted(_names(target, ast.Store)):
                    before = known.get(name)
                    if before is not None and name not in sources and not _is_same(before, statement):
                        words = f"`{name}` has two meanings here: before in line {before.lineno}"
                        faults.append(Fault(path, statement.lineno, name, words))
                    known[name] = statement
                    reads[name] = sources
        for inner in (getattr(statement, field, []) for field in ("body", "orelse")):
            faults += _block_faults(path, inner, known)
    return faults


def _is_same(one: ast.stmt, other: ast.stmt) -> bool:
    return ast.unparse(one) == ast.unparse(other)


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {
        part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, context)
    }
