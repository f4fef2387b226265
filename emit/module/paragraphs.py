"""Paragraphs of model.py: what runs, under the user's own statements that it came from.

Views that the user gave a name to are lines of their own before the library call that reads them.
"""

from __future__ import annotations

import dataclasses
import operator
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from longhand.emit.names.buffer_names import BufferWords
from longhand.emit.names.unit_names import Quote
from longhand.emit.names.words import python_comment
from longhand.lower.ir import Extern, Size, View, ViewCall

WIDEST = 98
_MOST_QUOTES = 3


@dataclasses.dataclass
class Paragraph:
    """Statements that came from the same words of the user's.

    Attributes:
        quotes: What the user wrote.
        lines: What runs.
        module: The path of the module that wrote it, if that is known.
    """

    quotes: tuple[Quote, ...]
    lines: list[str]
    module: str = ""


def fewest(quotes: Iterable[Quote]) -> tuple[Quote, ...]:
    """Each quote once, and not too many."""
    found = tuple(dict.fromkeys(quotes))
    return found if len(found) <= _MOST_QUOTES else (*found[: _MOST_QUOTES - 1], found[-1])


def said_once(paragraphs: Iterable[Paragraph], names_modules: bool) -> list[Paragraph]:
    """Each statement of the user's is quoted where it begins, and no more.

    A library call that goes on with, or repeats, what was quoted is more of the paragraph above; what another module
    does again is headed by that.

    Args:
        paragraphs: Of one function, in order.
        names_modules: Whether a module's path is that of one alone: no loop runs the function for others.
    """
    found: list[Paragraph] = []
    first: dict[Quote, str] = {}  # the module that a statement was quoted for
    headed: set[str] = set()
    above: tuple[Quote, ...] = ()  # what the last paragraph would quote
    for paragraph in paragraphs:
        quotes = paragraph.quotes
        new = tuple(quote for quote in quotes if quote not in first)
        heading = _part(paragraph.module, first[quotes[0]]) if quotes and not new and names_modules else ""
        if heading and heading not in headed:
            headed.add(heading)
            found.append(Paragraph((), [f"# {python_comment(heading)}", *paragraph.lines]))
        elif quotes and not new and _goes_on(found[-1], above, paragraph):
            found[-1].lines += paragraph.lines
        else:
            found.append(Paragraph(new, list(paragraph.lines)))
        first.update(dict.fromkeys(new, paragraph.module))
        above = quotes
    return found


def _goes_on(last: Paragraph, above: tuple[Quote, ...], paragraph: Paragraph) -> bool:
    """Whether a paragraph with nothing new to quote is more of the last one, which came from the words `above`."""
    is_alike = bool(set(above) & set(paragraph.quotes)) or (bool(above) and not last.quotes)
    # The call of a kernel, with its tail of sizes, stands for itself.
    return is_alike and not any("kernels." in line for line in (*last.lines, *paragraph.lines))


def _part(path: str, other: str) -> str:
    """``encoder.block[1]``: the part of the model that a path is in and another is not; empty if that is all of it."""
    parts = path.split(".")
    shared = [one == its for one, its in zip(parts, other.split("."), strict=False)]
    n_shared = shared.index(False) if False in shared else len(parts)
    if n_shared + 1 >= len(parts):
        return ""
    return re.sub(r"\.(\d+)", r"[\1]", ".".join(parts[: n_shared + 1]))


def joined_quotes(paragraphs: list[Paragraph]) -> list[Paragraph]:
    """Neighbouring one-line paragraphs of one function become one, their statements on one line."""
    joined: list[Paragraph] = []
    for paragraph in paragraphs:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.quotes
            and paragraph.quotes
            and len(paragraph.lines) == 1
            and all(
                "kernels." not in line and not line.startswith("#")
                for line in [*last.lines, *paragraph.lines]
            )
            and len({quote.qualname for quote in (*last.quotes, *paragraph.quotes)}) == 1
            and len(quote_lines((*last.quotes, *paragraph.quotes), WIDEST)) == 1
        ):
            last.quotes = tuple(dict.fromkeys((*last.quotes, *paragraph.quotes)))
            last.lines += paragraph.lines
        else:
            joined.append(paragraph)
    return joined


