"""What the module of a kernel schedule says, and what it is asked with."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Callable, Mapping

from longhand.lower.ir import Axis, Buffer, Store
from longhand.schedule.kernels.inter_pass_caching import InterPassCache
from longhand.schedule.kernels.kernel_plan import Tunable
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.masks import Masking, find_masking
from longhand.schedule.kernels.pass_depths import PassDepths, find_pass_depths
from longhand.schedule.kernels.pass_levels import Passes, find_passes, store_pass
from longhand.schedule.kernels.space import Family, NestSpace
from longhand.schedule.sizes import Hints, guess
from longhand.schedule.targets import TargetFacts

_NO_PASSES, _NO_MASKING = Passes((), ()), Masking((), {})


class ColumnShape(enum.Enum):
    """How high columns are, and how many: what a GPU is kept busy by."""

    LOW = "low"  # so few rows that the tile of tall ones, cut to them, is as good as a tile of its own
    WIDE = "wide"  # so many columns that programs which walk down 32 of them are enough
    TALL = "tall"  # programs of 32 columns would be few, and long at it: they take few columns, and many rows at once
    TALL_MANY = "tall_many"  # tall, and enough of them for 32 columns a program, by twice the warps
    TALL_MOST = "tall_most"  # tall, and enough of them for fewer rows at a time


@dataclasses.dataclass(frozen=True)
class Loops:
    """How a schedule goes through a space.

    Attributes:
        passes: Its loops; none where the body is computed in order.
        masking: What lanes past the end hold.
        is_split: Whether chunks leave partial results.
    """

    passes: Passes = _NO_PASSES
    masking: Masking = _NO_MASKING
    is_split: bool = False


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A space that wants a schedule, and what several of them ask of it.

    Attributes:
        space: Rows x cols.
        buffers: Every buffer that its body names.
        target: What it is planned for.
        hints: Values of symbolic sizes, as at capture.
    """

    space: NestSpace
    buffers: Mapping[str, Buffer]
    target: TargetFacts
    hints: Hints

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return count(self.space.rows, self.hints)

    @property
    def n_cols(self) -> int:
        """How many cols there are."""
        return count(self.space.cols, self.hints)

    @functools.cached_property
    def depths(self) -> PassDepths:
        """Which loop over the reduced side each value waits for."""
        looped = frozenset(axis.name for axis in self.space.loop)
        return find_pass_depths(self.space.body, looped, online=self.target.has_online_softmax)

    @functools.cached_property
    def passes(self) -> Passes:
        """The loops over the reduced side."""
        return self.passes_of(self.depths)

    @functools.cached_property
    def masking(self) -> Masking:
        """What lanes past the end of these loops hold."""
        return find_masking(self.depths)

    def passes_of(self, depths: PassDepths) -> Passes:
        """Loops, and what waits between them."""
        rows = {
            position: store_pass(depths, position)
            for position, value in enumerate(depths.body)
            if isinstance(value, Store) and depths.is_element[position]
        }
        has_scratch = self.space.family is Family.ROWS
        return find_passes(
            depths,
            InterPassCache(
                depths, self.buffers, rows, is_on=self.target.keeps_between_loops, has_scratch=has_scratch
            ),
        )


@dataclasses.dataclass(frozen=True)
class KernelWork:
    """What the choice of tunables looks at. No sizes: one kernel serves many.

    Attributes:
        has_rows: Whether there are row axes.
        has_cols: Whether there are col axes.
        has_several_cols: Whether there is more than one col axis.
        is_split: Whether chunks leave partial results.
        is_heavy: Whether an element costs far more than its loads (exp, tanh, erf, ...).
        columns: How high columns are, and how many there are.
        is_small: Whether there are so few elements that a program's own latency counts, not the memory.
        is_long: Whether rows are longer than most programs hold (see schedules/rows_persistent.py).
        has_varied_cols: Whether the cols may be more, in another call, than there are now.
        is_across: Whether something lies in memory column after column, where the kernel reduces rows.
        writes_rows: Whether a reduction's kernel also stores whole rows.
        is_transposed: Whether a tile copies what is contiguous along the rows before it is read (CPU).
        element_bytes: Of the widest tensor, a vector among them.
        live_words: How many 32-bit registers the values of one element take, where most are alive at once.
    """

    has_rows: bool
    has_cols: bool
    element_bytes: int
    has_several_cols: bool = False
    is_split: bool = False
    is_heavy: bool = False
    columns: ColumnShape = ColumnShape.WIDE
    is_small: bool = False
    is_long: bool = False
    has_varied_cols: bool = False
    is_across: bool = False
    writes_rows: bool = False
    is_transposed: bool = False
    live_words: int = 1


Tuning = Callable[[KernelWork], tuple[Tunable, ...]]


@dataclasses.dataclass(frozen=True)
class ScheduleEntry:
    """A kernel schedule in the list.

    Attributes:
        schedule: What plans hold of it.
        loops: How it goes through a space; None where it does not apply.
        tunables: By target's name, the block at the top of the file: measured numbers that a person may change.
    """

    schedule: KernelSchedule
    loops: Callable[[Candidate], Loops | None]
    tunables: Mapping[str, Tuning]


def count(axes: tuple[Axis, ...], hints: Hints) -> int:
    """How many elements axes span."""
    return math.prod(guess(axis.size, hints) for axis in axes)


def grain(work: KernelWork) -> tuple[Tunable, ...]:
    """CPU: when threads are worth their start."""
    return (
        Tunable("GRAIN", 4096 if work.is_heavy else 32768, "elements below which one thread does it all"),
    )
