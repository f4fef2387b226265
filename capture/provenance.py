"""Gives each node the user's words: the statement it came from, the local it became, the module it belongs to.

torch records a stack for each traced call. Of its frames the innermost that is the user's counts (not torch's, not
ours, not of a notation for tensors such as einops); where there is none, a bare nn.Sequential say, torch's own module
code is quoted. A *run* is one execution of a statement: neighbouring nodes that share the frames down to it. The value
of an assignment is the node of its run that later statements use.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import operator
import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture.frontends.dynamo_run import note_of
from longhand.capture.functionalize.view_nodes import is_view
from longhand.capture.graph import Provenance
from longhand.capture.source import Assigned, Overwrites, Statement, lambda_at, statement_at

_FRAME = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>\S+)')
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_MODULES = os.path.join(_TORCH, "nn", "modules") + os.sep

# Notation for torch's operations, no code of a model: who writes rearrange() reads that, as with torch's own functions.
_NOTATION = re.compile(r"[/\\](?:einops|opt_einsum)[/\\]")

# What a tensor is whose items were written: elsewhere the value is that of the items.
_WRITES = frozenset(
    {
        "index_put",
        "slice_scatter",
        "select_scatter",
        "diagonal_scatter",
        "masked_scatter",
        "_unsafe_index_put",
    }
)
_OPERATORS: dict[type, tuple[str, ...]] = {
    ast.Add: ("add",),
    ast.Sub: ("sub", "rsub"),
    ast.Mult: ("mul",),
    ast.Div: ("div", "reciprocal"),
    ast.MatMult: ("matmul", "mm", "bmm"),
    ast.Pow: ("pow", "square"),
    ast.FloorDiv: ("floor_divide", "div"),
    ast.Mod: ("remainder",),
    ast.BitAnd: ("bitwise_and", "logical_and"),
    ast.BitOr: ("bitwise_or", "logical_or"),
}


@dataclasses.dataclass(frozen=True)
class StackLevel:
    """One level of a node's stack: a statement in a function."""

    file: str
    statement: Statement
    function: str


def assign_provenance(graph: fx.Graph, root_class: str) -> None:
    """Sets ``meta["provenance"]`` of every node from its traced stack and module stack.

    Args:
        root_class: The class of the captured module; empty for a function.
    """
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    frames = {node: user_frames(node.meta.get("stack_trace") or "") for node in nodes}
    locals_ = _locals(nodes, frames)
    for node in graph.nodes:
        around = _modules(node)
        module, module_class = around[-1] if around else ("", "")
        if not module:
            module_class = root_class
        checkpoint = note_of(node.meta.get("traced")).checkpoint
        if not frames.get(node):
            node.meta["provenance"] = Provenance(
                module=module, module_class=module_class, checkpoint=checkpoint, around=around
            )
            continue
        frame = frames[node][-1]
        node.meta["provenance"] = Provenance(
            statement=frame.statement.text,
            qualname=frame.statement.qualname,
            file=frame.file,
            line=frame.statement.line,
            local=locals_.get(node),
            module=module,
            module_class=module_class,
            checkpoint=checkpoint,
            around=around,
        )


def remarked(provenance: Provenance, remark: str) -> Provenance:
    """The provenance with one remark more."""
    said = f"{provenance.remark}; {remark}" if provenance.remark else remark
    return dataclasses.replace(provenance, remark=said)


def user_frames(stack_trace: str) -> tuple[StackLevel, ...]:
    """The user's frames of a printed stack, outermost first; torch's module code where there are none."""
    every: list[tuple[str, int, str]] = []
    for match in filter(None, map(_FRAME.match, stack_trace.splitlines())):
        file = os.path.abspath(match["file"])
        if file.startswith(_OURS) or match["file"].startswith("<eval_with_key>"):
            continue
        every.append((file, int(match["line"]), match["function"]))
    users = [frame for frame in every if not frame[0].startswith(_TORCH)]
    users = [frame for frame in users if not _NOTATION.search(frame[0])] or users
    modules = [frame for frame in every if frame[0].startswith(_MODULES)]
    return tuple(_level(*frame) for frame in users or modules)


def _level(file: str, line: int, function: str) -> StackLevel:
    read = lambda_at if function == "<lambda>" else statement_at
    return StackLevel(file, read(file, line) or Statement("", function, line, (), False), function)


