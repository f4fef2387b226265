"""Group norms that are written out, as their derivative needs them: the operations of one are one word of a name.

Of ``(x - mean) * rstd * weight + bias`` with statistics over all but the first two dimensions of x, images and
groups, the kernel that makes these statistics, too, is a ``group_norm``; one that is given them only normalizes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

from torch import fx

_SEEN = frozenset({"expand", "view", "reshape", "unsqueeze", "squeeze", "_to_copy"})
_FEWEST = 4  # dimensions: images, groups, the channels of one, and pixels


def group_norms(nodes: Sequence[fx.Node]) -> dict[fx.Node, str]:
    """For each operation of a group norm among `nodes` the norm's word where it ends, and no word before.

    Args:
        nodes: What a kernel does, in order.
    """
    words: dict[fx.Node, str] = {}
    for node in nodes:
        statistics = _statistics(node)
        if not statistics:
            continue
        run = [node, *_affine(node, nodes)]
        makes_statistics = statistics[0] in nodes
        words.update(dict.fromkeys((*statistics, *run[:-1]), ""))
        words[run[-1]] = "group_norm" if makes_statistics else "normalize"
    return words


def _statistics(node: fx.Node) -> list[fx.Node]:
    """What mean and deviation are made by, from var_mean on, of a value that is normalized by groups; else nothing."""
    for centered, rstd in (node.args[:2], node.args[1::-1]) if _op(node) == "mul" else ():
        if not (isinstance(centered, fx.Node) and isinstance(rstd, fx.Node)):
            continue
        shifted = _first(rstd, "rsqrt")
        variance = _first(shifted, "add")
        x = _first(centered, "sub")
        if shifted is None or variance is None or x is None:
            continue
        source = _source(variance)
        if source is not None and source is _source(centered.args[1]) and source.args[0] is x:
            return [source, shifted, rstd, centered] if _is_over_groups(source) else []
    return []


def _first(node: fx.Node | None, op: str) -> fx.Node | None:
    """What an operation of that name is first given; None where it is no such operation."""
    given = node.args[0] if node is not None and _op(node) == op and node.args else None
    return given if isinstance(given, fx.Node) else None


def _source(value: object) -> fx.Node | None:
    """The var_mean that a value is a result of."""
    if not isinstance(value, fx.Node) or value.target is not operator.getitem:
        return None
    made = value.args[0]
    return made if isinstance(made, fx.Node) and _op(made) == "var_mean" else None


def _is_over_groups(source: fx.Node) -> bool:
    """Whether statistics are those of all dimensions but the first two."""
    x, dims = source.args[0], source.args[1] if len(source.args) > 1 else None
    n_dims = getattr(x.meta.get("val"), "ndim", 0) if isinstance(x, fx.Node) else 0
    return n_dims >= _FEWEST and isinstance(dims, Sequence) and [*dims] == [*range(2, n_dims)]


def _affine(normalized: fx.Node, nodes: Sequence[fx.Node]) -> Iterator[fx.Node]:
    """The product with a weight, and the sum with a bias, as far as they are among `nodes`."""
    value = normalized
    for op in ("mul", "add"):
        users = [user for user in value.users if user in nodes and _op(user) == op and _has_vector(user)]
        if len(users) == 1:
            value = users[0]
            yield value


def _has_vector(node: fx.Node) -> bool:
    """Whether one side is a vector that the graph is given: a weight, or a bias."""
    return any(isinstance(side, fx.Node) and _is_vector(side) for side in node.args[:2])


def _is_vector(node: fx.Node) -> bool:
    while node.op == "call_function" and _op(node) in _SEEN and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node.op == "placeholder" and getattr(node.meta.get("val"), "ndim", 0) == 1


def _op(node: fx.Node) -> str:
    packet = getattr(node.target, "overloadpacket", None)
    return "" if packet is None else str(packet.__name__)
