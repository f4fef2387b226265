"""The plan of one kernel: one fused nest whose iteration space has become **rows x cols**.

* `rows` are the axes that programs (GPU) or threads (CPU) divide among themselves, outermost first. More than one row
  axis means that they could not be merged into one; the flattened row number is then split by named div and mod
  (Triton) or by nested loops (C++).
* `cols` are the axes along which one program or thread works through its vector lanes. More than one likewise.

Every body value varies over rows, cols, both or neither. Axes that all accesses treat as one are merged before this,
so an elementwise kernel over contiguous tensors has no rows and one col axis.

Kernels are independent of sizes: an address is a sum of terms, each a product of an axis and factors that are axis
sizes or stride arguments, never numbers of one call.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Iterable, Mapping

import torch

from longhand.capture.graph import Role
from longhand.lower.ir import BOUNDARIES, Size, Store, Value
from longhand.schedule.kernels.address_terms import Address
from longhand.schedule.kernels.halves import Halves
from longhand.schedule.kernels.kernel_schedule import AxisRole, KernelSchedule
from longhand.schedule.numerics.numerics import Numerics


@dataclasses.dataclass(frozen=True)
class PlanAxis:
    """One axis of a kernel.

    Attributes:
        name: The axis's key in the kernel's body and addresses.
        role: Row or col.
        end: The position of the Scalar that a loop over it ends at; None: it ends at the axis's size.
    """

    name: str
    role: AxisRole
    end: int | None = None


class Access(enum.Enum):
    """What a kernel does with a pointer."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"  # updates in place through one pointer


class Region(enum.Enum):
    """What a kernel takes of a tensor."""

    WHOLE = "whole"  # every element; the tensor is contiguous
    IN_MEMORY = "in memory"  # every element; the dimensions lie in memory in another order (channels last)
    FIRST = "first"  # the elements that a contiguous tensor begins with
    STRIDED = "strided"  # every element, where strides that are arguments say
    PART = "part"

    def __or__(self, other: Region) -> Region:
        """What is so for the calls of both."""
        if self is other or (other is Region.WHOLE and self in (Region.IN_MEMORY, Region.FIRST)):
            return self
        if self is Region.WHOLE and other in (Region.IN_MEMORY, Region.FIRST):
            return other
        return Region.PART


@dataclasses.dataclass(frozen=True)
class Pointer:
    """A tensor argument of a kernel.

    Attributes:
        name: Its key: the buffer's name in the launch that the kernel was planned from. Body loads and stores of the
            kernel use this key as their `buffer`.
        dtype: Element type in memory.
        access: Read, write or both.
        dims: The axes that index it, outermost first, for the words of the comment: ``(n_rows, n_cols)``. Empty for
            one element. None where no such words exist (gathered tables, overlapping windows).
        may_alias: Names of pointers that some launch passes the same memory for (in-place use is legal).
        scratch: True for partial results that the kernel's host function allocates itself (splits).
        many: FOREACH: a list with a tensor for each group; False for a tensor that all groups share.
        region: How much of the tensor it is, in every call (see `schedule.kernels.tensor_shapes`).
    """

    name: str
    dtype: torch.dtype
    access: Access
    dims: tuple[str, ...] | None
    may_alias: tuple[str, ...] = ()
    scratch: bool = False
    many: bool = False
    region: Region = Region.WHOLE

    def shared_with(self, other: Pointer, axes: Mapping[str, str]) -> Pointer:
        """The pointer of a kernel with the calls of both.

        Args:
            other: Another call's.
            axes: This kernel's axes, by the names that they have where the other call was planned; rows first.
        """
        theirs = None if other.dims is None else tuple(axes[axis] for axis in other.dims)
        region = self.region | other.region
        if self.dims == theirs:
            return dataclasses.replace(self, region=region)
        if self.dims is None or theirs is None:
            return dataclasses.replace(self, dims=None, region=Region.PART)
        # Walked by strides: in no memory's order, but in that of the loops.
        return dataclasses.replace(
            self, dims=tuple(axis for axis in axes.values() if axis in self.dims), region=region
        )


