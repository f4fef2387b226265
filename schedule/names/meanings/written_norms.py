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
        shifted = rstd.args[0] if _op(rstd) == "rsqrt" else None
        variance = shifted.args[0] if isinstance(shifted, fx.Node) and _op(shifted) == "add" else None
        if not isinstance(variance, fx.Node) or _op(centered) != "sub" or len(shifted.args) < 2:  # type: ignore[union-attr]
            continue
        x, mean = centered.args[:2]
        both = {_source(variance), _source(mean)}
        source = both.pop() if len(both) == 1 else None
        if source is not None and source.args[0] is x and _is_over_groups(source):
            return [source, shifted, rstd, centered]  # type: ignore[list-item]
    return []


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
    return n_dims >= _FEWEST and dims is not None and [*dims] == [*range(2, n_dims)]  # type: ignore[misc]


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
