"""COLUMNS: reduces over all rows, in `passes` over the rows; results vary over the cols. The last col axis is
contiguous and makes the lanes; further col axes are a batch. With `partials` (then there is one pass) the rows are cut
into chunks, which are combined as in ROWS_SPLIT.

Tunables. CUDA: ROWS x MAX_COLS is the tile of one step of a program, NUM_WARPS;
``cols = min(MAX_COLS, next_power_of_2(size of the last col axis))``; of a kernel for columns of few rows and of many
(see `schedule.kernels.twins`) also ``rows = min(ROWS, next_power_of_2(n_rows))``. With partials PROGRAMS, which share
the columns and the rows, ``splits = min(PROGRAMS // cdiv(n_cols, cols), cdiv(n_rows, ROWS))``, and SUM_COLS (cols that
a program of the second kernel adds up). CPU: COLS (cols that a thread accumulates at a time), GRAIN; with partials ROWS
and SPLITS.
"""

from __future__ import annotations

from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.schedules.entry import (
    Candidate,
    ColumnShape,
    KernelWork,
    Loops,
    ScheduleEntry,
    grain,
)
from longhand.schedule.kernels.space import Family
from longhand.schedule.targets import CPP, TRITON

COLUMNS = KernelSchedule(
    "columns",
    has_passes=True,
    is_down_columns=True,
)


def _loops(candidate: Candidate) -> Loops | None:
    if candidate.space.family is not Family.COLUMNS:
        return None
    is_split = candidate.passes.is_splittable and _should_split(
        candidate.target.name, candidate.n_rows, candidate.n_cols, candidate.passes.writes_elements
    )
    return Loops(candidate.passes, candidate.masking, is_split)


_FEW_ROWS, _TALL, _MANY_COLS = 32, 256, 64 * 1024
# A second launch costs the host its time, and the GPU more than it saves (bf16, H200, us, in one launch or two: 1500 x
# 384 3.0 and 3.4, 1500 x 1536 3.2 and 4.3, 2048 x 768 3.5 and 3.8; an H100 with 4 warps, 4096 x 768 8.0 and 5.0).
_MOST_UNSPLIT = 2048


def column_shape(n_rows: int, n_cols: int) -> ColumnShape:
    """What `n_cols` columns of `n_rows` rows are, those of a batch counted together."""
    if n_rows < _FEW_ROWS:
        return ColumnShape.LOW
    if n_cols >= (_MANY_COLS if n_rows >= _TALL else _MANY_COLS // 4):
        return ColumnShape.WIDE
    if n_rows < _TALL or n_cols < _MANY_COLS // 8:
        return ColumnShape.TALL
    return ColumnShape.TALL_MANY if n_cols < _MANY_COLS // 4 else ColumnShape.TALL_MOST


def _should_split(target: str, n_rows: int, n_cols: int, writes_elements: bool) -> bool:
    """Whether chunks of the rows should run at the same time. Where nothing was measured they do not."""
    is_work = writes_elements or n_rows > _MOST_UNSPLIT  # more than what is added up anyway
    pays = {
        TRITON.name: is_work and n_rows >= _TALL and n_cols < _MANY_COLS,
        CPP.name: n_rows >= _TALL and n_rows * n_cols >= 65536,
    }
    return pays.get(target, False)


# Of columns that one program each walks down: rows, columns, warps.
_TILES = {
    ColumnShape.LOW: (16, 32, 4),
    ColumnShape.WIDE: (16, 32, 4),
    ColumnShape.TALL: (256, 16, 8),
    ColumnShape.TALL_MANY: (128, 32, 8),
    ColumnShape.TALL_MOST: (64, 32, 4),
}


def _cuda(work: KernelWork) -> tuple[Tunable, ...]:
    if not work.is_split:
        # Many loads on their way (bf16, H200, us, so and, as it was, by 4 warps or in blocks of 16 x 64: 128 x 384 1.8
        # and 2.3, 49 x 768 1.6 and 1.9, 512 x 768 2.1 and 3.0, 1500 x 384 3.0 and 5.9, 1024 x 3072 3.5 and 4.8, two
        # sums of 196 x 768 2.4 and 4.8). Wide and low: 128 x 50304 in blocks of 16 x 32 4.3, of 16 x 64 5.0. Where
        # there are more columns, a warp's pieces of rows may be longer (bf16, H200, us, a sum and a sum of products of
        # two tensors, in blocks of 256 x 16, 128 x 32 by 8 warps and 64 x 32 by 4: 8 times 1024 x 1152 20.8, 16.7 and
        # 22.6, 16 times 512 x 768 14.4, 12.1 and 13.7, 32 times 256 x 768 16.2, 13.9 and 12.1).
        rows, cols, warps = _TILES[work.columns]
        is_any = work.columns is not ColumnShape.WIDE  # wide and high at once is a case of its own
        return (
            Tunable("ROWS", rows, "rows at a time", by_height=is_any),
            Tunable("MAX_COLS", cols, "columns per program, at most", by_height=is_any),
            Tunable("NUM_WARPS", warps, by_height=is_any),
        )
    # As many programs as a GPU runs at once, whatever the shape (bf16, H100, us, both kernels; so and with at most 32
    # chunks where rows are written, 64 elsewhere: a batch norm's gradients of its weight and bias, 802816 x 32 64 and
    # 453, 200704 x 256 119 and 156, 3136 x 512 6.2 and 6.4; a sum, 200704 x 96 14 and 29, 8192 x 768 6.0 and 6.2; a
    # sum of 32768 x 768 is slower, 26 and 23).
    if work.writes_rows:
        # Whole pieces of rows are written, too (gelu, its gradient and the bias's, 200704 x 384 241 and 957, 8192 x
        # 3072 84 and 89; a batch norm's gradient and a bias's, 200704 x 96 51 and 430, by 4 warps 62).
        rows, cols, warps = 32 // max(4, min(work.element_bytes, 8)), 128, 4 if work.is_heavy else 2
    else:
        # 16 elements a thread on their way, twice that as the loop is unrolled (bf16, H200, us, so, in blocks of 32 x
        # 32 by 2 warps, and of 64 x 64 with 32 chunks: 65536 x 2048 67, 90 and 65, 16384 x 2048 20, 26 and 21, 32768
        # x 768 14, 20 and 18, 200704 x 96 10, 10 and 33, 802816 x 32 16, 20 and 174, 4096 x 768 5.4, 4.6 and 5.1).
        rows, cols, warps = 256 // max(4, min(work.element_bytes, 8)), 32, 4
    return (
        Tunable("ROWS", rows, "rows at a time"),
        Tunable("MAX_COLS", cols, "columns per program, at most"),
        Tunable("PROGRAMS", 1024, "in all, about"),
        Tunable("SUM_COLS", 16, "columns of a program that adds up the chunks"),
        Tunable("NUM_WARPS", warps),
    )


def _cpu(work: KernelWork) -> tuple[Tunable, ...]:
    if not work.is_split:
        return Tunable("COLS", 256, "columns that are accumulated at a time"), *grain(work)
    return (
        Tunable("ROWS", 32, "rows per chunk, at least"),
        Tunable("COLS", 1024, "columns that are accumulated at a time"),
        Tunable("SPLITS", 256, "chunks of the rows, at most"),
        *grain(work),
    )


ENTRY = ScheduleEntry(COLUMNS, _loops, {TRITON.name: _cuda, CPP.name: _cpu})