@dataclasses.dataclass(frozen=True)
class IntParameter:
    """A stride or offset argument.

    Attributes:
        name: Its key, used by ParameterRef.
        pointer: The pointer that it belongs to; None for the step or the start of a `IndexExpression`.
        axis: For a stride: the axis it steps along. None for an offset, or the stride of a gathered index.
    """

    name: str
    pointer: str | None
    axis: str | None


@dataclasses.dataclass(frozen=True)
class ScalarParameter:
    """A number argument: ``eps``.

    Attributes:
        position: The `Scalar` in the body that it feeds (the first of equals).
        dtype: Its type in the kernel.
        name: A word for it, or None.
        varies: Whether it is a float made of sizes that differ from call to call: a kernel that were compiled for its
            value would be compiled at each. (Triton takes numbers as float32, which is less than float64 needs.)
    """

    position: int
    dtype: torch.dtype
    name: str | None
    varies: bool = False


@dataclasses.dataclass(frozen=True)
class Tunable:
    """A number that a person may change without changing the result.

    Attributes:
        name: In capitals, as printed: ELEMENTS, WARP_ELEMENTS, ROWS, COLS, NUM_WARPS, NUM_STAGES, TILE, TILE_ROWS,
            TILE_COLS, BLOCK, SPLITS, GRAIN.
        value: As planned.
        comment: Half a line for the reader.
        by_size: Whether the value follows from how many elements a call has. A kernel of several calls has the
            numbers of the largest.
        by_height: Whether it is for columns of few rows, or of many: a kernel for both has the number for many, and its
            tile is no higher than the columns of a call.
    """

    name: str
    value: int
    comment: str = ""
    by_size: bool = False
    by_height: bool = False


@dataclasses.dataclass(frozen=True)
class Stage:
    """A value kept from one pass to the next in a row-sized scratch or in the output row that will hold it.

    Where `store` is a Store of this very value, and among the same pass's `stores`, one write serves both.
    """

    position: int
    store: int | None  # the Store in whose buffer it may wait; None: a scratch row of its own


@dataclasses.dataclass(frozen=True)
class OnlineSoftmax:
    """A maximum and a sum of exponentials found in one pass with a running correction.

    Attributes:
        max: Position of the Reduce MAX of x.
        sum: Position of the Reduce SUM of exp(x - max).
    """

    max: int
    sum: int


@dataclasses.dataclass(frozen=True)
class Pass:
    """One loop over the cols of a row (COLUMNS: over the rows of a block of cols).

    A value that varies along the loop is an *element* value; all others are *outer* values. Constants, Scalars and
    Extents are printed where they are used and stand in no list. All lists are in the body's order.

    Attributes:
        compute: Element values (loads and positions included) evaluated for each element; what an earlier pass
            computed may recur (recomputed, loads included).
        from_stage: Element values read back from where `stages` of an earlier pass put them, instead of being
            computed. They are not in `compute`.
        reductions: Positions of Reduce (or an OnlineSoftmax) accumulated by this loop. Their arguments are in
            `compute` or `from_stage` (OnlineSoftmax: x is; exp(x - max) is not), or are outer values that count once
            for each element.
        stages: Values put aside for later passes; each is in `compute`.
        stores: Positions of Stores done for each element.
        then: Outer values and stores evaluated after the loop. The reductions themselves are not listed: they are
            final here.
        sums: ROWS_AND_COLUMNS, CPU: positions of the sums over all rows to which each element of this loop is added.
    """

    compute: tuple[int, ...]
    from_stage: tuple[int, ...] = ()
    reductions: tuple[int | OnlineSoftmax, ...] = ()
    stages: tuple[Stage, ...] = ()
    stores: tuple[int, ...] = ()
    then: tuple[int, ...] = ()
    sums: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Partial:
    """Where the chunks of a split reduction leave their results.

    The scratch tensor is (n_rows, splits) in ROWS_SPLIT and (splits, n_cols) in the others. Both kernels see it; chunks
    are combined in order (no atomics), so that results are the same in every run.

    Attributes:
        position: The Reduce (of an OnlineSoftmax: its max and its sum have a Partial each).
        pointer: Name of the scratch Pointer.
        is_index: For ARG*: this one holds the int64 positions, another holds the values.
    """

    position: int
    pointer: str
    is_index: bool = False


