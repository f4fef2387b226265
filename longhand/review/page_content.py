"""What stands on the review page, as values: rendering.py only prints them.

Statements of the user's are numbered; whatever came from one carries its number, in the source, in model.py, in the
kernels and in the picture, and the page lights what has the number that is pointed at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from longhand.review.fusion_drawing import Drawing, draw
from longhand.review.highlighting import Piece, highlighted
from longhand.review.memory_drawing import MemoryDrawing, draw_memory
from longhand.review.memory_timeline import timeline_of
from longhand.review.model_source import ModelSource, find_source
from longhand.review.picture import Picture, read_picture
from longhand.review.quantities import bytes_text, milliseconds_text
from longhand.review.revision_changes import FileChange, KernelChange, changed_files, changed_kernels
from longhand.review.statement_links import begins_reference, link_kernel, link_model
from longhand.review.unit_content import UnitContent
from longhand.staleness.edit_report import FileEdit, edits_among

_GOLDEN_ANGLE = 137.508  # so that neighbours have colours far apart
_MODEL_FILES = ("model.py", "backward.py")


@dataclasses.dataclass(frozen=True)
class QuotedStatement:
    """A statement of the user's."""

    number: int
    function: str
    text: str
    hue: int
    where: str


@dataclasses.dataclass(frozen=True)
class PageLine:
    """A line of a text: its number, its pieces with their classes, the statements it came from."""

    number: int
    pieces: tuple[Piece, ...]
    statements: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class PaneText:
    """A text in a pane.

    Attributes:
        title: What it is headed by.
        note: Beside the title.
        lines: All of it.
    """

    title: str
    note: str
    lines: tuple[PageLine, ...]


@dataclasses.dataclass(frozen=True)
class KernelPane:
    """A kernel.

    Attributes:
        name, title: Its name, and what it computes.
        text: Its file.
        reference: The Python face of a C++ kernel; None where the text holds its reference.
        statements: All that its launches do.
        n_calls, n_bytes: In one call of the unit.
        time, bandwidth: What was measured, in words; empty if nothing was.
        edited: Lines that a person added and removed, ``+1 -1``; empty if none.
    """

    name: str
    title: str
    text: PaneText
    reference: PaneText | None
    statements: tuple[int, ...]
    n_calls: int
    n_bytes: int
    time: str
    bandwidth: str
    edited: str


@dataclasses.dataclass(frozen=True)
class PassView:
    """One pass, drawn."""

    name: str
    fusion: Drawing
    memory: MemoryDrawing
    refused: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Page:
    """The whole page."""

    name: str
    unit: str
    facts: tuple[tuple[str, str], ...]
    statements: tuple[QuotedStatement, ...]
    source: tuple[PaneText, ...]
    missing: tuple[QuotedStatement, ...]
    models: tuple[PaneText, ...]
    kernels: tuple[KernelPane, ...]
    passes: tuple[PassView, ...]
    edits: tuple[FileEdit, ...]
    since: str
    kernel_changes: tuple[KernelChange, ...]
    file_changes: tuple[FileChange, ...]
    n_of: Mapping[str, int]

    @property
    def kernel_bytes(self) -> int:
        """What the kernels read and write in one call."""
        return sum(kernel.n_bytes for kernel in self.kernels)


def page_of(
    folder: Path,
    unit: UnitContent,
    *,
    before: UnitContent | None = None,
    since: str = "",
    times: Mapping[str, Any] | None = None,
) -> Page:
    """The page of a unit.

    Args:
        folder: The unit's, for its name.
        unit: As it is shown.
        before: What it is compared with.
        since: What that is called.
        times: What ``longhand bench --json`` printed.
    """
    lock, edits = unit.lock, edits_among(unit.files)
    picture = read_picture(lock)
    quotes = _quotes(lock, picture)
    n_of = {quote: number for number, quote in enumerate(quotes)}
    where = lock.get("quotes", {})
    statements = tuple(_statement(number, quote, where.get(quote, "")) for number, quote in enumerate(quotes))
    source = find_source(where, unit.read_source)
    kernels = tuple(
        _kernel(unit, picture, name, n_of, edits, times or {}) for name in sorted(lock.get("kernels", {}))
    )
    passes = tuple(_passes(picture))
    return Page(
        name=str(lock.get("name", folder.name)),
        unit=folder.as_posix(),
        facts=tuple(_facts(lock, picture, kernels, passes, edits)),
        statements=statements,
        source=tuple(_source_texts(source, n_of)),
        missing=tuple(statements[n_of[quote]] for quote, _ in source.missing),
        models=tuple(
            _model(unit, path, quotes, n_of, picture) for path in _MODEL_FILES if path in unit.files
        ),
        kernels=kernels,
        passes=passes,
        edits=tuple(edits),
        since=since,
        kernel_changes=tuple(changed_kernels(before, unit)) if before is not None else (),
        file_changes=tuple(changed_files(before, unit)) if before is not None else (),
        n_of=n_of,
    )


