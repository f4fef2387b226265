"""The picture of what was fused: a box for each launch and library call, its statements in it, bytes between them.

Boxes stand in rows by what they wait for. A repeat is one frame around the boxes of its first run. Between neighbouring
rows a line goes straight; one that passes boxes goes around them on the right, in a lane of its own. All of it follows
from the picture in the lock, so the same unit is drawn alike on every machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from longhand.review.picture import Again, DrawnWork, PassPicture
from longhand.review.quantities import bytes_text

_LETTER = 6.7  # pixels of a character
_LINE, _PAD, _GAP, _ROW_GAP, _LANE = 19, 10, 34, 46, 13
_MOST_LETTERS, _MOST_CHIPS, _MOST_NAMES = 52, 6, 3
_FRAME = 26
_MOST_IN_ROW = 4


@dataclasses.dataclass(frozen=True)
class Chip:
    """A statement inside of a box."""

    text: str
    quote: str
    y: int


@dataclasses.dataclass(frozen=True)
class Box:
    """A launch or a library call.

    Attributes:
        number: Its place among the boxes.
        work: What it is.
        title: The kernel's name, or the library's function.
        note: Bytes and how often.
        chips: Its statements.
        more: How many of them are not shown.
        x, y, width, height: Where it is.
    """

    number: int
    work: DrawnWork
    title: str
    note: str
    chips: tuple[Chip, ...]
    more: int
    x: int
    y: int
    width: int
    height: int


@dataclasses.dataclass(frozen=True)
class Edge:
    """What one box makes and another reads.

    Attributes:
        path: As SVG has it.
        text: The buffers and their bytes.
        label: Where the text is.
        names: All of the buffers.
        first, last: The boxes.
    """

    path: str
    text: str
    label: tuple[int, int]
    names: str
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class RepeatFrame:
    """A repeat."""

    text: str
    x: int
    y: int
    width: int
    height: int


@dataclasses.dataclass(frozen=True)
class Apart:
    """Why two boxes are not one."""

    first: int
    second: int
    verdict: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Drawing:
    """One pass, drawn."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    frames: tuple[RepeatFrame, ...]
    apart: tuple[Apart, ...]
    n_left_out: int


@dataclasses.dataclass(frozen=True)
class _Node:
    """A box before it has a place."""

    work: DrawnWork
    again: Again | None
    rank: int


_Link = tuple[int, int]  # from box to box


def draw(drawn: PassPicture) -> Drawing:
    """Draws a pass."""
    nodes, links = _ranked(drawn)
    rows: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        rows.setdefault(node.rank, []).append(number)
    sizes = [_size(node) for node in nodes]
    places = _places(nodes, rows, sizes, links)
    boxes = tuple(_box(number, node, places[number], sizes[number]) for number, node in enumerate(nodes))
    right = max((box.x + box.width for box in boxes), default=0)
    edges = tuple(_edges(drawn, nodes, boxes, links, right))
    frames = tuple(_frames(nodes, boxes))
    ends = [edge.label[0] + int(len(edge.text) * _LETTER) + 8 for edge in edges]
    width = max([right + _PAD, *ends, *(frame.x + frame.width + _PAD for frame in frames)])
    height = max([box.y + box.height for box in boxes], default=0) + _FRAME
    return Drawing(width, height, boxes, edges, frames, tuple(_apart(drawn, nodes)), drawn.n_left_out)


