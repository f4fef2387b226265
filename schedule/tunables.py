"""The numbers at the top of a kernel's file, and the thresholds between styles. Measured; a person may change them.

They depend on the style, the device and the widths of the elements, and never on sizes: one kernel serves many.
"""

from __future__ import annotations

import dataclasses

from longhand.options import Device
from longhand.schedule.plan import Style, Tunable


@dataclasses.dataclass(frozen=True)
class Work:
    """What the choice of tunables looks at.

    Attributes:
        device: Where the kernel runs.
        style: How it walks its space.
        has_rows: Whether there are row axes.
        is_split: Whether chunks leave partial results.
        is_heavy: Whether an element costs far more than its loads (exp, tanh, erf, ...).
        element_bytes: Of the widest tensor that varies over everything.
    """

    device: Device
    style: Style
    has_rows: bool
    is_split: bool
    is_heavy: bool
    element_bytes: int


def choose_tunables(work: Work) -> tuple[Tunable, ...]:
    """The block at the top of the file."""
    return _cuda(work) if work.device is Device.CUDA else _cpu(work)


def _cuda(work: Work) -> tuple[Tunable, ...]:
    match work.style:
        case Style.ELEMENTWISE if not work.has_rows:
            # 16 bytes a thread and load.
            lanes = 16 // max(1, min(work.element_bytes, 8))
            return Tunable("BLOCK", 128 * lanes, "elements per program"), Tunable("NUM_WARPS", 4)
        case Style.ELEMENTWISE:
            return (
                Tunable("ELEMENTS", 4096, "per program: short rows share one"),
                Tunable("COLS", 1024, "widest piece of a row"),
                Tunable("NUM_WARPS", 4),
            )
        case Style.TRANSPOSED:
            side = 128 if work.element_bytes <= 2 else 64
            return Tunable("TILE", side, "rows and columns of a tile"), Tunable("NUM_WARPS", 4)
        case Style.ROWS_PERSISTENT:
            # What costs only loads keeps more of them in flight.
            elements = 4096 if work.is_heavy else 8192
            return Tunable("ELEMENTS", elements, "per program: short rows share one"), Tunable("NUM_WARPS", 8)
        case Style.ROWS_LOOPED:
            return (
                Tunable("COLS", 1024, "columns at a time"),
                Tunable("NUM_WARPS", 16),
                Tunable("NUM_STAGES", 2),
            )
        case Style.ROWS_SPLIT:
            return (
                Tunable("COLS", 4096, "columns at a time"),
                Tunable("SPLITS", 512, "chunks of a row, at most"),
                Tunable("NUM_WARPS", 8),
            )
        case Style.COLUMNS:
            tile = (
                Tunable("ROWS", 32, "rows at a time"),
                Tunable("COLS", 128, "columns per program"),
            )
            splits = (Tunable("SPLITS", 64, "chunks of the rows, at most"),) if work.is_split else ()
            return (*tile, *splits, Tunable("NUM_WARPS", 8))


def _cpu(work: Work) -> tuple[Tunable, ...]:
    grain = Tunable("GRAIN", 4096 if work.is_heavy else 32768, "elements below which one thread does it all")
    match work.style:
        case Style.TRANSPOSED:
            return Tunable("TILE", 32, "rows and columns of a tile"), grain
        case Style.ROWS_SPLIT:
            return (
                Tunable("COLS", 8192, "columns per chunk, at least"),
                Tunable("SPLITS", 128, "chunks of a row, at most"),
                grain,
            )
        case Style.COLUMNS if work.is_split:
            return (
                Tunable("ROWS", 64, "rows per chunk, at least"),
                Tunable("COLS", 1024, "columns that are accumulated at a time"),
                Tunable("SPLITS", 64, "chunks of the rows, at most"),
                grain,
            )
        case Style.COLUMNS:
            return Tunable("COLS", 256, "columns that are accumulated at a time"), grain
    return (grain,)


# CUDA: a row of up to this many elements stays in registers: (values of the row alive at once, elements).
_PERSISTENT = ((2, 32768), (4, 16384))
_PERSISTENT_OTHERWISE = 8192
# CUDA: one loop that writes nothing for each element reads as fast as registers do, and takes fewer of them.
_PERSISTENT_ONE_PASS = 8192


def fits_registers(n_cols: int, live: int, n_passes: int, writes_rows: bool) -> bool:
    """Whether a program holds whole rows (CUDA)."""
    if n_passes == 1 and not writes_rows:
        return n_cols <= _PERSISTENT_ONE_PASS
    limit = next((elements for values, elements in _PERSISTENT if live <= values), _PERSISTENT_OTHERWISE)
    return n_cols <= limit


def should_split_rows(device: Device, n_rows: int, n_cols: int) -> bool:
    """Whether rows are so few and long that chunks of them should run at the same time."""
    if device is Device.CUDA:
        return n_rows < 264 and n_cols > 16384
    return n_rows < 16 and n_cols >= 65536


def should_split_columns(device: Device, n_rows: int, n_cols: int) -> bool:
    """Whether chunks of the rows of a column reduction should run at the same time."""
    if device is Device.CUDA:
        return n_rows >= 256 and n_cols < 128 * 264
    return n_rows >= 256 and n_rows * n_cols >= 65536
