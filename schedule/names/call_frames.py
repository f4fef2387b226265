"""Whose work a kernel is: the call of a function or module in which its operations stand, and their share in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import fx

from longhand.capture.graph import Provenance
from longhand.schedule.names.operation_names import SILENT, aten_name, op_word, provenance_of
from longhand.schedule.names.value_origins import without_positions
from longhand.schedule.names.words import without_counter

CallFrame = tuple[str, str]  # a function's qualname, and the path of the module that it was called in
_ESSENTIALLY_ALL = 0.8  # of the operations: an epsilon that is added elsewhere makes no difference

_ROWS = frozenset({"index", "index_select", "gather", "index_put", "index_add", "scatter_add"})


def _frame(origin: Provenance) -> CallFrame:
    """The function that holds the statement, which may call a layer of PyTorch's: that is nobody's code."""
    is_called = hasattr(torch.nn, origin.module_class) and origin.module_class not in origin.qualname.split(
        "."
    )
    outside = [path for path, kind in origin.around if path != origin.module and not hasattr(torch.nn, kind)]
    held_in = without_positions(origin.module).rpartition(".")[0]
    caller = (
        outside[-1] if outside else held_in
    )  # a layer that several modules hold is called in each of them
    return origin.qualname, caller if is_called else origin.module


def called_in(node: fx.Node) -> CallFrame:
    """The call of a function in which a node stands."""
    return _frame(provenance_of(node))


def frame_of(nodes: Sequence[fx.Node]) -> CallFrame | None:
    """The one function in which all of some nodes is done."""
    frames = {_frame(provenance_of(node)) for node in nodes if not op_word(node).silent}
    return frames.pop() if len(frames) == 1 else None


def frame_of_backward(nodes: Sequence[fx.Node]) -> CallFrame | None:
    """The call of a module below the model, or of a function, whose gradient most of some nodes are."""
    derived = [node for node in nodes if provenance_of(node).differentiates and not op_word(node).silent]
    frames = Counter(_frame(provenance_of(node)) for node in derived)
    frame = max(frames, key=lambda one: frames[one], default=("", ""))
    is_model = is_forward(frame) and not frame[1]
    return None if is_model or not frame[0] else frame


def own_origins(origins: Sequence[str], nodes: Mapping[str, fx.Node]) -> tuple[str, ...]:
    """What a kernel does of the user's work: without the counting of positions that something else is for, too."""
    inside = frozenset(origins)
    own = tuple(
        name
        for name in origins
        if (node := nodes.get(name)) is None
        or aten_name(node) != "arange"
        or all(user.name in inside for user in _read_by(node))
    )
    return own or tuple(origins)


def _read_by(node: fx.Node) -> list[fx.Node]:
    """What computes with a value, or with a view of it."""
    waiting, readers = list(node.users), list[fx.Node]()
    for user in waiting:  # grows
        if aten_name(user) in SILENT:
            waiting += user.users
        else:
            readers.append(user)
    return readers


def is_forward(frame: CallFrame) -> bool:
    """Whether a function is what calling a module runs."""
    return frame[0].rpartition(".")[2] in ("forward", "__call__")


def is_derivative(node: fx.Node) -> bool:
    """Whether a node is part of a derivative, and not of what is computed again for it."""
    return bool(provenance_of(node).differentiates)


def is_whole(frame: CallFrame, nodes: Sequence[fx.Node], graph: Mapping[str, fx.Node]) -> bool:
    """Whether nothing that the function computes, nor a module inside of its module, is done elsewhere."""
    return _share(frame, nodes, graph, derived=False) == 1


def is_nearly_whole(frame: CallFrame, nodes: Sequence[fx.Node], graph: Mapping[str, fx.Node]) -> bool:
    """Whether some nodes compute essentially all that the function does in the graph."""
    return _share(frame, nodes, graph, derived=False) >= _ESSENTIALLY_ALL


def is_nearly_whole_backward(
    frame: CallFrame, nodes: Sequence[fx.Node], graph: Mapping[str, fx.Node]
) -> bool:
    """Whether some nodes differentiate essentially all that the graph differentiates of the function."""
    return _share(frame, nodes, graph, derived=True) >= _ESSENTIALLY_ALL


def is_mostly_of(frame: CallFrame, nodes: Sequence[fx.Node]) -> bool:
    """Whether essentially all that some nodes compute, again or as derivatives, is the function's.

    Rows that are read for it, and those that its results are added to, are no computing.
    """
    loud = [node for node in nodes if node.op == "call_function" and not op_word(node).silent]
    loud = [node for node in loud if aten_name(node) not in _ROWS]
    own = [node for node in loud if _belongs(provenance_of(node), frame)]
    return len(own) >= _ESSENTIALLY_ALL * len(loud)


def has_arithmetic(frame: CallFrame, graph: Mapping[str, fx.Node]) -> bool:
    """Whether the function computes anything in the graph, and does not only move data."""
    return bool(_operations(frame, graph.values(), derived=False))


_Operation = tuple[
    str, int, str, str
]  # module, line, statement, operation: a second call of a function is no other


def n_operations(frame: CallFrame, graph: Mapping[str, fx.Node]) -> int:
    """How many operations of the forward pass the graph has of a function: those that are differentiated, too."""
    nodes = list(graph.values())
    return len(_operations(frame, nodes, derived=False) | _operations(frame, nodes, derived=True))


def _share(frame: CallFrame, nodes: Sequence[fx.Node], graph: Mapping[str, fx.Node], derived: bool) -> float:
    """How much of the operations that the graph has of a function some nodes do, from 0 to 1."""
    whole = _operations(frame, graph.values(), derived)
    done = _operations(frame, nodes, derived)
    return len(whole & done) / len(whole) if whole else 0.0


def _operations(frame: CallFrame, nodes: Iterable[fx.Node], derived: bool) -> set[_Operation]:
    """The operations of a function, and of the modules inside of its module; or those that are differentiated."""
    operations = set()
    for node in nodes:
        origin = provenance_of(node)
        if node.op != "call_function" or bool(origin.differentiates) != derived:
            continue
        if _belongs(origin, frame) and not op_word(node).silent:
            op = without_counter(origin.differentiates) if derived else aten_name(node)
            operations.add((origin.module, origin.line, origin.statement, op))
    return operations


def _belongs(origin: Provenance, frame: CallFrame) -> bool:
    """Whether an operation is the function's, or of a module inside of its module."""
    is_below = is_forward(frame) and origin.module.startswith(f"{frame[1]}." if frame[1] else "")
    return is_below or _frame(origin) == frame