def _quotes(lock: Mapping[str, Any], picture: Picture) -> list[str]:
    """Every statement, in the order in which the unit does them; last those that nothing says so of."""
    done = (quote for one in picture.passes for work, _ in one.work for quote in work.quotes)
    inside = (quote for words in picture.lines.values() for quotes in words.values() for quote in quotes)
    return list(dict.fromkeys([*done, *inside, *lock.get("quotes", {})]))


def _statement(number: int, quote: str, where: str) -> QuotedStatement:
    function, _, text = quote.partition("    ")
    return QuotedStatement(number, function, text, int(number * _GOLDEN_ANGLE + 210) % 360, where)


def _text(
    title: str, note: str, lines: Sequence[str], links: Sequence[Iterable[int]], *, first: int = 1
) -> PaneText:
    pieces = highlighted(lines, title.endswith((".cpp", ".h")))
    page_lines = [
        PageLine(first + at, tuple(pieces[at]), tuple(sorted(set(links[at])))) for at in range(len(lines))
    ]
    return PaneText(title, note, tuple(page_lines))


def _source_texts(source: ModelSource, n_of: Mapping[str, int]) -> Iterable[PaneText]:
    for piece in source.pieces:
        lines = [line.text for line in piece.lines]
        links = [[n_of[quote] for quote in line.quotes] for line in piece.lines]
        yield _text(piece.name, piece.file, lines, links, first=piece.lines[0].number)


def _model(
    unit: UnitContent, path: str, quotes: Iterable[str], n_of: Mapping[str, int], picture: Picture
) -> PaneText:
    lines = unit.lines(path)
    links = [[n_of[quote] for quote in line_quotes] for line_quotes in link_model(lines, quotes, picture)]
    return _text(path, "", lines, links)


def _kernel(
    unit: UnitContent,
    picture: Picture,
    name: str,
    n_of: Mapping[str, int],
    edits: Iterable[FileEdit],
    times: Mapping[str, Any],
) -> KernelPane:
    works = [work for one in picture.passes for work, _ in one.work if work.kernel == name]
    does = tuple(dict.fromkeys(quote for work in works for quote in work.quotes))
    path = unit.kernel_path(name)
    lines = unit.lines(path)
    is_cpp = path.endswith(".cpp")
    links = link_kernel(
        lines, does, picture.lines.get(name, {}), len(lines) if is_cpp else begins_reference(lines)
    )
    face = f"kernels/{name}.py"
    own = [edit for edit in edits if edit.path in (path, face)]
    traffic = unit.lock.get("traffic", {}).get(name, [0, 0])
    title = next(
        (one.get("title", "") for one in unit.lock["ledger"].values() if one.get("kernel") == name), ""
    )
    measured = times.get("kernels", {}).get(name, {})
    return KernelPane(
        name=name,
        title=str(title),
        text=_text(path, "", lines, [[n_of[quote] for quote in line_quotes] for line_quotes in links]),
        reference=_plain(unit, face) if is_cpp and face in unit.files else None,
        statements=tuple(n_of[quote] for quote in does),
        n_calls=int(traffic[0]),
        n_bytes=int(traffic[1]),
        time=milliseconds_text(measured["ms"]) if measured else "",
        bandwidth=f"{measured['gb_per_s']:.3g} GB/s" if measured.get("gb_per_s") else "",
        edited=(f"+{sum(one.n_added for one in own)} -{sum(one.n_removed for one in own)}" if own else ""),
    )


def _plain(unit: UnitContent, path: str) -> PaneText:
    lines = unit.lines(path)
    return _text(path, "", lines, [()] * len(lines))


def _passes(picture: Picture) -> Iterable[PassView]:
    held = 0
    for number, one in enumerate(picture.passes):
        timeline = timeline_of(one, held)
        held = timeline.held
        drawing = draw(one)
        refused = tuple(
            (work.call, work.reason)
            for work in {work.call: work for work, _ in one.work if work.reason}.values()
        )
        name = ("forward", "backward")[number] if number < 2 else str(number)
        yield PassView(name, drawing, draw_memory(timeline), refused)


def _facts(
    lock: Mapping[str, Any],
    picture: Picture,
    kernels: Sequence[KernelPane],
    passes: Sequence[PassView],
    edits: Sequence[FileEdit],
) -> Iterable[tuple[str, str]]:
    yield "from", str(lock.get("source", ""))
    arch = f" ({lock['arch']})" if lock.get("arch") else ""
    yield "for", f"{lock.get('device', '')}{arch}, {'training' if lock.get('train') else 'inference'}"
    n_calls = sum(kernel.n_calls for kernel in kernels)
    yield "kernels", f"{len(kernels)}, launched {n_calls} time{'s' * (n_calls != 1)}"
    if picture.passes:
        n_library = sum(times for one in picture.passes for work, times in one.work if not work.kernel)
        yield "library calls", str(n_library)
    yield "kernels move", bytes_text(sum(kernel.n_bytes for kernel in kernels))
    if passes:
        yield "peak of memory", bytes_text(max(one.memory.peak for one in passes))
    n_edited = len(edits)
    yield "edited by hand", f"{n_edited} file{'s' * (n_edited != 1)}" if n_edited else "nothing"
