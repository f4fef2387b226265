"""The numbers at the top of a kernel's file, and the thresholds between styles. Measured; a person may change them.

They depend on the style, the device and the widths of the elements, and never on sizes: one kernel serves many.
"""

from __future__ import annotations

import dataclasses

from longhand.options import Device
from longhand.schedule.kernels.kernel_plan import Style, Tunable


@dataclasses.dataclass(frozen=True)
class Work:
    """What the choice of tunables looks at.

    Attributes:
        device: Where the kernel runs.
        style: How it walks its space.
        has_rows: Whether there are row axes.
        has_cols: Whether there are col axes.
        is_split: Whether chunks leave partial results.
        is_heavy: Whether an element costs far more than its loads (exp, tanh, erf, ...).
        is_long: Whether rows are longer than most programs hold (see `fits_registers`).
        writes_rows: Whether a reduction's kernel also stores whole rows.
        is_turned: Whether a tile copies what is contiguous along the rows before it is read (CPU).
        element_bytes: Of the widest tensor that varies over everything.
        live_words: How many 32-bit registers the values of one element take, where most are alive at once.
    """

    device: Device
    style: Style
    has_rows: bool
    has_cols: bool
    is_split: bool
    is_heavy: bool
    is_long: bool
    writes_rows: bool
    is_turned: bool
    element_bytes: int
    live_words: int = 1


def choose_tunables(work: Work) -> tuple[Tunable, ...]:
    """The block at the top of the file."""
    return _cuda(work) if work.device is Device.CUDA else _cpu(work)


