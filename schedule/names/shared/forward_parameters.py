"""What the user's forward() calls the tensors that a module is given.

The statements that read a tensor tell: ``self.k_proj(current_states)`` what the projection is given, any other one the
parameter that it names, unless that was assigned before and may be another tensor by then. Where a module is given one
tensor alone, and other modules read it first, it is the first parameter: what a layer is called with comes first.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from longhand.capture.graph import Provenance
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.dimensions.stated_sizes import function_of


def words_of_forward(readers: Mapping[str, Iterable[str]], path: str, words: BufferNamer) -> dict[str, str]:
    """By tensor: the parameter of a module's forward() that it is, where that is sure.

    Args:
        readers: What the module is given, its weights left out: by name the nodes that read it.
        path: The module.
        words: The captured graph's.
    """
    inside = {
        name: [
            origin
            for node in nodes
            if node in words.nodes and _is_inside(origin := words.origins.of(words.nodes[node]), path)
        ]
        for name, nodes in readers.items()
    }
    place = _forward_of([origin for origins in inside.values() for origin in origins], path)
    if place is None:
        return {}
    parameters = _parameters(*place)
    named = {
        name: [_named_by(origin, path, place, parameters) for origin in origins]
        for name, origins in inside.items()
    }
    told = {name: set[str]().union(*some) for name, some in named.items()}
    parameter_of: dict[str, str] = {}
    while sure := [name for name, some in told.items() if len(some) == 1]:  # what is one is no other
        parameter_of[sure[0]] = word = told.pop(sure[0]).pop()
        told = {name: some - {word} for name, some in told.items()}
    # Of the others, what all statements name that read it: ``keys``, which is written to, then attended to.
    common = {name: told[name].intersection(*filter(None, named[name])) for name in told}
    claimed = Counter(word for some in common.values() for word in some)
    parameter_of |= {
        name: word for name, some in common.items() if len(some) == 1 and claimed[word := min(some)] == 1
    }
    if not parameter_of and len(readers) == 1 and parameters:
        parameter_of = dict.fromkeys(readers, parameters[0])
    return parameter_of


def users_of(buffers: Iterable[str], words: BufferNamer) -> dict[str, list[str]]:
    """By buffer the nodes of the graph that read it."""
    known = {name: words.nodes[name] for name in buffers if name in words.nodes}
    return {name: [user.name for user in node.users] for name, node in known.items()}


def _is_inside(origin: Provenance, path: str) -> bool:
    return not origin.differentiates and any(one == path for one, _ in origin.around)


def _forward_of(origins: Sequence[Provenance], path: str) -> tuple[str, str] | None:
    """The file and the name of the forward() that the module runs, which it may have from another class."""
    own = Counter(
        (origin.file, origin.qualname)
        for origin in origins
        if origin.file and origin.qualname.endswith(".forward") and _is_of(origin, path)
    )
    if own:
        return max(own, key=lambda one: own[one])
    # None of its statements reads anything itself: the class that stands in the file of a module inside it.
    for origin in origins:
        kind = dict(origin.around).get(path)
        if kind and origin.file and function_of(origin.file, f"{kind}.forward") is not None:
            return origin.file, f"{kind}.forward"
    return None


def _is_of(origin: Provenance, path: str) -> bool:
    """Whether the statement is the module's own, which may call a layer of PyTorch's."""
    kind = dict(origin.around).get(path, "")
    return origin.module == path or origin.qualname == f"{kind}.forward"


def _named_by(origin: Provenance, path: str, place: tuple[str, str], parameters: Sequence[str]) -> set[str]:
    """The names for what a statement of the function reads: what a part is called with, or else its parameters."""
    if (origin.file, origin.qualname) != place:
        return set()
    try:
        tree = ast.parse(origin.statement)
    except SyntaxError:  # the head of an if, say
        return set()
    part = f"self.{origin.module.removeprefix(f'{path}.')}"
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == part]
    before = {word for word, line in _assigned(*place) if line < origin.line}
    stale = before.intersection(parameters)
    if len(calls) == 1 and len(calls[0].args) == 1 and isinstance(calls[0].args[0], ast.Name):
        return {calls[0].args[0].id} - stale
    return _read(calls[0] if len(calls) == 1 else tree).intersection(parameters) - stale


def _read(tree: ast.AST) -> set[str]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {node.id for node in nodes if isinstance(node.ctx, ast.Load)}


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
