"""Looks for a name that a kernel gives to two things: a value that takes the place of a parameter, an offset or a base.

Python lets an assignment take a parameter's name, and what reads the parameter afterwards reads the value: a kernel
that compiles and is wrong. In a Triton kernel every name means one thing; only what a loop carries on (``total +=
x``), or what each pass over a row computes again, is assigned a second time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from longhand.emit.proof.bindings import Fault, parameter_names


def kernel_faults(path: str, tree: ast.Module) -> list[Fault]:
    """Every name that a kernel, or the function that launches it, gives twice."""
    found: list[Fault] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name != "reference":
            found += _parameter_faults(path, node)
            if _is_kernel(node):
                found += _block_faults(path, node.body, {})
    return found


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
    found: list[Fault] = []
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
                        found.append(Fault(path, statement.lineno, name, words))
                    known[name] = statement
                    reads[name] = sources
        for inner in (getattr(statement, field, []) for field in ("body", "orelse")):
            found += _block_faults(path, inner, known)
    return found


def _is_same(one: ast.stmt, other: ast.stmt) -> bool:
    return ast.unparse(one) == ast.unparse(other)


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {
        part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, context)
    }