def _cuda(work: Work) -> tuple[Tunable, ...]:
    match work.style:
        case Style.ELEMENTWISE if not (work.has_rows or work.has_cols):
            return (Tunable("NUM_WARPS", 1),)
        case Style.ELEMENTWISE if not work.has_rows:
            # 16 bytes a thread and load.
            lanes = 16 // max(1, min(work.element_bytes, 8))
            return Tunable("BLOCK", 128 * lanes, "elements per program"), Tunable("NUM_WARPS", 4)
        case Style.FOREACH if not work.has_cols:
            return (Tunable("NUM_WARPS", 1),)
        case Style.FOREACH:
            lanes = 16 // max(1, min(work.element_bytes, 8))
            return Tunable("BLOCK", 256 * lanes, "elements per program"), Tunable("NUM_WARPS", 8)
        case Style.ELEMENTWISE:
            elements = _in_registers(4096, work.live_words, n_warps=4)
            return (
                Tunable("ELEMENTS", elements, "per program: short rows share one"),
                Tunable("COLS", min(512, elements), "widest piece of a row"),
                Tunable("NUM_WARPS", 4),
            )
        case Style.TRANSPOSED:
            wide = _in_registers(128 * 128, work.live_words, n_warps=8) == 128 * 128
            side = 128 if work.element_bytes <= 2 and wide else 64
            return Tunable("TILE", side, "rows and columns of a tile"), Tunable("NUM_WARPS", 8)
        case Style.ROWS_PERSISTENT if not work.has_rows:
            return (Tunable("NUM_WARPS", 16 if work.is_long else 8),)
        case Style.ROWS_PERSISTENT if work.is_long:
            return Tunable("ELEMENTS", 32768, "per program: short rows share one"), Tunable("NUM_WARPS", 16)
        case Style.ROWS_PERSISTENT:
            # What costs only loads keeps more of them in flight.
            elements = 4096 if work.is_heavy else 8192
            return (
                Tunable("ELEMENTS", elements, "per program: short rows share one"),
                Tunable("PROGRAMS", 4096, "at least, where there are rows for them"),
                Tunable("NUM_WARPS", 8),
            )
        case Style.ROWS_AND_COLUMNS:
            return (
                Tunable("ELEMENTS", _STEP, "at a time: short rows share a step"),
                Tunable("SPLITS", _CHUNKS, "chunks of the rows, at most"),
                Tunable("SUM_COLS", 16, "columns of a program that adds up the chunks"),
                Tunable("NUM_WARPS", 4),
            )
        case Style.ROWS_LOOPED:
            return (
                Tunable("COLS", 4096 if work.writes_rows else 1024, "columns at a time"),
                Tunable("NUM_WARPS", 16),
                Tunable("NUM_STAGES", 2),
            )
        case Style.ROWS_SPLIT:
            return (
                Tunable("COLS", 8192, "columns at a time"),
                Tunable("SPLITS", 512, "chunks of a row, at most"),
                Tunable("NUM_WARPS", 8),
            )
        case Style.COLUMNS if work.is_split and work.writes_rows:
            # Whole pieces of rows are written, too (gelu and its gradient, 8192 x 3072 on an H200: 62 us; 80 as below).
            return (
                Tunable("ROWS", 32 // max(2, min(work.element_bytes, 8)), "rows at a time"),
                Tunable("COLS", 128, "columns per program"),
                Tunable("SPLITS", 32, "chunks of the rows, at most"),
                Tunable("NUM_WARPS", 4),
            )
        case Style.COLUMNS if work.is_split:
            return (
                # 64 bytes a thread on their way, twice that as the loop is unrolled.
                Tunable("ROWS", 128 // max(2, min(work.element_bytes, 8)), "rows at a time"),
                Tunable("COLS", 64, "columns per program"),
                Tunable("SPLITS", 32, "chunks of the rows, at most"),
                Tunable("NUM_WARPS", 4),
            )
        case Style.COLUMNS:
            return (
                Tunable("ROWS", 16, "rows at a time"),
                Tunable("COLS", 64, "columns per program"),
                Tunable("NUM_WARPS", 4),
            )


def _in_registers(elements: int, live_words: int, n_warps: int) -> int:
    """How many elements of a program stay in registers: `elements`, or fewer where their values are crowded."""
    threads = 32 * n_warps
    if live_words * elements <= _MOST_REGISTERS * threads:
        return elements
    while live_words * elements > _CROWDED_REGISTERS * threads and elements > threads:
        elements //= 2
    return elements


def _cpu(work: Work) -> tuple[Tunable, ...]:
    grain = Tunable("GRAIN", 4096 if work.is_heavy else 32768, "elements below which one thread does it all")
    match work.style:
        case Style.TRANSPOSED:
            return *_tile(work), grain
        case Style.ROWS_SPLIT:
            return (
                Tunable("COLS", 8192, "columns per chunk, at least"),
                Tunable("SPLITS", 128, "chunks of a row, at most"),
                grain,
            )
        case Style.ROWS_AND_COLUMNS:
            return (
                Tunable("ROWS", 32, "rows per chunk, at least"),
                Tunable("SPLITS", 256, "chunks of the rows, at most"),
                grain,
            )
        case Style.COLUMNS if work.is_split:
            return (
                Tunable("ROWS", 32, "rows per chunk, at least"),
                Tunable("COLS", 1024, "columns that are accumulated at a time"),
                Tunable("SPLITS", 256, "chunks of the rows, at most"),
                grain,
            )
        case Style.COLUMNS:
            return Tunable("COLS", 256, "columns that are accumulated at a time"), grain
        case Style.FOREACH if not work.has_cols:
            return ()
        case Style.FOREACH:
            return (Tunable("CHUNK", 16384, "elements that a thread takes at a time"),)
    return (grain,)


def _tile(work: Work) -> tuple[Tunable, ...]:
    """The sides of a tile on a CPU."""
    if work.is_turned:
        # Long rows: several lines of cache, one after the other, are what the processor fetches ahead.
        cols = 256 if work.element_bytes <= 4 else 128
        return Tunable("TILE_ROWS", 64, "rows of a tile"), Tunable("TILE_COLS", cols, "columns of a tile")
    # Two cache lines of the strided side: wider tiles evict their own lines where sizes are powers of two.
    side = 128 // min(work.element_bytes, 8)
    return Tunable("TILE_ROWS", side, "rows of a tile"), Tunable("TILE_COLS", side, "columns of a tile")


# CUDA: registers that the values of a thread's elements may seem to take. A compiler loads some of them late; where
# there are many it spills all the same (sm_90: 8 values of 32 elements none, 12 a kilobyte, 29 of them 24).
_MOST_REGISTERS = 256
_CROWDED_REGISTERS = 160

# CUDA: up to this many elements of a row stay in the registers of 8 warps.
_PERSISTENT = 16384
_PERSISTENT_CROWDED = 8192  # where more than this many values of the row are alive at once:
_CROWD = 6
# ... and of 16 warps, where few are, and the row is written: two loops would read it twice.
_PERSISTENT_LONG = 32768
_FEW = 3


def is_long_row(n_cols: int) -> bool:
    """Whether a row needs the registers of more warps than usual (CUDA)."""
    return n_cols > _PERSISTENT


def fits_registers(n_cols: int, live: int, writes_rows: bool) -> bool:
    """Whether a program holds whole rows (CUDA); `live` values of the row are alive at once."""
    if live > _CROWD:
        return n_cols <= _PERSISTENT_CROWDED
    return n_cols <= (_PERSISTENT_LONG if live <= _FEW and writes_rows else _PERSISTENT)


# CUDA: rows that are kept whole while their columns are added up. Two programs share a multiprocessor; few warps with
# many elements each wait less for each other (8192 x 768 on an H200: 31 us; with 8 warps and half the elements 52).
_STEP = 4096  # elements at a time
_CHUNKS = 256


def chunks_of_rows(n_rows: int, n_cols: int) -> int:
    """How many programs share the rows of a ROWS_AND_COLUMNS kernel; each leaves a part of every sum."""
    padded = 1 << max(0, n_cols - 1).bit_length()
    return min(_CHUNKS, -(-n_rows // max(1, _STEP // padded)))


def should_split_rows(device: Device, n_rows: int, n_cols: int) -> bool:
    """Whether rows are so few and long that chunks of them should run at the same time."""
    if device is Device.CUDA:
        return n_rows < 264 and n_cols > 16384
    return n_rows < 16 and n_cols >= 65536


def should_split_columns(device: Device, n_rows: int, n_cols: int) -> bool:
    """Whether chunks of the rows of a column reduction should run at the same time."""
    if device is Device.CUDA:
        return n_rows >= 256 and n_cols < 64 * 1024
    return n_rows >= 256 and n_rows * n_cols >= 65536