def _modules(node: fx.Node) -> tuple[tuple[str, str], ...]:
    """(dotted path, class name) of the modules that a node stands in, outermost first, without the root."""
    stack = node.meta.get("nn_module_stack") or {}
    named = (
        (dotted_path(path), kind.__name__ if isinstance(kind, type) else str(kind).rsplit(".", 1)[-1])
        for path, kind in stack.values()
    )
    return tuple((path, word) for path, word in named if path)


def as_attributes(path: str) -> str:
    """``L['self']._modules`` of ``L['self'].__dict__['_modules']``, as a class's own ``__getattr__`` finds it."""
    return re.sub(r"\.__dict__\[['\"](\w+)['\"]\]", r".\1", path)


@functools.lru_cache(maxsize=4096)  # of a model's few hundred modules, each node names all that it stands in
def dotted_path(path: str) -> str:
    """``blocks.0.attn`` of ``L['self']._modules['blocks'][0].attn`` and the like."""
    path = re.sub(r"^[LG]\[['\"]\w+['\"]\]", "", as_attributes(path))
    path = re.sub(r"\._(?:modules|parameters|buffers)(?=\[)", "", path)
    path = re.sub(r"\[['\"]?([^'\"\]]+)['\"]?\]", r".\1", path)
    return path.removeprefix("L__self__").lstrip(".")


def _locals(nodes: list[fx.Node], frames: dict[fx.Node, tuple[StackLevel, ...]]) -> dict[fx.Node, str]:
    """The local that each node's value is assigned to."""
    names: dict[fx.Node, str] = {}
    done: set[fx.Node] = set()
    for start, node in enumerate(nodes):
        stack = frames[node]
        if node in done or not stack:
            continue
        run = _run(nodes, start, frames, stack)
        own = [member for member in run if len(frames[member]) == len(stack)]
        done.update(own)
        if stack[-1].function != "<lambda>":
            _name_run(own, set(run), stack[-1].statement, names)
    for place, node in enumerate(nodes):
        if node not in names and len(frames[node]) > 1:
            _name_returned(place, nodes, frames, names)
    _name_by_callers(nodes, frames, names)
    return names


def _name_by_callers(
    nodes: list[fx.Node], frames: dict[fx.Node, tuple[StackLevel, ...]], named: dict[fx.Node, str]
) -> None:
    """Names by its callers what a function calls the same for all of them: cos and sin, not freq_hw.

    Such is a value of which the function returns another view, where a module calls it several times.
    """
    places = {
        node: (frames[node][-1].file, frames[node][-1].statement.line, _modules(node), name)
        for node, name in named.items()
    }
    counts = Counter(places.values())
    for node in nodes:
        if node not in named or len(frames[node]) < 2 or not frames[node][-1].statement.returns:
            continue
        source = node
        while source is node or source not in named:
            if not is_view(source) or not isinstance(source.args[0], fx.Node):
                break
            source = source.args[0]
        is_own = source is not node and frames.get(source, ())[:-1] == frames[node][:-1]
        if is_own and len(source.users) == 1 and source in places and counts[places[source]] > 1:
            named[source] = named[node]


def _name_returned(
    place: int, nodes: list[fx.Node], frames: dict[fx.Node, tuple[StackLevel, ...]], named: dict[fx.Node, str]
) -> None:
    """Names a value that a function returns without having named it: by what its caller's statement assigns."""
    stack = frames[nodes[place]]
    for depth in range(len(stack) - 1, 0, -1):
        if not stack[depth].statement.returns:
            return
        assigned = [
            part for part in stack[depth - 1].statement.assigned if part.changes is Overwrites.NOTHING
        ]
        if not assigned:
            continue
        run = _run_around(place, nodes, frames, stack[:depth])
        members = set(run)
        escaping = [node for node in run if any(user not in members for user in node.users)]
        names = assigned[0].names if len(assigned) == 1 else tuple(part.names[0] for part in assigned)
        if nodes[place] in escaping and len(escaping) == len(names):
            name = names[escaping.index(nodes[place])]
            if name is not None:
                named[nodes[place]] = name
        return


def _run_around(
    place: int,
    nodes: list[fx.Node],
    frames: dict[fx.Node, tuple[StackLevel, ...]],
    stack: tuple[StackLevel, ...],
) -> list[fx.Node]:
    """The neighbours of a node, before and after it, that run under the same statement.

    Of a loop over a list of modules only the turn of the node's own: the statement is the same in all of them.
    """
    first = place
    while first > 0 and frames[nodes[first - 1]][: len(stack)] == stack:
        first -= 1
    run = _run(nodes, first, frames, stack)
    for depth, (path, _) in enumerate(_modules(nodes[place])):
        turns = {node: [inside for inside, _ in _modules(node)[depth : depth + 1]] for node in run}
        if all(turn == [path] for turn in turns.values()):
            continue
        if all(turn and _are_listed(turn[0], path) for turn in turns.values()):
            return [node for node in run if turns[node] == [path]]
        break
    return run


