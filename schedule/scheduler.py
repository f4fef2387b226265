"""From a loop program to the complete plan: clean, fuse, order, plan kernels, place buffers, find repeats."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.lower.ir import Buffer, Extern, Nest, Program, View
from longhand.options import Options
from longhand.schedule.column_fusion import take_column_sums_along
from longhand.schedule.division import divide
from longhand.schedule.fusion import fuse
from longhand.schedule.horizontal import fuse_horizontally, in_one_order
from longhand.schedule.instances import make_instances
from longhand.schedule.memory import place_buffers, release_buffers, release_run
from longhand.schedule.order import order_steps
from longhand.schedule.plain_calls import call_plain_ops
from longhand.schedule.plan import Launch, Refusal, Repeat, UnitPlan, UnitStep, touched
from longhand.schedule.planning import Planner
from longhand.schedule.redundancy import clean_steps, drop_unread
from longhand.schedule.repeats import fold_repeats
from longhand.schedule.sizes import Hints, guess


def schedule(program: Program, options: Options) -> UnitPlan:
    """The complete plan of a program.

    Args:
        program: What lower made.
        options: What is generated; the device decides how kernels walk their space.

    Raises:
        ScheduleError: A step could not be planned: a bug of ours.
        LayersDiffer: The layers that the program leaves out cannot be told from those it holds.
    """
    hints = {size.symbol: size.example for size in program.graph.symbols}
    limits = {size.symbol: size.maximum for size in program.graph.symbols}
    position_of = {node.name: place for place, node in enumerate(program.graph.graph.nodes)}
    kept, buffers = _kept(program), program.buffers

    steps = clean_steps(program.steps, buffers, kept)
    fused = fuse(steps, buffers, kept, lambda size: guess(size, hints))
    left = divide(drop_unread(fused.steps, buffers, kept), position_of)
    left = take_column_sums_along(left, buffers, kept, lambda size: guess(size, hints))
    ordered = in_one_order(order_steps(left, position_of, buffers, kept, hints), program.graph, position_of)

    planner = Planner(buffers, options, hints, limits, position_of)
    planned: list[Launch | Extern] = [
        planner.launch(step) if isinstance(step, Nest) else step for step in ordered
    ]
    planned, kernels = fuse_horizontally(planned, ordered, planner.kernels, buffers, program.graph, options)
    placed, kernels = place_buffers(planned, kernels, buffers, kept)
    nodes = {node.name: node for node in program.graph.graph.nodes}
    placed, kernels = call_plain_ops(placed, kernels, buffers, nodes)
    folded = _release_in_runs(fold_repeats(placed, program, kept), buffers, kept, hints)
    made = make_instances(folded, kernels, program)
    whole = dataclasses.replace(program, buffers=made.buffers, results=made.results)
    handed_over = frozenset(program.graph.given)
    finished = release_buffers(made.steps, made.buffers, _kept(whole), hints, handed_over)
    used = _used(finished, whole)
    refusals = _told_once(fused.refusals, finished)
    return UnitPlan(whole, options, made.kernels, tuple(finished), used, refusals)


def _kept(program: Program) -> frozenset[str]:
    """The buffers that the caller sees."""
    return frozenset(result.buffer for result in program.results if isinstance(result, View))


def _told_once(refusals: tuple[Refusal, ...], steps: list[UnitStep]) -> tuple[Refusal, ...]:
    """The refusals without those that a repeat's later runs share with its first."""
    later = {
        name
        for step in steps
        if isinstance(step, Repeat)
        for run in step.runs[1:]
        for inner in run
        if isinstance(inner, Launch)
        for name in inner.touched
    }
    return tuple(refusal for refusal in refusals if not {refusal.producer, refusal.consumer} <= later)


def _release_in_runs(
    steps: Sequence[UnitStep], buffers: Mapping[str, Buffer], kept: frozenset[str], hints: Hints
) -> list[UnitStep]:
    """Releases inside each run of a repeat, of what it makes and keeps to itself."""
    found: list[UnitStep] = []
    for step in steps:
        if isinstance(step, Repeat):
            runs = tuple(
                release_run(run, buffers, kept | frozenset(outputs), hints)
                for run, outputs in zip(step.runs, step.outputs, strict=True)
            )
            step = dataclasses.replace(step, runs=runs)
        found.append(step)
    return found


def _used(steps: list[UnitStep], program: Program) -> dict[str, Buffer]:
    """The buffers that the plan names, in the program's order."""
    names = {result.buffer for result in program.results if isinstance(result, View)}
    for step in steps:
        for one in (inner for run in step.runs for inner in run) if isinstance(step, Repeat) else (step,):
            names.update(touched(one))
    return {name: buffer for name, buffer in program.buffers.items() if name in names}
