"""Views that the user gave a name to: which ones get a line of their own before the library call that reads them."""

from __future__ import annotations

import dataclasses
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

import torch
from torch import fx

from longhand.lower.ir import Buffer, Extern, Size, View, ViewCall
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.sizes import as_size, same

_RESHAPES = ("view", "reshape", "_unsafe_view")


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
        unbind: The dimension of the view whose indices are the parts, in a line that takes all of them at once.
        heads: In such a line of heads: the node that is one part's, for the words of their sizes.
    """

    keys: tuple[str, ...]
    view: View
    source: str
    n_before: int
    is_last: bool = False
    split: tuple[tuple[Size, ...], int] | None = None
    unbind: int | None = None
    heads: str = ""


def named_views(step: Extern, words: BufferNamer) -> tuple[NamedView, ...]:
    """The lines before a library call, in order; none before one that only lays out anew what it is given."""
    if step.target is torch.ops.aten.contiguous.default:
        return ()
    views = list(_views((step.args, [value for _, value in step.kwargs])))
    splits = _whole_splits(views, words)
    lines: dict[tuple[str, ...], NamedView] = {}
    reads: Counter[str] = Counter()
    reshaped: set[str] = set()  # what the call itself gives another shape first
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
        if n_before < len(view.calls) and _op(view.calls[n_before]) in _RESHAPES:
            reshaped.add(source)
    named_lines = [dataclasses.replace(line, is_last=reads[line.source] == 1) for line in lines.values()]
    named_lines = _parts_at_once(_heads_at_once(named_lines, words), words)
    return tuple(_without_detours(named_lines, reads, reshaped))


def _without_detours(
    lines: Sequence[NamedView], reads: Mapping[str, int], reshaped: Set[str]
) -> list[NamedView]:
    """Not a line that only gives a value a shape which its one reader, a line or the call itself, changes again."""
    kept_lines: list[NamedView] = []
    for line in lines:
        last = kept_lines[-1] if kept_lines else None
        is_read = last is not None and (line.source,) == last.keys
        calls = line.view.calls[line.n_before :]  # none in a line that only takes parts
        if is_read and last and _is_reshape(last) and calls and _op(calls[0]) in _RESHAPES:
            kept_lines.pop()
            line = dataclasses.replace(line, source=last.source, n_before=last.n_before, is_last=last.is_last)
        kept_lines.append(line)
    sources = {line.source for line in kept_lines}

    def is_detour(line: NamedView) -> bool:
        key = line.keys[0]
        return _is_reshape(line) and key not in sources and reads[key] == 1 and key in reshaped

    return [line for line in kept_lines if not is_detour(line)]


def _is_reshape(line: NamedView) -> bool:
    """Whether a line does nothing but to give a value that it alone reads another shape."""
    is_plain = line.is_last and line.split is None and line.unbind is None
    return is_plain and all(_op(call) in _RESHAPES for call in line.view.calls[line.n_before :])


def view_key(step: Extern, node: str) -> str:
    """What the variable of a view is known by: each library call names the views before it anew."""
    return f"{node} before {', '.join(step.outputs) or step.origin}"


def _heads_at_once(lines: Sequence[NamedView], words: BufferNamer) -> list[NamedView]:
    """Equal parts that are all viewed as heads alike, in one line instead of one for each and one for the split.

    ``q, k, v = qkv.view(batch, seq, 3, 12, 64).transpose(1, 3).unbind(2)``: seven calls become three, and each costs
    a microsecond or two in a model that waits for Python.
    """
    joined = list(lines)
    for split in lines:
        parts = [line for line in joined if line.source in split.keys]
        merged = _merged(split, parts, words)
        if merged is not None:
            first = joined.index(parts[0])
            joined = [
                merged if line is joined[first] else line
                for line in joined
                if line not in (split, *parts[1:])
            ]
    return joined


def _merged(split: NamedView, parts: Sequence[NamedView], words: BufferNamer) -> NamedView | None:
    """A split of the last dimension and the lines of its parts as one line; None if they are not that alike."""
    if split.split is None or sorted(part.source for part in parts) != sorted(split.keys) or len(parts) < 2:
        return None
    parts = sorted(parts, key=lambda part: split.keys.index(part.source))
    sizes, dim = split.split
    lead = [as_size(size) for size in words.nodes[split.keys[0]].meta["val"].shape[:-1]]
    rest = parts[0].view.calls[parts[0].n_before :]
    is_alike = all(part.is_last and part.view.calls[part.n_before :] == rest for part in parts)
    if not is_alike or len(set(map(str, sizes))) > 1 or dim not in (-1, len(lead)) or len(rest) != 2:
        return None
    reshape, transpose = rest
    if _op(reshape) not in _RESHAPES or _op(transpose) != "transpose":
        return None
    shape = list(reshape.args[0])
    if len(shape) != len(lead) + 2 or list(map(str, shape[:-2])) != list(map(str, lead)):
        return None
    if shape[-2] == -1:  # of the two open sizes of the new view, the heads' number is said
        if not isinstance(sizes[0], int) or not isinstance(shape[-1], int):
            return None
        shape[-2] = sizes[0] // shape[-1]
    place = len(lead)  # of the new dimension, whose indices are the parts
    moved = [dim % len(shape) for dim in transpose.args]
    calls = (
        *split.view.calls,
        ViewCall(torch.ops.aten.view.default, ([*shape[:place], len(parts), *shape[place:]],)),
        ViewCall(torch.ops.aten.transpose.int, tuple(dim + (dim >= place) for dim in moved)),
    )
    return dataclasses.replace(
        split,
        keys=tuple(part.keys[0] for part in parts),
        view=dataclasses.replace(split.view, calls=calls),
        split=None,
        unbind=place,
        heads=reshape.origin,
    )


def _parts_at_once(lines: Sequence[NamedView], words: BufferNamer) -> list[NamedView]:
    """All parts of a dimension that is indexed place by place, in one line: ``q, k, v = qkv.unbind(2)``."""
    alike: dict[str, list[NamedView]] = {}
    for line in lines:
        taken = line.view.calls[line.n_before :]
        if line.split is None and line.unbind is None and taken and _op(taken[-1]) == "select":
            of = repr((line.source, line.n_before, taken[:-1], taken[-1].args[0]))
            alike.setdefault(of, []).append(line)
    joined = list(lines)
    for parts in alike.values():
        if len(parts) > 1 and (whole := _all_parts(parts, words)) is not None:
            joined = [whole if line is parts[0] else line for line in joined if line not in parts[1:]]
    return joined


def _all_parts(parts: Sequence[NamedView], words: BufferNamer) -> NamedView | None:
    """The line of all places of a dimension; None if these are not all, each once."""
    whole = words.nodes[parts[0].keys[0]].all_input_nodes[0].meta["val"]  # of unbind: a list
    dim = parts[0].view.calls[-1].args[0]
    by_place = {line.view.calls[-1].args[1]: line for line in parts}
    n_places = whole.shape[dim] if isinstance(whole, torch.Tensor) else len(whole)
    if not isinstance(n_places, int) or set(by_place) != set(range(n_places)) or len(parts) > n_places:
        return None
    first = parts[0]
    return dataclasses.replace(
        first,
        keys=tuple(by_place[place].keys[0] for place in range(n_places)),
        view=dataclasses.replace(first.view, calls=first.view.calls[:-1]),
        is_last=False,
        unbind=dim,
    )


def _op(call: ViewCall) -> str:
    return str(call.target.overloadpacket.__name__)


def _views(value: object) -> Iterator[View]:
    if isinstance(value, View):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _views(item)


def _whole_splits(views: Sequence[View], words: BufferNamer) -> dict[str, tuple[str, ...]]:
    """For each part of a split all of whose parts are read here and have names: all of them in order."""
    read = {call.origin for view in views for call in view.calls}
    wholes: dict[str, tuple[str, ...]] = {}
    for origin in sorted(read):
        split = _split_of(origin, words)
        if split is None:
            continue
        parts = {int(str(user.args[1])): user.name for user in split.users if user.target is operator.getitem}
        is_whole = len(parts) == len(split.meta["val"]) and set(parts.values()) <= read
        if is_whole and all(words.provenance(part).local for part in parts.values()):
            wholes[origin] = tuple(parts[number] for number in sorted(parts))
    return wholes


def _split_of(origin: str, words: BufferNamer) -> fx.Node | None:
    """The split that a node is a part of."""
    node = words.nodes.get(origin)
    if node is None or node.target is not operator.getitem or not isinstance(node.args[0], fx.Node):
        return None
    name = getattr(getattr(node.args[0].target, "overloadpacket", None), "__name__", "")
    return node.args[0] if name in ("split", "split_with_sizes", "chunk") else None


def _sizes(origin: str, words: BufferNamer) -> tuple[tuple[Size, ...], int]:
    split = _split_of(origin, words)
    assert split is not None
    dim = split.kwargs.get("dim", split.args[2] if len(split.args) > 2 else 0)
    assert isinstance(dim, int)
    return tuple(as_size(part.shape[dim]) for part in split.meta["val"]), dim


def lie_alike(one: Buffer, other: Buffer) -> bool:
    """Whether two buffers have the same dimensions and strides: in the memory of one, the other needs no view."""
    pairs = [*zip(one.shape, other.shape, strict=False), *zip(one.stride, other.stride, strict=False)]
    return len(one.shape) == len(other.shape) and all(same(first, second) for first, second in pairs)
