"""What a docstring says of a function: how much of a layer it does, with which sum it begins, what it writes over.

Where kernels join a layer with its neighbours, what they do stands outside of its function: often a norm, or the sum
at its end, which has no weights. So the function tells what it does, not what it leaves out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from torch import fx

from longhand.capture.graph import InputKind
from longhand.lower.ir import Extern
from longhand.schedule.named_plan import Branch, BufferNamer, Loop, op_word
from longhand.schedule.names.words import listed
from longhand.schedule.plan import Launch, buffers_read

_WIDEST = 103  # of a line of a docstring, its indentation left out
_WIDEST_REMARK = 96  # of one in a class


def with_overwritten(lines: Sequence[str], arguments: Sequence[str]) -> str:
    """``The derivative of Mlp, layers[i].mlp. Overwrites d_out.``

    Args:
        lines: What is said of it.
        arguments: What it writes over.
    """
    told = [*lines]
    if arguments:
        said = f"Overwrites {listed(arguments)}."
        is_short = len(told[-1]) + len(said) < _WIDEST - len('"""')
        more = [f"{told.pop()} {said}".lstrip()] if is_short else ["", said] if len(told) == 1 else [said]
        told += more
    return "\n".join([*told, ""]) if len(told) > 1 else told[0]


def parts_done(loop: Loop, branch: Branch) -> str:
    """``The layer's norm2 and mlp; the caller does the rest.``

    Args:
        loop: The layers.
        branch: What one of them holds.
    """
    read = {name for step in loop.run for name in buffers_read(step)}
    told = list(_told(branch, "", {path for buffer, path in loop.own_weights.items() if buffer in read}))
    said = f"The layer's {listed(told)}; the caller does the rest."
    return said if told and len(said) <= _WIDEST_REMARK else "Part of the layer; the caller does the rest."


def _told(branch: Branch, path: str, read: Collection[str]) -> Iterator[str]:
    """The weights that are read, those of a module that is read as a whole by its name."""
    own = {f"{path}.{name}".removeprefix("."): one for name, one in branch.branches.items() if one.dtypes()}
    parameters = (name for name, one in branch.held.items() if one.kind is InputKind.PARAMETER)
    held = [f"{path}.{name}".removeprefix(".") for name in parameters]
    if (
        path
        and all(name in read for name in held)
        and all(_is_read(one, at, read) for at, one in own.items())
    ):
        yield path
        return
    yield from (name for name in held if name in read)
    for at, one in own.items():
        if any(name.startswith(f"{at}.") for name in read):
            yield from _told(one, at, read)


def _is_read(branch: Branch, path: str, read: Collection[str]) -> bool:
    """Whether all that a module holds, or at least each of the modules in it, is read."""
    if branch.branches:
        inner = ((f"{path}.{name}", one) for name, one in branch.branches.items() if one.dtypes())
        return all(_is_read(one, at, read) for at, one in inner)
    return any(name.startswith(f"{path}.") for name in read)


def remark_on_deferred_residual(loop: Loop, words: BufferNamer, variables: Mapping[str, str]) -> str:
    """What a layer's function says of a sum of two of its arguments; empty where it begins with no such sum."""
    first = next((step for step in loop.run if isinstance(step, Launch | Extern)), None)
    if not isinstance(first, Launch):
        return ""
    for origin in first.origins:
        node = words.nodes.get(origin)
        summands = _summands(node) if node is not None else ()
        if len(summands) == 2 and set(summands) <= set(loop.inputs):
            total = " + ".join(variables[summand] for summand in summands)
            remark = (
                f"The layer's input is {total}: the layer before leaves that sum to the first kernel here."
            )
            return remark if len(remark) <= _WIDEST_REMARK else "The first kernel adds up the layer's input."
    return ""


def _summands(node: fx.Node) -> tuple[str, ...]:
    """The two values that a node adds, as they were before they were only seen otherwise."""
    if op_word(node).word != "add" or len(node.args) < 2:
        return ()
    sides = [_behind_views(side) for side in node.args[:2] if isinstance(side, fx.Node)]
    return tuple(dict.fromkeys(side.name for side in sides))


def _behind_views(node: fx.Node) -> fx.Node:
    while node.op == "call_function" and op_word(node).silent and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node
