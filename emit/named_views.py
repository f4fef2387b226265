"""Views that the user gave a name to, as lines of their own before the library call that reads them.

``q, k, v = qkv.split(256, dim=-1)`` and ``q = q.view(batch, seq, 12, 64).transpose(1, 2)``, as the user wrote them,
and not one expression inside the call.
"""

from __future__ import annotations

import dataclasses
import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from torch import fx

from longhand.emit.buffer_words import BufferWords
from longhand.lower.ir import Extern, Size, View


@dataclasses.dataclass(frozen=True)
class NamedView:
    """One line.

    Attributes:
        keys: The nodes that it names: one, or all parts of a split, in order.
        view: The buffer through all calls up to here (of a split: those before it).
        source: What it is taken of: a node that an earlier line names, or the buffer.
        n_before: How many of the view's calls `source` has behind it already.
        is_last: Whether nothing else in this library call reads `source`.
        split: Of a split: the sizes of its parts and the dimension.
    """

    keys: tuple[str, ...]
    view: View
    source: str
    n_before: int
    is_last: bool = False
    split: tuple[tuple[Size, ...], int] | None = None


def named_views(step: Extern, words: BufferWords) -> tuple[NamedView, ...]:
    """The lines before a library call, in order."""
    views = list(_views((step.args, [value for _, value in step.kwargs])))
    splits = _whole_splits(views, words)
    lines: dict[tuple[str, ...], NamedView] = {}
    reads: Counter[str] = Counter()
    for view in views:
        source, n_before = view.buffer, 0
        for number, call in enumerate(view.calls):
            if not words.provenance(call.origin).local:
                continue
            parts = splits.get(call.origin)
            through = dataclasses.replace(view, calls=view.calls[: number if parts else number + 1])
            line = NamedView(
                parts or (call.origin,),
                through,
                source,
                n_before,
                split=_sizes(call.origin, words) if parts else None,
            )
            if line.keys not in lines:
                lines[line.keys] = line
                reads[source] += 1
            source, n_before = call.origin, number + 1
        reads[source] += 1
    return tuple(dataclasses.replace(line, is_last=reads[line.source] == 1) for line in lines.values())


def _views(value: object) -> Iterator[View]:
    if isinstance(value, View):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _views(item)


def _whole_splits(views: Sequence[View], words: BufferWords) -> dict[str, tuple[str, ...]]:
    """For each part of a split all of whose parts are read here and have names: all of them in order."""
    read = {call.origin for view in views for call in view.calls}
    found: dict[str, tuple[str, ...]] = {}
    for origin in sorted(read):
        split = _split_of(origin, words)
        if split is None:
            continue
        parts = {int(str(user.args[1])): user.name for user in split.users if user.target is operator.getitem}
        is_whole = len(parts) == len(split.meta["val"]) and set(parts.values()) <= read
        if is_whole and all(words.provenance(part).local for part in parts.values()):
            found[origin] = tuple(parts[number] for number in sorted(parts))
    return found


def _split_of(origin: str, words: BufferWords) -> fx.Node | None:
    """The split that a node is a part of."""
    node = words.nodes.get(origin)
    if node is None or node.target is not operator.getitem or not isinstance(node.args[0], fx.Node):
        return None
    name = getattr(getattr(node.args[0].target, "overloadpacket", None), "__name__", "")
    return node.args[0] if name in ("split", "split_with_sizes", "chunk") else None


def _sizes(origin: str, words: BufferWords) -> tuple[tuple[Size, ...], int]:
    split = _split_of(origin, words)
    assert split is not None
    dim = split.kwargs.get("dim", split.args[2] if len(split.args) > 2 else 0)
    assert isinstance(dim, int)
    return tuple(_as_size(part.shape[dim]) for part in split.meta["val"]), dim


def _as_size(size: Any) -> Size:
    """A size of a fake tensor: an int, or the SymPy expression of a symbolic one."""
    node = getattr(size, "node", None)
    return node.expr if node is not None else size
