"""What the user's forward() calls the tensors that a module is given.

Which of its parameters a tensor is, its statements tell: of one that reads the tensor, the parameter that it names. A
parameter that was assigned before may be another tensor by then. Where a module is given one tensor alone, and other
modules read it first, it is the first parameter: what a layer is called with comes first.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Sequence

from torch import fx

from longhand.capture.graph import Provenance
from longhand.schedule.names.buffer_names import BufferWords
from longhand.schedule.names.dimensions.stated_sizes import function_of


def words_of_forward(given: Sequence[str], path: str, words: BufferWords) -> dict[str, str]:
    """By buffer: the parameter of a module's forward() that it is, where that is sure.

    Args:
        given: What the module is given, its weights left out.
        path: The module.
        words: The captured graph's.
    """
    of = words.origins.of
    nodes = [words.nodes[name] for name in given if name in words.nodes]
    inside = {node: [user for user in node.users if _is_inside(of(user), path)] for node in nodes}
    place = _forward_of([user for users in inside.values() for user in users], path, words)
    if place is None:
        return {}
    parameters = _parameters(*place)
    told = {
        node.name: {word for user in users for word in _named_by(of(user), path, place, parameters)}
        for node, users in inside.items()
    }
    found: dict[str, str] = {}
    while sure := [name for name, some in told.items() if len(some) == 1]:  # what is one is no other
        found[sure[0]] = word = told.pop(sure[0]).pop()
        told = {name: some - {word} for name, some in told.items()}
    if not found and len(given) == len(nodes) == 1 and parameters:
        found[nodes[0].name] = parameters[0]
    return found


def _is_inside(origin: Provenance, path: str) -> bool:
    return not origin.differentiates and any(one == path for one, _ in origin.around)


def _forward_of(users: Sequence[fx.Node], path: str, words: BufferWords) -> tuple[str, str] | None:
    """The file and the name of the forward() that the module runs, which it may have from another class."""
    of = words.origins.of
    own = Counter(
        (origin.file, origin.qualname)
        for origin in map(of, users)
        if origin.file and origin.qualname.endswith(".forward") and _is_of(origin, path)
    )
    if own:
        return max(own, key=lambda one: own[one])
    # None of its statements reads anything itself: the class that stands in the file of a module inside it.
    for origin in map(of, users):
        kind = dict(origin.around).get(path)
        if kind and origin.file and function_of(origin.file, f"{kind}.forward") is not None:
            return origin.file, f"{kind}.forward"
    return None


def _is_of(origin: Provenance, path: str) -> bool:
    """Whether the statement is the module's own, which may call a layer of PyTorch's."""
    kind = dict(origin.around).get(path, "")
    return origin.module == path or origin.qualname == f"{kind}.forward"


def _named_by(origin: Provenance, path: str, place: tuple[str, str], parameters: Sequence[str]) -> set[str]:
    """The parameters that a statement of the function reads, those left out that were assigned before."""
    if (origin.file, origin.qualname) != place:
        return set()
    try:
        tree: ast.AST = ast.parse(origin.statement)
    except SyntaxError:  # the head of an if, say
        return set()
    part = origin.module.removeprefix(f"{path}.") if origin.module != path else ""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"self.{part}"
    ]
    read = {
        node.id
        for root in (calls if len(calls) == 1 else [tree])
        for node in ast.walk(root)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    before = {word for word, line in _assigned(*place) if line < origin.line}
    return {word for word in read if word in parameters and word not in before}


@functools.lru_cache(maxsize=256)
def _parameters(file: str, qualname: str) -> tuple[str, ...]:
    function = function_of(file, qualname)
    if not isinstance(function, ast.FunctionDef):
        return ()
    return tuple(one.arg for one in (*function.args.posonlyargs, *function.args.args))[1:]


@functools.lru_cache(maxsize=256)
def _assigned(file: str, qualname: str) -> tuple[tuple[str, int], ...]:
    """The names that the function assigns, each with its line."""
    function = function_of(file, qualname)
    return tuple(
        (node.id, node.lineno)
        for node in (ast.walk(function) if function is not None else ())
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