def quote_lines(quotes: tuple[Quote, ...], width: int) -> list[str]:
    """``Attention.forward    q = self.W_q(x); k = self.W_k(x)``: as many statements on a line as fit."""
    lines: list[str] = []
    for quote in quotes:
        head = f"{python_comment(quote.qualname)}    "
        text = python_comment(quote.statement)
        is_over = lines and lines[-1].startswith(f"{head}return ")
        if lines and not is_over and lines[-1].startswith(head) and len(lines[-1]) + 2 + len(text) <= width:
            lines[-1] += f"; {text}"
        else:
            lines.append(f"{head}{text}")
    return _wrapped(lines, width)


def _wrapped(lines: list[str], width: int) -> list[str]:
    """Long statements go on in a second line, further in."""
    return [
        piece
        for line in lines
        for piece in textwrap.wrap(
            line, width, subsequent_indent=" " * 8, drop_whitespace=True, break_long_words=False
        )
    ]


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
        heads: In such a line: the node that is one part's heads, for the words of their sizes.
    """

    keys: tuple[str, ...]
    view: View
    source: str
    n_before: int
    is_last: bool = False
    split: tuple[tuple[Size, ...], int] | None = None
    unbind: int | None = None
    heads: str = ""


def named_views(step: Extern, words: BufferWords) -> tuple[NamedView, ...]:
    """The lines before a library call, in order; none before one that only lays out anew what it is given."""
    if step.target is torch.ops.aten.contiguous.default:
        return ()
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
    found = [dataclasses.replace(line, is_last=reads[line.source] == 1) for line in lines.values()]
    return tuple(_without_detours(_heads_at_once(found, words), words))


def _without_detours(lines: Sequence[NamedView], words: BufferWords) -> list[NamedView]:
    """Not two lines where the first only gives a value the shape that the second, of the same name, changes again."""
    found: list[NamedView] = []
    for line in lines:
        last = found[-1] if found else None
        if (
            last is not None
            and (line.source,) == last.keys
            and last.is_last
            and last.split is None
            and last.unbind is None
            and words.provenance(line.source).local == words.provenance(line.keys[0]).local
            and all(_op(call) in _RESHAPES for call in last.view.calls[last.n_before :])
            and _op(line.view.calls[line.n_before]) in _RESHAPES
        ):
            found.pop()
            line = dataclasses.replace(line, source=last.source, n_before=last.n_before, is_last=last.is_last)
        found.append(line)
    return found


def view_key(step: Extern, node: str) -> str:
    """What the variable of a view is known by: each library call names the views before it anew."""
    return f"{node} before {', '.join(step.outputs) or step.origin}"


def _heads_at_once(lines: Sequence[NamedView], words: BufferWords) -> list[NamedView]:
    """Equal parts that are all viewed as heads alike, in one line instead of one for each and one for the split.

    ``q, k, v = qkv.view(batch, seq, 3, 12, 64).transpose(1, 3).unbind(2)``: seven calls become three, and each costs
    a microsecond or two in a model that waits for Python.
    """
    found = list(lines)
    for split in lines:
        parts = [line for line in found if line.source in split.keys]
        merged = _merged(split, parts, words)
        if merged is not None:
            first = found.index(parts[0])
            found = [
                merged if line is found[first] else line for line in found if line not in (split, *parts[1:])
            ]
    return found


def _merged(split: NamedView, parts: Sequence[NamedView], words: BufferWords) -> NamedView | None:
    """A split of the last dimension and the lines of its parts as one line; None if they are not that alike."""
    if split.split is None or sorted(part.source for part in parts) != sorted(split.keys) or len(parts) < 2:
        return None
    parts = sorted(parts, key=lambda part: split.keys.index(part.source))
    sizes, dim = split.split
    lead = [_as_size(size) for size in words.nodes[split.keys[0]].meta["val"].shape[:-1]]
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


def _op(call: ViewCall) -> str:
    return str(call.target.overloadpacket.__name__)


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


def drop_unread(paragraphs: Iterable[Paragraph], words: Iterable[str], used: Collection[str]) -> None:
    """Takes the lines that bind a word which nothing uses out of the paragraphs."""
    unread = tuple(f"{word} = " for word in words if word not in used)
    for paragraph in paragraphs:
        paragraph.lines[:] = [line for line in paragraph.lines if not line.startswith(unread)]