@dataclasses.dataclass(frozen=True)
class IndexWidths:
    """CUDA: what a kernel must count in 64 bits (see `schedule.kernels.index_width`). Everything else fits in 32.

    Attributes:
        axes: For each of the kernel's axes, whether its index must be int64 before it is multiplied.
        counts: Whether the number of elements along the axis's side may itself pass 32 bits: then so must the products
            of its sizes, and the variable of a loop over it.
        split: Whether the number of a chunk must be int64.
        flat_grid: ELEMENTWISE, rows and cols: blocks of cols are too many for a grid's second side.
        large: Some tensor may have that many elements, or a position may be that far. Other kernels refuse such.
    """

    axes: tuple[bool, ...] = ()
    counts: tuple[bool, ...] = ()
    split: bool = False
    flat_grid: bool = False
    large: bool = False

    def __or__(self, other: IndexWidths) -> IndexWidths:
        """What serves the calls of both."""
        return IndexWidths(
            tuple(one or two for one, two in itertools.zip_longest(self.axes, other.axes, fillvalue=False)),
            tuple(
                one or two for one, two in itertools.zip_longest(self.counts, other.counts, fillvalue=False)
            ),
            self.split or other.split,
            self.flat_grid or other.flat_grid,
            self.large or other.large,
        )


