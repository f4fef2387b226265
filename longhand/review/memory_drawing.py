"""The timeline of memory as a picture: how many bytes live, moment by moment, and below it a bar for each buffer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from longhand.review.memory_timeline import Bar, Timeline
from longhand.review.quantities import bytes_text

WIDTH, HEIGHT = 960, 150
BAR = 15
MOST_BARS = 48
_MOST_POINTS = 2_000
_LETTER = 6.3


@dataclasses.dataclass(frozen=True)
class DrawnBar:
    """A buffer: where its bar is, and what it says."""

    x: float
    y: int
    width: float
    text: str
    text_x: float
    is_text_before: bool
    title: str
    lives_at_peak: bool


@dataclasses.dataclass(frozen=True)
class MemoryDrawing:
    """One pass.

    Attributes:
        area: The outline of what lives, as SVG has it.
        peak: Bytes.
        peak_x: Where the peak is.
        peak_text: What it says there.
        bars: The largest buffers, in the order in which they begin.
        n_left_out: How many smaller ones have no bar.
        n_moments: Launches and library calls.
        height: Of the bars.
        at_peak: What lives at the peak, the largest first: (names, bytes).
    """

    area: str
    peak: int
    peak_x: float
    peak_text: str
    bars: tuple[DrawnBar, ...]
    n_left_out: int
    n_moments: int
    height: int
    at_peak: tuple[tuple[str, str], ...]


def draw_memory(timeline: Timeline) -> MemoryDrawing:
    """Draws it."""
    n_moments = len(timeline.moments)
    step = WIDTH / max(1, n_moments)
    peak, at = timeline.peak, timeline.peak_at
    largest = sorted(timeline.bars, key=lambda bar: (-bar.n_bytes, bar.first))[:MOST_BARS]
    shown = sorted(largest, key=lambda bar: (bar.first, -bar.n_bytes))
    moment = timeline.moments[at] if timeline.moments else ""
    living = sorted(
        (bar for bar in timeline.bars if bar.first <= at <= bar.last), key=lambda bar: -bar.n_bytes
    )
    return MemoryDrawing(
        area=_area(timeline, step),
        peak=peak,
        peak_x=round((at + 0.5) * step, 1),
        peak_text=f"{bytes_text(peak)} at {moment}",
        bars=tuple(_drawn(shown, step, at)),
        n_left_out=len(timeline.bars) - len(shown),
        n_moments=n_moments,
        height=len(shown) * BAR,
        at_peak=tuple((_names(bar), bytes_text(bar.n_bytes)) for bar in living[:8]),
    )


def _area(timeline: Timeline, step: float) -> str:
    """Steps up and down; of very many moments each point is the most of several."""
    live, peak = timeline.live, max(1, timeline.peak)
    each = max(1, -(-len(live) // _MOST_POINTS))
    parts = [f"M0 {HEIGHT}"]
    for begin in range(0, len(live), each):
        y = HEIGHT - (HEIGHT - 22) * max(live[begin : begin + each]) / peak
        parts.append(f"V{y:.1f} H{min(len(live), begin + each) * step:.1f}")
    return f"{' '.join(parts)} V{HEIGHT} Z" if live else ""


def _names(bar: Bar) -> str:
    part = f" of {bar.part}" if bar.part else ""
    return f"{' → '.join(bar.names)}{part}"


def _drawn(bars: Iterable[Bar], step: float, at: int) -> Iterable[DrawnBar]:
    for row, bar in enumerate(bars):
        x, width = bar.first * step, max(2.0, (bar.last - bar.first + 1) * step)
        text = f"{' → '.join(bar.names[:2])}{' →' * (len(bar.names) > 2)}  {bytes_text(bar.n_bytes)}"
        length = len(text) * _LETTER
        is_inside = length + 10 < width
        is_before = not is_inside and x + width + length + 8 > WIDTH
        text_x = x + 5 if is_inside else x - 5 if is_before else x + width + 5
        title = f"{_names(bar)}: {bytes_text(bar.n_bytes)}, moments {bar.first + 1} to {bar.last + 1}"
        is_at_peak = bar.first <= at <= bar.last
        yield DrawnBar(
            round(x, 1), row * BAR, round(width, 1), text, round(text_x, 1), is_before, title, is_at_peak
        )