def _ranked(drawn: PassPicture) -> tuple[list[_Node], dict[_Link, list[str]]]:
    """The boxes in their rows, and the buffers that go from one to another. A repeat has rows of its own."""
    nodes: list[_Node] = []
    writer: dict[str, int] = {}
    links: dict[_Link, list[str]] = {}
    n_in_row: dict[int, int] = {}
    floor = 0

    def add(work: DrawnWork, again: Again | None) -> None:
        number, rank = len(nodes), floor
        for name in work.reads:
            if name in writer:
                links.setdefault((writer[name], number), []).append(name)
                rank = max(rank, nodes[writer[name]].rank + 1)
        while n_in_row.get(rank, 0) >= _MOST_IN_ROW:
            rank += 1
        n_in_row[rank] = n_in_row.get(rank, 0) + 1
        writer.update(dict.fromkeys(work.writes, number))
        nodes.append(_Node(work, again, rank))

    for step in drawn.steps:
        if isinstance(step, DrawnWork):
            add(step, None)
        elif isinstance(step, Again):
            floor = max((node.rank for node in nodes), default=-1) + 1
            writer |= {name: writer[one] for name, one in step.begins.items() if one in writer}
            for inner in step.steps:
                if isinstance(inner, DrawnWork):
                    add(inner, step)
            floor = max((node.rank for node in nodes), default=-1) + 1
            writer |= {last: writer[first] for last, first in step.ends.items() if first in writer}
    return nodes, links


def _size(node: _Node) -> tuple[int, int]:
    texts = [_title(node.work), _note(node), *map(_chip_text, node.work.quotes[:_MOST_CHIPS])]
    lines = 2 + min(len(node.work.quotes), _MOST_CHIPS) + (len(node.work.quotes) > _MOST_CHIPS)
    return int(max(map(len, texts)) * _LETTER) + 2 * _PAD + 12, lines * _LINE + 2 * _PAD - 4


def _title(work: DrawnWork) -> str:
    return work.kernel or work.call


def _note(node: _Node) -> str:
    groups = f" over {node.work.groups} groups" if node.work.groups > 1 else ""
    return f"{bytes_text(node.work.n_bytes)}{groups}"


def _chip_text(quote: str) -> str:
    text = quote.partition("    ")[2]
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"


def _places(
    nodes: Sequence[_Node],
    rows: dict[int, list[int]],
    sizes: Sequence[tuple[int, int]],
    links: Iterable[_Link],
) -> list[tuple[int, int]]:
    """Row by row, the boxes of a row in the order of those that they read from, each row in the middle."""
    before: dict[int, list[int]] = {}
    for first, last in links:
        before.setdefault(last, []).append(first)
    middle: dict[int, float] = {}
    places = [(0, 0)] * len(nodes)
    widths = {
        rank: sum(sizes[number][0] for number in row) + _GAP * (len(row) - 1) for rank, row in rows.items()
    }
    widest = max(widths.values(), default=0)
    y, framed = _PAD, None
    for rank in sorted(rows):
        row = rows[rank]
        wanted = {
            number: (
                sum(middle[one] for one in before[number]) / len(before[number]) if number in before else 0
            )
            for number in row
        }
        row.sort(key=lambda number: (wanted[number], number))
        again = nodes[row[0]].again
        y += _FRAME if again is not framed else 0
        framed = again
        x = _FRAME + (widest - widths[rank]) // 2
        for number in row:
            places[number] = (x, y)
            middle[number] = x + sizes[number][0] / 2
            x += sizes[number][0] + _GAP
        y += max(sizes[number][1] for number in row) + _ROW_GAP
    return places


def _box(number: int, node: _Node, place: tuple[int, int], size: tuple[int, int]) -> Box:
    x, y = place
    shown = node.work.quotes[:_MOST_CHIPS]
    chips = tuple(
        Chip(_chip_text(quote), quote, y + _PAD + (2 + at) * _LINE - 2) for at, quote in enumerate(shown)
    )
    more = len(node.work.quotes) - len(shown)
    return Box(number, node.work, _title(node.work), _note(node), chips, more, x, y, *size)