def _are_listed(one: str, other: str) -> bool:
    """Whether the modules of two paths stand in one list."""
    (owner, _, position), (of, _, place) = one.rpartition("."), other.rpartition(".")
    return owner == of and position.isdigit() and place.isdigit()


def _run(
    nodes: Sequence[fx.Node],
    first: int,
    frames: dict[fx.Node, tuple[StackLevel, ...]],
    stack: tuple[StackLevel, ...],
) -> list[fx.Node]:
    """The nodes from the first on that run under the same execution of the innermost statement of `stack`."""
    members = []
    for place in range(first, len(nodes)):
        node = nodes[place]
        if frames[node][: len(stack)] != stack:
            if not frames[node]:
                continue
            break
        members.append(node)
    return members


def _name_run(own: list[fx.Node], run: set[fx.Node], statement: Statement, named: dict[fx.Node, str]) -> None:
    escaping = [node for node in own if any(user not in run for user in node.users)]
    assigned = statement.assigned
    if len(assigned) == 1:
        names = assigned[0].names
        if assigned[0].changes is not Overwrites.NOTHING:
            _name_changed(escaping, assigned[0], named)
        elif assigned[0].unpacks:
            _name_items(own, escaping, names, named)
        elif names[0] is not None:
            for node in _values(own, escaping, assigned[0].value):
                named[node] = names[0]
    elif assigned and len(escaping) == len(assigned):
        for node, part in zip(escaping, assigned, strict=True):
            _name_one(node, part, named)


def _name_changed(escaping: list[fx.Node], part: Assigned, named: dict[fx.Node, str]) -> None:
    """The value after a write is what the user's variable is from then on; before it, it may be anything."""
    for node in escaping[-1:]:
        if part.names[0] is not None and (part.changes is Overwrites.ALL or _op_name(node) in _WRITES):
            named[node] = part.names[0]


def _name_one(node: fx.Node, part: Assigned, named: dict[fx.Node, str]) -> None:
    if not part.unpacks and part.names[0] is not None and part.changes is Overwrites.NOTHING:
        named[node] = part.names[0]


def _name_items(
    own: list[fx.Node], escaping: list[fx.Node], names: tuple[str | None, ...], named: dict[fx.Node, str]
) -> None:
    """Names the items that a statement unpacks: by the item's number where it shows, else by order."""
    items = [node for node in own if node.target is operator.getitem and isinstance(node.args[1], int)]
    values = [node for node in escaping if node.target is not operator.getitem]
    if items and not values:
        for node in items:
            position: Any = node.args[1]
            name = names[position] if position < len(names) else None
            if name is not None:
                named[node] = name
        return
    if len(escaping) == len(names):
        for node, name in zip(escaping, names, strict=True):
            if name is not None:
                named[node] = name


def _values(own: list[fx.Node], escaping: list[fx.Node], value: ast.expr) -> list[fx.Node]:
    """The nodes that are the assigned value: one, or one for each turn of a loop around the statement."""
    if not escaping:
        return []
    wanted = _op_names(value)
    if wanted:
        alike = sum(1 for part in ast.walk(value) if _op_names(part) == wanted)
        matches = [node for node in own if _op_name(node) in wanted]
        every = matches[alike - 1 :: alike]
        if matches and len(matches) % alike == 0 and set(escaping) <= set(every):
            return every
    return escaping[-1:]


def _op_names(expression: ast.AST) -> tuple[str, ...]:
    """The ATen names that an expression's outermost operation may have."""
    match expression:
        case ast.BinOp(op=op):
            return _OPERATORS.get(type(op), ())
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return (name, f"_{name}")
    return ()


def _op_name(node: fx.Node) -> str:
    target = node.target
    return target._schema.name.split("::")[1] if isinstance(target, torch._ops.OpOverload) else ""


def assigned_name(node: fx.Node) -> str | None:
    """The one name that the statement of a traced node assigns, if it is that simple."""
    frames = user_frames(node.meta.get("stack_trace") or "")
    assigned = frames[-1].statement.assigned if frames else ()
    is_one = len(assigned) == 1 and not assigned[0].unpacks and assigned[0].changes is Overwrites.NOTHING
    return assigned[0].names[0] if is_one else None
