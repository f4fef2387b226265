"""The words of what is another value in another shape, layout or memory: those of that value, and never ``copied``."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from torch import fx

from longhand.capture.graph import GraphInput
from longhand.schedule.names.operation_names import aten_name, op_word, provenance_of
from longhand.schedule.names.value_origins import ValueOrigins, last_word, without_positions
from longhand.schedule.names.words import path_names, reworded

_RESHAPES = frozenset({"reshape", "view", "_unsafe_view", "flatten"})
_CASTS = frozenset({"_to_copy", "to", "convert_element_type"})
_COPIES = frozenset({"copy", "transpose", "slice"})
_ANY_TENSOR = frozenset({"tensor", "t"})  # what einops calls whatever it is given
_SHORT = 16  # characters of what is scaled
# Behind the word, where both layouts live.
_ENDINGS = {
    **dict.fromkeys(("clone", "contiguous"), "contiguous"),
    **dict.fromkeys(("transpose", "t", "permute"), "t"),
    **dict.fromkeys(("slice", "select", "getitem"), "part"),
}


def value_behind(node: fx.Node | None, origins: ValueOrigins) -> fx.Node | None:
    """A value as it was before it was only seen in other shapes, without names of their own.

    None where it is a gradient: a node of the backward pass that has the name of one of the forward pass.
    """
    while node is not None and not provenance_of(node).differentiates:
        is_view = (
            node.op == "call_function" and aten_name(node) in _RESHAPES and len(node.all_input_nodes) == 1
        )
        if not is_view or origins.local(node) is not None:
            return node
        node = node.all_input_nodes[0]
    return None


def copied_names(origins: ValueOrigins, node: fx.Node) -> Iterator[str]:
    """The user's name for what a library call is given a copy of: ``q`` of ``torch.einsum("...", q, k)``."""
    source = node
    while source.op == "call_function" and (source is node or op_word(source).silent):
        if source is node and op_word(node).word not in _COPIES - {"slice"}:
            return
        above = source.args[0] if source.args else None
        if not isinstance(above, fx.Node):
            return
        source = above
        local = origins.local(source)
        if local is not None and local not in _ANY_TENSOR:
            yield local
            return


def scaled_names(origins: ValueOrigins, node: fx.Node) -> Iterator[str]:
    """``scaled_q``, of the product of the user's q and a number."""
    source = (
        node.args[0] if node.op == "call_function" and op_word(node).word == "scale" and node.args else None
    )
    while isinstance(source, fx.Node):
        local = origins.local(source)
        if local is not None and local not in _ANY_TENSOR:
            yield f"scaled_{local}" if len(local) <= _SHORT else "scaled"
        if local is not None or source.op != "call_function" or not op_word(source).silent or not source.args:
            return
        source = source.args[0]


def words_of_cast(node: fx.Node, inputs: Mapping[str, GraphInput], paths: Mapping[str, str]) -> Iterator[str]:
    """``up_weight``, of ``blocks.0.up.weight`` in another type, as autocast makes it. None of any other node.

    Args:
        node: What may be such a cast.
        inputs: Of the graph.
        paths: In a backward pass: the parameters and buffers that inputs are.
    """
    source: object = node
    while isinstance(source, fx.Node) and aten_name(source) in _CASTS:
        source = source.args[0]
    entry = inputs.get(source.name) if isinstance(source, fx.Node) and source is not node else None
    if entry is None:
        return
    path = paths.get(entry.node) or ("" if entry.is_given else entry.target)
    bare = path.rpartition(".")
    yield from (word for word in (path_names(path) if path else ()) if not bare[0] or word != bare[2])


def words_of_copied(
    node: fx.Node, candidates: Callable[[str], Iterable[str]], held: Collection[str]
) -> Iterator[str]:
    """``x``, of a copy of what is called x. None of any other node, and of a copy of a weight.

    Args:
        node: What may be a copy.
        candidates: The words of the value that is copied, best first.
        held: Values that a module holds: a copy of a weight is never called as the weight.
    """
    source = _copied(node)
    if source is not None and _behind_views(source).name not in held and "part" not in _endings(node):
        yield from itertools.islice(candidates(source.name), 1)


def fillers_of_copy(
    node: fx.Node, told: Callable[[str, bool], list[str]], held: Collection[str], origins: ValueOrigins
) -> Iterator[str]:
    """What else a copy may be called, best first: how what is copied is made, ``x_contiguous``, ``x_t`` and ``x_part``.

    Then what it is to the module that makes it: ``attn_in``.

    Args:
        node: What may be a copy.
        told: The words for a value that say what it is, or the others.
        held: Values that a module holds.
        origins: Where values come from.
    """
    source = _copied(node)
    if source is None:
        return
    yield from words_of_copied(node, lambda name: told(name, False), held)
    of = _behind_views(node)
    is_held = of.name in held
    ending = next(_endings(node), "view" if is_held else None)
    if ending is not None:
        yield from (_with_ending(word, ending) for word in told(of.name if is_held else source.name, True))
    module = origins.of(node).module
    if (
        not is_held
        and ending != "part"
        and (last := last_word(without_positions(module)))
        and origins.of(of).module != module
    ):
        yield f"{last}_in"


def _endings(node: fx.Node) -> Iterator[str]:
    """What the steps by which a value is copied do to its layout, those that say more first."""
    steps: list[str] = []
    while (source := _copied(node)) is not None:
        steps += [_ENDINGS[aten_name(node)]] if aten_name(node) in _ENDINGS else []
        node = source
    yield from sorted(steps, key=("part", "t", "contiguous").index)


def _copied(node: fx.Node) -> fx.Node | None:
    """What a node makes anew, or shows in another shape; None of any other node."""
    if node.op != "call_function" or not op_word(node).silent or op_word(node).word not in _COPIES:
        return None
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node):
        return None
    if node.target is operator.getitem and not op_word(source).silent:
        return None  # one of several results, each of which is called otherwise
    return source


def _with_ending(word: str, ending: str) -> str:
    return reworded(word, lambda of: of if of.endswith(f"_{ending}") else f"{of}_{ending}")


def _behind_views(node: fx.Node) -> fx.Node:
    while node.op == "call_function" and op_word(node).silent and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node
