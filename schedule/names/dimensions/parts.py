"""The words of dimensions that count parts: ``n_paths`` of paths that are stacked, ``n_parts`` of what is unbound.

Such a dimension lies between the others, so that no other one's word is true of it, however long that is.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping

from torch import fx

from longhand.lower.ir import Size
from longhand.schedule.names.dimensions.compound_names import Words
from longhand.schedule.names.dimensions.walked_dimensions import one_of_counted
from longhand.schedule.names.operation_names import aten_name, provenance_of
from longhand.schedule.names.words import identifier

N_PARTS = "n_parts"  # where nobody says of what


def with_parts(piece: Words, call: fx.Node) -> Words:
    """The words of pieces that a call stacks, and the one for how many they are."""
    place = place_of(call, len(piece) + 1)
    word = word_of_stack(provenance_of(call).statement)
    return (*piece[:place], word if word not in piece else None, *piece[place:])


def place_of(call: fx.Node, n_dims: int) -> int:
    """Along which dimension, of so many, a call stacks its pieces, or takes apart what it is given."""
    dim = (*call.args[1:], call.kwargs.get("dim", 0))[0]
    assert isinstance(dim, int)
    return dim % n_dims


def words_of_parts(
    graph: fx.Graph, words: Mapping[str, Words], shape_of: Callable[[fx.Node], tuple[Size, ...]]
) -> dict[str, Words]:
    """Values with other words, where nothing says how many parts they have that are taken apart.

    What is given to the call has the caller's words, or none: two ends of edges.
    """
    changed: dict[str, Words] = {}
    for node in graph.nodes:
        shape = shape_of(node)
        known = words.get(node.name, (None,) * len(shape))
        is_made = node.op == "call_function" and len(known) == len(shape) > 1
        for place in _places(node, shape) if is_made else ():
            if known[place] is None and N_PARTS not in known:
                known = (*known[:place], N_PARTS, *known[place + 1 :])
                changed[node.name] = known
    return changed


_SPLITS = frozenset({"split", "split_with_sizes", "chunk", "tensor_split"})


def equal_parts(graph: fx.Graph) -> dict[str, int]:
    """Of values that are parts of another, all of which are as long: by name how many parts come before."""
    found: dict[str, int] = {}
    for node in graph.nodes:
        if node.op != "call_function" or aten_name(node) not in _SPLITS:
            continue
        whole, parts = node.args[0], node.meta.get("val", ())
        shapes = {tuple(map(str, part.shape)) for part in parts}
        if isinstance(whole, fx.Node) and len(shapes) == 1:
            found |= {
                user.name: user.args[1]
                for user in node.users
                if aten_name(user) == "getitem" and isinstance(user.args[1], int)
            }
    return found


def _places(node: fx.Node, shape: tuple[Size, ...]) -> Iterator[int]:
    """The dimensions of a value whose places are parts, each of which goes its own way."""
    selected: dict[int, set[int]] = {}
    for user in node.users:
        name = aten_name(user) if user.op == "call_function" and user.args[:1] == (node,) else ""
        if name == "unbind":
            yield place_of(user, len(shape))
        elif name == "select" and isinstance(user.args[2], int):
            selected.setdefault(place_of(user, len(shape)), set()).add(user.args[2])
    for place, indices in selected.items():
        size = shape[place]
        if isinstance(size, int) and 1 < size == len({index % size for index in indices}):
            yield place


def dim_of_places(node: fx.Node, n_dims: int) -> int | None:
    """The dimension whose places an operation asks about: that along which it stacks, or the only one of an arange."""
    match aten_name(node):
        case "stack":
            return place_of(node, n_dims)
        case "arange" if n_dims == 1:
            return 0
    return None


@functools.lru_cache(maxsize=1024)
def word_of_stack(statement: str) -> str | None:
    """``n_paths``, of ``torch.stack(x_paths, dim=1)`` and of ``torch.stack([path(x) for path in paths])``."""
    try:
        tree = ast.parse(statement)
    except SyntaxError:
        return None
    words: set[str | None] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "stack" and node.args:
            words.add(_word_of_list(node.args[0]))
    return words.pop() if len(words) == 1 else None


def _word_of_list(pieces: ast.expr) -> str | None:
    match pieces:
        case ast.ListComp(generators=[ast.comprehension(iter=given, ifs=[])]):
            return _word_of_list(given)
        case ast.Name(id=text) | ast.Attribute(attr=text):
            things = identifier(text.strip("_") or "_").rpartition("_")[2]
            return f"n_{things}" if one_of_counted(f"n_{things}") else None
    return None