@dataclasses.dataclass(frozen=True)
class KernelPlan:
    """One kernel file.

    The body holds no value that nothing uses. Axes of its Reduces and Extents are the plan's (merged) axes.

    Attributes:
        key: Canonical hash (hex): equal keys are the same math over the same kind of space, whatever sizes and names.
        schedule: How it walks its space; what each does, and its tunables, is told in schedule/kernels/schedules/.
        axes: Rows first, then cols, outermost first.
        body: The fused body. Loads and stores name pointers; their `index` is that of the first launch and not to be
            printed: `addresses` is.
        addresses: For each Load, Store and IndexExpression of the body, by position, its address.
        pointers: In order of printing: what is read, then what is written, each in order of first use.
        ints: Stride and offset arguments.
        scalars: Number arguments.
        tunables: The block at the top of the file.
        transposed: CPU, TRANSPOSED: positions of Loads that each tile copies, transposed, before its loops (see
            `schedule.kernels.transposed_staging`). It follows from body and addresses, so the key does not hold it.
        passes: For ROWS_LOOPED, ROWS_SPLIT, COLUMNS and ROWS_AND_COLUMNS; before the first pass come the outer values
            that need none.
        before: Outer values (see Pass) that the passes' loops use and that depend on no pass, in order. Where chunks
            are combined by a second kernel, it evaluates again those that its `then` uses.
        partials: With ROWS_SPLIT and ROWS_AND_COLUMNS always, with COLUMNS where the rows are split: results of the
            chunks.
        guards: Positions of Reduces: the argument must be replaced by the reduction's identity past the end of the
            loop's side, since the padded lanes of a block do not hold it by themselves. (For an OnlineSoftmax: its max,
            and the identity is that of a maximum.) Blocks of lanes only: plain loops need none.
        padding: For each Load by position that varies along the reduced side: the value that lanes past the end get
            (`other=`). For a Load with a mask of its own it equals the Load's `other`. Loads that are not in it need no
            `other=`.
        spared: By what a guarded sum of squares squares: the guarded sums that need no guard where that is zero past
            the end.
        widths: CUDA: what must be counted in 64 bits. The key does not hold it: a kernel with one call that needs it
            has it for all.
        numerics: How exactly its values are computed. It follows from body and dtypes, so the key does not hold it.
        halves: What is printed where the columns are walked half by half. It follows from body, addresses and the
            sizes of every launch, so the key does not hold it.
        origins: Nodes of the captured graph that the body computes, in order, from the first launch.
        bytes_moved: Bytes read and written by the first launch, each element once.
    """

    key: str
    schedule: KernelSchedule
    axes: tuple[PlanAxis, ...]
    body: tuple[Value, ...]
    addresses: Mapping[int, Address]
    pointers: tuple[Pointer, ...]
    ints: tuple[IntParameter, ...] = ()
    scalars: tuple[ScalarParameter, ...] = ()
    tunables: tuple[Tunable, ...] = ()
    transposed: tuple[int, ...] = ()
    passes: tuple[Pass, ...] = ()
    before: tuple[int, ...] = ()
    partials: tuple[Partial, ...] = ()
    guards: tuple[int, ...] = ()
    padding: Mapping[int, float | int | bool] = dataclasses.field(default_factory=dict)
    spared: Mapping[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    widths: IndexWidths = IndexWidths()
    numerics: Numerics = dataclasses.field(default_factory=Numerics)
    halves: Halves | None = None
    origins: tuple[str, ...] = ()
    bytes_moved: Size = 0

    def __or__(self, other: KernelPlan) -> KernelPlan:
        """The same kernel for the calls of both: what one of them needs, or must not be told, holds for both."""
        axes = {two.name: one.name for one, two in zip(self.axes, other.axes, strict=True)}
        pointers = tuple(
            one.shared_with(two, axes) for one, two in zip(self.pointers, other.pointers, strict=True)
        )
        halves = self.halves if other.halves is not None else None
        tunables = max(
            self.tunables, other.tunables, key=lambda choice: [tunable.value for tunable in choice]
        )
        body = tuple(_shared_name(one, two) for one, two in zip(self.body, other.body, strict=True))
        return dataclasses.replace(
            self,
            body=body,
            scalars=tuple(dataclasses.replace(one, name=body[one.position].name) for one in self.scalars),
            widths=self.widths | other.widths,
            pointers=pointers,
            tunables=tunables,
            halves=halves,
        )

    @property
    def rows(self) -> tuple[PlanAxis, ...]:
        """The row axes, outermost first."""
        return tuple(axis for axis in self.axes if axis.role is AxisRole.ROW)

    @property
    def cols(self) -> tuple[PlanAxis, ...]:
        """The col axes, outermost first."""
        return tuple(axis for axis in self.axes if axis.role is AxisRole.COL)

    def has_wide_index(self, axes: Iterable[str]) -> bool:
        """Whether an index over any of these axes must be int64."""
        return self._any(self.widths.axes, axes)

    def has_wide_count(self, axes: Iterable[str]) -> bool:
        """Whether the number of elements along these axes may pass 32 bits."""
        return self._any(self.widths.counts, axes)

    def _any(self, flags: tuple[bool, ...], axes: Iterable[str]) -> bool:
        wide = {axis.name for axis, flag in zip(self.axes, flags, strict=False) if flag}
        return not wide.isdisjoint(axes)


def _shared_name(one: Value, other: Value) -> Value:
    """A value of a body with the word that it has in the body of another call, too; without one if that differs."""
    if isinstance(one, Store) or isinstance(other, Store) or one.name == other.name:
        return one
    both = {one.name, other.name}
    return dataclasses.replace(one, name=Role.BOUNDARY if both <= BOUNDARIES else None)


def scalar_at(plan: KernelPlan, position: int) -> int:
    """Where the `Scalar` stands that an argument of the kernel feeds: the first that equals the one at `position`."""
    return next(one.position for one in plan.scalars if plan.body[one.position] == plan.body[position])
