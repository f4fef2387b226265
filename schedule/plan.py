"""The complete plan: what emit/ prints. Nothing about speed, memory or legality is decided after this.

A `UnitPlan` is a list of steps (launches of kernels, library calls, allocations, releases, repeats) and the kernels
that the launches name. `schedule.kernels.kernel_plan` says what a kernel is; its names are the plan's too, since the
plan is all that emit/ knows of this room.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from longhand.capture.graph import TrainingGraphs
from longhand.lower.ir import Buffer, Extern, Program, Size, View
from longhand.options import Options
from longhand.schedule.kernels.address_terms import Address, Factor, ParameterRef, Product, ScalarRef, SizeOf
from longhand.schedule.kernels.halves import Halves
from longhand.schedule.kernels.kernel_plan import (
    Access,
    IntParameter,
    KernelPlan,
    OnlineSoftmax,
    Partial,
    Pass,
    PlanAxis,
    Pointer,
    Region,
    ScalarParameter,
    Stage,
    Tunable,
    scalar_at,
)
from longhand.schedule.kernels.kernel_schedule import AxisRole, KernelSchedule
from longhand.schedule.kernels.reads import KernelReads
from longhand.schedule.kernels.tensor_shapes import (
    PartTaken,
    conditions_of,
    dims_in_memory,
    is_accessed_in_part,
    limit_along,
    order_among_results,
    part_taken,
    row_stride,
    tensor_shape,
    told_by_data,
    walked_along,
)
from longhand.schedule.kernels.walked_dims import FewStrides, WalkedDims, few_strides, steps_to, walked_dims
from longhand.schedule.numerics.accumulator_precision import SumType
from longhand.schedule.numerics.infinite_rows import shows_in_infinite_rows
from longhand.schedule.numerics.narrow_positions import is_narrow_position
from longhand.schedule.numerics.zero_signs import told_signs
from longhand.schedule.targets import TargetFacts, facts_of

__all__ = [
    "Access",
    "Address",
    "Allocate",
    "AxisRole",
    "Factor",
    "FewStrides",
    "Group",
    "Halves",
    "IntParameter",
    "KernelPlan",
    "KernelReads",
    "KernelSchedule",
    "Launch",
    "OnlineSoftmax",
    "ParameterRef",
    "PartTaken",
    "Partial",
    "Pass",
    "PlanAxis",
    "PlanStep",
    "Pointer",
    "Product",
    "Refusal",
    "Region",
    "Release",
    "Repeat",
    "Reuse",
    "ScalarParameter",
    "ScalarRef",
    "SizeOf",
    "Stage",
    "SumType",
    "TargetFacts",
    "TrainingPlan",
    "Tunable",
    "UnitPlan",
    "UnitStep",
    "Verdict",
    "WalkedDims",
    "conditions_of",
    "dims_in_memory",
    "facts_of",
    "few_strides",
    "flat_steps",
    "is_accessed_in_part",
    "is_narrow_position",
    "limit_along",
    "order_among_results",
    "part_taken",
    "row_stride",
    "scalar_at",
    "shows_in_infinite_rows",
    "steps_to",
    "tensor_shape",
    "told_by_data",
    "told_signs",
    "touched",
    "walked_along",
    "walked_dims",
]


@dataclasses.dataclass(frozen=True)
class Group:
    """What one group of tensors gives to a launch over lists: see the attributes of the same names of `Launch`."""

    buffers: tuple[str, ...]
    sizes: tuple[Size, ...]


@dataclasses.dataclass(frozen=True)
class Launch:
    """One call of a kernel.

    Attributes:
        kernel: The plan's key.
        buffers: The buffer passed for each of the plan's pointers that is not scratch, in order.
        sizes: The size of each of the plan's axes, in order.
        ints: The value of each of its IntParameters, in order.
        scalars: The value of each of its ScalarParameters, in order.
        origins: Nodes of the captured graph that this call computes, in order.
        bytes_moved: Bytes read and written, each element once.
        others: Over lists: the buffers and sizes of the other groups that the call does; `buffers` and `sizes` are
            those of the first one, `origins` and `bytes_moved` cover all.
    """

    kernel: str
    buffers: tuple[str, ...]
    sizes: tuple[Size, ...]
    ints: tuple[Size, ...] = ()
    scalars: tuple[float | Size, ...] = ()
    origins: tuple[str, ...] = ()
    bytes_moved: Size = 0
    others: tuple[Group, ...] = ()

    @property
    def groups(self) -> tuple[Group, ...]:
        """Every group of tensors that the call does; only one over lists has several."""
        return (Group(self.buffers, self.sizes), *self.others)

    @property
    def touched(self) -> tuple[str, ...]:
        """The buffers of all groups, one group after the other."""
        return (*self.buffers, *(name for group in self.others for name in group.buffers))


@dataclasses.dataclass(frozen=True)
class Allocate:
    """Fresh memory for a buffer that a later launch writes.

    Attributes:
        buffer: Which.
        is_result: Whether the caller gets it (its memory is then never reused within the call).
        beside: What the launch that it is made for reads in the buffer's dtype, in the order of its arguments; then
            what was made for that launch just before.
        like: Those of them that have its shape and layout, too: it is made like one of them.
    """

    buffer: str
    is_result: bool = False
    beside: tuple[str, ...] = ()
    like: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Reuse:
    """A buffer takes over the memory of one that nothing reads afterwards (same dtype and number of elements).

    Attributes:
        buffer: The new name of the memory.
        of: The old one.
        in_place: Whether the very next launch reads `of` and writes `buffer`.
    """

    buffer: str
    of: str
    in_place: bool


@dataclasses.dataclass(frozen=True)
class Release:
    """The last use of these buffers is over; dropping them lowers peak memory."""

    buffers: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Repeat:
    """Structurally equal runs of steps, one after the other: printed as one function called in a loop.

    Attributes:
        runs: The steps of each run; all runs are equal up to the buffers named, or those of one kind are.
        paths: For each run the module path that its weights share: ``h.0``, ``h.1``, ...
        inputs: For each run, the buffers made outside that it reads and that differ from run to run by position
            (what the previous run made); the same length for each run.
        outputs: For each run, the buffers that it makes and that are read after it, in the same order for each run.
        own: For each run, what it alone reads of what was there before the first one, in the order of first use: its
            weights, and in a backward pass what the forward pass saved for it.
        previous: For each run, the weights that it reads of the module before its own: a norm's, or the factor of a
            layer's output, that became one kernel with how the next layer begins. The same length for each run.
        kinds: For each run which kind of layer it is, where there are several in turn; else empty. Runs of one kind are
            equal up to the buffers named, and each takes what the run right before it hands on, of whichever kind.
        family: Of a single run: a number that it has in common with repeats of equal runs, other steps between them.
        following: For each run, the weights that it reads of a module of the layer behind it, in which it ends: of the
            last one, those of the module behind all layers. The same length for each run.
    """

    runs: tuple[tuple[PlanStep, ...], ...]
    paths: tuple[str, ...]
    inputs: tuple[tuple[str, ...], ...]
    outputs: tuple[tuple[str, ...], ...]
    own: tuple[tuple[str, ...], ...] = ()
    previous: tuple[tuple[str, ...], ...] = ()
    kinds: tuple[int, ...] = ()
    family: int | None = None
    following: tuple[tuple[str, ...], ...] = ()

    def of_kind(self, kind: int) -> Repeat:
        """The runs of one kind alone."""
        chosen = [run for run, other in enumerate(self.kinds) if other == kind]

        def of(columns: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(columns[run] for run in chosen) if columns else ()

        columns = (self.runs, self.paths, self.inputs, self.outputs, self.own, self.previous, self.following)
        runs, paths, inputs, outputs, own, previous, following = map(of, columns)
        return Repeat(runs, paths, inputs, outputs, own, previous, following=following)

    @property
    def numbers(self) -> dict[tuple[int, int], tuple[float, ...]]:
        """What runs pass to kernels that differs between them: by place of the step and of the scalar, run by run."""
        differing: dict[tuple[int, int], tuple[float, ...]] = {}
        if self.kinds:
            return differing
        for place, steps in enumerate(zip(*self.runs, strict=False)):
            passed = [step.scalars for step in steps if isinstance(step, Launch)]
            for scalar, values in enumerate(zip(*passed, strict=False)):
                numbers = tuple(value for value in values if isinstance(value, float))
                if len(numbers) == len(self.runs) and len(set(map(repr, numbers))) > 1:
                    differing[place, scalar] = numbers
        return differing


PlanStep = Launch | Extern | Allocate | Reuse | Release
UnitStep = PlanStep | Repeat


def touched(step: PlanStep) -> tuple[str, ...]:
    """The buffers that a step names."""
    match step:
        case Launch():
            return step.touched
        case Extern():
            viewed = (view.buffer for view in step.views())
            names = (*viewed, *step.measured, *step.outputs, *step.mutates)
            return tuple(name for name in names if name)
        case Allocate():
            return (step.buffer,)
        case Reuse():
            return (step.of, step.buffer)
        case Release():
            return step.buffers
    raise AssertionError(step)


def flat_steps(steps: Iterable[UnitStep]) -> Iterator[PlanStep]:
    """The steps with every run of each repeat in its place."""
    for step in steps:
        if isinstance(step, Repeat):
            for run in step.runs:
                yield from run
        else:
            yield step


class Verdict(enum.Enum):
    """Why two steps are not one kernel."""

    NOT_LEGAL = "not legal"
    NOT_PROFITABLE = "not profitable"


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A fusion that was considered and not done."""

    producer: str
    consumer: str
    verdict: Verdict
    reason: str