def _edges(
    drawn: PassPicture,
    nodes: Sequence[_Node],
    boxes: Sequence[Box],
    links: dict[_Link, list[str]],
    right: int,
) -> Iterable[Edge]:
    lanes = _lanes(nodes, links)
    margin = right + _FRAME + _LANE * (max(lanes.values(), default=0) + 2)
    bottoms: dict[int, int] = {}
    for node, box in zip(nodes, boxes, strict=True):
        bottoms[node.rank] = max(bottoms.get(node.rank, 0), box.y + box.height)
    told: dict[int, int] = {}  # by row: how many lines that end there are labelled
    for link, names in sorted(links.items()):
        first, last = link
        begin, end = boxes[first], boxes[last]
        n_bytes = sum(drawn.tensors[name].n_bytes for name in names)
        few = ", ".join(names[:_MOST_NAMES]) + (" ..." if len(names) > _MOST_NAMES else "")
        text = f"{few}  {bytes_text(n_bytes)}"
        if link not in lanes:
            x, y = begin.x + begin.width // 2, begin.y + begin.height
            to_x, to_y = end.x + end.width // 2, end.y
            path = f"M{x} {y} C{x} {y + 22} {to_x} {to_y - 24} {to_x} {to_y - 4}"
            label = ((x + to_x) // 2 + 6, (y + to_y) // 2 + 3)
        else:
            # Down into the free space below the row, to the lane, and into the box from above.
            turn, row = right + _FRAME + _LANE * (lanes[link] + 1), nodes[last].rank
            x, to_x = begin.x + begin.width - 18, end.x + end.width - 18
            y, to_y = bottoms[nodes[first].rank] + 9, end.y - 13
            out = f"M{x} {begin.y + begin.height} V{y - 5} Q{x} {y} {x + 5} {y} H{turn - 6} Q{turn} {y} {turn} {y + 6}"
            back = (
                f"V{to_y - 6} Q{turn} {to_y} {turn - 6} {to_y} H{to_x + 5} Q{to_x} {to_y} {to_x} {to_y + 5}"
            )
            path = f"{out} {back} V{end.y - 4}"
            label = (margin, to_y - 1 - 14 * told.get(row, 0))
            told[row] = told.get(row, 0) + 1
        yield Edge(path, text, label, ", ".join(names), first, last)


def _lanes(nodes: Sequence[_Node], links: Iterable[_Link]) -> dict[_Link, int]:
    """For each line that passes rows: the first lane that is free there."""
    lanes: dict[_Link, int] = {}
    taken: list[list[tuple[int, int]]] = []
    for link in sorted(links):
        first, last = (nodes[number].rank for number in link)
        if last <= first + 1:
            continue
        is_free = (all(first >= end or last <= begin for begin, end in spans) for spans in taken)
        lane = next((number for number, free in enumerate(is_free) if free), len(taken))
        taken += [[]] if lane == len(taken) else []
        taken[lane].append((first, last))
        lanes[link] = lane
    return lanes


def _frames(nodes: Sequence[_Node], boxes: Sequence[Box]) -> Iterable[RepeatFrame]:
    by_repeat: dict[int, tuple[Again, list[Box]]] = {}
    for node, box in zip(nodes, boxes, strict=True):
        if node.again is not None:
            by_repeat.setdefault(id(node.again), (node.again, []))[1].append(box)
    for again, inner in by_repeat.values():
        x, y = min(box.x for box in inner) - 14, min(box.y for box in inner) - 22
        right, bottom = (
            max(box.x + box.width for box in inner) + 14,
            max(box.y + box.height for box in inner) + 12,
        )
        text = again.paths[0] if again.paths else ""
        if len(again.paths) > 1:
            varies = ", not all of it alike" if again.varies else ""
            text = f"{len(again.paths)} times{varies}: {again.paths[0]} … {again.paths[-1]}"
        yield RepeatFrame(text, x, y, max(right - x, int(len(text) * _LETTER) + 16), bottom - y)


def _apart(drawn: PassPicture, nodes: Sequence[_Node]) -> Iterable[Apart]:
    writer: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in node.work.writes:
            writer.setdefault(name, number)
    for one in drawn.refusals:
        first, second = writer.get(one.first), writer.get(one.second)
        if first is not None and second is not None and first != second:
            yield Apart(first, second, one.verdict, one.reason)