@dataclasses.dataclass(frozen=True, eq=False)
class UnitPlan:
    """Everything that a generated unit runs.

    Attributes:
        program: The loop program it came from.
        options: What was asked for.
        kernels: By key, in order of first launch.
        steps: In order.
        buffers: Every buffer that the steps name.
        results: For each of ``program.graph.outputs`` (`program.results`).
        refusals: Fusions not done, with their reasons.
    """

    program: Program
    options: Options
    kernels: Mapping[str, KernelPlan]
    steps: tuple[UnitStep, ...]
    buffers: Mapping[str, Buffer]
    refusals: tuple[Refusal, ...] = ()

    @property
    def results(self) -> tuple[View | object, ...]:
        """What the call returns, leaf by leaf."""
        return self.program.results


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingPlan:
    """The backward pass that goes with a forward pass's plan.

    Attributes:
        graphs: Both captured graphs and how they hang together.
        backward: What the backward pass runs.
    """

    graphs: TrainingGraphs
    backward: UnitPlan


def buffers_read(step: UnitStep) -> Iterator[str]:
    """Buffers whose contents a step uses, or that it writes into."""
    match step:
        case Launch():
            yield from step.touched
        case Extern():
            yield from (view.buffer for view in step.views())
            yield from step.measured
            yield from step.mutates
        case Reuse(of=of):
            yield of
        case Repeat(runs=runs):
            for run in runs:
                for inner in run:
                    yield from buffers_read(inner)


def buffers_made(step: UnitStep) -> tuple[str, ...]:
    """Buffers that begin with a step."""
    match step:
        case Allocate(buffer=buffer) | Reuse(buffer=buffer):
            return (buffer,)
        case Extern(outputs=outputs):
            return outputs
        case Repeat(outputs=outputs):
            return tuple(dict.fromkeys(name for run in outputs for name in run))
    return ()
