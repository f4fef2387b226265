"""What scheduling does, in order: a list of named passes, each from a draft of the plan to the next.

A pass decides one thing and changes nothing that it is given. LONGHAND_DUMP shows what each one made, and
`schedule.verification.verifier` checks it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from longhand.lower.ir import Nest
from longhand.schedule.contractions.neighbours import take_neighbours_in
from longhand.schedule.differing_numbers import pass_differing_numbers
from longhand.schedule.draft import Draft
from longhand.schedule.fusion.alike_order import alike_in_one_order
from longhand.schedule.fusion.column_fusion import take_column_reductions_along
from longhand.schedule.fusion.counters import count_in_one_call
from longhand.schedule.fusion.fission import split_wide_nests
from longhand.schedule.fusion.horizontal import fuse_horizontally, in_one_order
from longhand.schedule.fusion.one_layout import store_in_one_layout
from longhand.schedule.fusion.result_order import results_in_order
from longhand.schedule.fusion.vertical import fuse
from longhand.schedule.kernels.planning import Planner
from longhand.schedule.layers.alike_ends import end_alike
from longhand.schedule.layers.repeats import fold_repeats
from longhand.schedule.layers.replication import replicate_layers
from longhand.schedule.layers.shared_values import before_derivatives, before_layers
from longhand.schedule.layout_copies import read_copies
from longhand.schedule.library_fallback import call_plain_ops
from longhand.schedule.memory.added_up import add_in_place
from longhand.schedule.memory.assignment import (
    place_buffers,
    release_buffers,
    release_run,
)
from longhand.schedule.numerics.closed_forms import close_norm_derivatives
from longhand.schedule.numerics.roundings import drop_roundings, round_decisions
from longhand.schedule.order import order_steps
from longhand.schedule.plan import Launch, Repeat
from longhand.schedule.read_shapes import shape_for_readers
from longhand.schedule.redundant_steps import clean_steps, drop_unread
from longhand.schedule.targets import facts_of


@dataclasses.dataclass(frozen=True)
class PlanPass:
    """One decision about a whole plan.

    Attributes:
        name: Unique in the list; of the dumped file, and in errors.
        doc: What it does, in a line.
        apply: From what the pass before it made; pure.
    """

    name: str
    doc: str
    apply: Callable[[Draft], Draft]


def _round_decisions(draft: Draft) -> Draft:
    return draft.with_steps(round_decisions(draft.loops, draft.buffers, draft.nodes))


def _clean(draft: Draft) -> Draft:
    return draft.with_steps(clean_steps(draft.loops, draft.buffers, draft.kept))


def _fuse(draft: Draft) -> Draft:
    fused = fuse(draft.loops, draft.buffers, draft.kept, draft.guess, draft.layers)
    return dataclasses.replace(draft, steps=tuple(fused.steps), refusals=fused.refusals)


def _drop_unread(draft: Draft) -> Draft:
    return draft.with_steps(drop_unread(draft.loops, draft.buffers, draft.kept))


def _close_norm_derivatives(draft: Draft) -> Draft:
    return draft.with_steps(close_norm_derivatives(draft.loops))


def _split_wide_nests(draft: Draft) -> Draft:
    return draft.with_steps(split_wide_nests(draft.loops, draft.position_of))


def _fuse_column_reductions(draft: Draft) -> Draft:
    return draft.with_steps(take_column_reductions_along(draft.loops, draft.buffers, draft.kept, draft.guess))


def _store_in_one_layout(draft: Draft) -> Draft:
    return draft.with_steps(store_in_one_layout(draft.loops, draft.buffers, draft.kept))


def _read_copies(draft: Draft) -> Draft:
    return draft.with_steps(read_copies(draft.loops))


def _shape_for_readers(draft: Draft) -> Draft:
    shaped = shape_for_readers(draft.loops, draft.buffers, draft.results, draft.nodes)
    return dataclasses.replace(draft, steps=shaped.steps, buffers=shaped.buffers, results=shaped.results)


def _order(draft: Draft) -> Draft:
    first = before_derivatives if draft.program.graph.paths else before_layers
    places = first(draft.loops, draft.position_of, draft.nodes, draft.buffers)
    return draft.with_steps(order_steps(draft.loops, places, draft.buffers, draft.kept, draft.hints))


def _order_bodies(draft: Draft) -> Draft:
    ordered = [results_in_order(step) if isinstance(step, Nest) else step for step in draft.loops]
    ordered = in_one_order(ordered, draft.program.graph, draft.position_of)
    return draft.with_steps(alike_in_one_order(ordered))


def _take_neighbours_in(draft: Draft) -> Draft:
    target = facts_of(draft.options.target)
    return draft.with_steps(take_neighbours_in(draft.loops, draft.buffers, draft.kept, target))


def _drop_roundings(draft: Draft) -> Draft:
    return draft.with_steps(drop_roundings(draft.loops, draft.buffers))


def _end_layers_alike(draft: Draft) -> Draft:
    graph = draft.program.graph
    if graph.paths:  # a backward pass
        return draft
    paths = {entry.node: entry.target for entry in graph.inputs if "." in entry.target}
    alike = end_alike(draft.loops, draft.buffers, paths)
    return dataclasses.replace(draft, steps=alike.steps, spared=alike.spared)


def _pass_differing_numbers(draft: Draft) -> Draft:
    return draft.with_steps(pass_differing_numbers(draft.loops, draft.buffers))


def _plan_kernels(draft: Draft) -> Draft:
    planner = Planner(draft.buffers, draft.options, draft.hints, draft.limits, draft.position_of)
    planned = planner.plan_all(draft.loops)
    return dataclasses.replace(
        draft,
        steps=tuple(call for call, _ in planned),
        kernels=planner.kernels,
        nests=tuple(done for _, done in planned),
    )


def _join_lists(draft: Draft) -> Draft:
    steps, kernels = fuse_horizontally(
        draft.calls, draft.nests, draft.kernels, draft.buffers, draft.program.graph, draft.options
    )
    return dataclasses.replace(draft, steps=tuple(steps), kernels=kernels)


def _add_in_place(draft: Draft) -> Draft:
    return dataclasses.replace(draft, steps=tuple(add_in_place(draft.calls, draft.buffers, draft.kept)))


def _place_buffers(draft: Draft) -> Draft:
    steps, kernels = place_buffers(
        draft.calls,
        draft.kernels,
        draft.buffers,
        draft.kept | draft.spared,
        facts_of(draft.options.target),
    )
    return dataclasses.replace(draft, steps=tuple(steps), kernels=kernels)


def _call_library(draft: Draft) -> Draft:
    steps, kernels = call_plain_ops(draft.plan_steps, draft.kernels, draft.buffers, draft.nodes)
    return dataclasses.replace(draft, steps=tuple(steps), kernels=kernels)


def _fold_repeats(draft: Draft) -> Draft:
    return draft.with_steps(fold_repeats(draft.plan_steps, draft.whole, draft.kept))


def _release_in_repeats(draft: Draft) -> Draft:
    return draft.with_steps(
        _released_inside(step, draft) if isinstance(step, Repeat) else step for step in draft.unit_steps
    )


def _released_inside(repeat: Repeat, draft: Draft) -> Repeat:
    """Releases inside each run of a repeat, of what it makes and keeps to itself."""
    runs = tuple(
        release_run(run, draft.buffers, draft.kept | frozenset(outputs), draft.hints)
        for run, outputs in zip(repeat.runs, repeat.outputs, strict=True)
    )
    return dataclasses.replace(repeat, runs=runs)


def _make_layers(draft: Draft) -> Draft:
    made = replicate_layers(draft.unit_steps, draft.kernels, draft.whole)
    return dataclasses.replace(
        draft, steps=tuple(made.steps), kernels=made.kernels, buffers=made.buffers, results=made.results
    )


def _count_once(draft: Draft) -> Draft:
    steps, kernels = count_in_one_call(
        draft.unit_steps, draft.kernels, draft.buffers, draft.program.graph, draft.kept
    )
    return dataclasses.replace(draft, steps=tuple(steps), kernels=kernels)


def _release(draft: Draft) -> Draft:
    handed_over = frozenset(draft.program.graph.given)
    return draft.with_steps(
        release_buffers(draft.unit_steps, draft.buffers, draft.kept, draft.hints, handed_over)
    )


def _tell_refusals_once(draft: Draft) -> Draft:
    later = {
        name
        for step in draft.unit_steps
        if isinstance(step, Repeat)
        for run in step.runs[1:]
        for inner in run
        if isinstance(inner, Launch)
        for name in inner.touched
    }
    told = tuple(refusal for refusal in draft.refusals if not {refusal.producer, refusal.consumer} <= later)
    return dataclasses.replace(draft, refusals=told)


PASSES: tuple[PlanPass, ...] = (
    PlanPass(
        "round_decisions", "What a decision is made of is rounded to 16 bits, as in memory.", _round_decisions
    ),
    PlanPass("clean", "Bodies without repetition, equal steps once, nothing that nobody reads.", _clean),
    PlanPass("fuse", "Producers into consumers and siblings together, by bytes saved.", _fuse),
    PlanPass("drop_unread", "Stores that fusion left without a reader go.", _drop_unread),
    PlanPass(
        "close_norm_derivatives",
        "Derivatives of norms are written in closed form, whatever the norm was written with.",
        _close_norm_derivatives,
    ),
    PlanPass(
        "split_wide_nests", "Nests of too many tensors into parts that share only reads.", _split_wide_nests
    ),
    PlanPass(
        "fuse_column_reductions",
        "Sums over the rows join a nest that walks these rows anyway.",
        _fuse_column_reductions,
    ),
    PlanPass(
        "store_in_one_layout",
        "What is stored in two layouts is stored in one that all readers can read.",
        _store_in_one_layout,
    ),
    PlanPass(
        "shape_for_readers",
        "Buffers have the shapes in which libraries read them, so that no view stands between.",
        _shape_for_readers,
    ),
    PlanPass(
        "grow_contractions",
        "What makes factors, or is made of sums, joins a contraction with a template.",
        _take_neighbours_in,
    ),
    PlanPass("drop_roundings", "What is read from memory is rounded already.", _drop_roundings),
    PlanPass("read_copies", "Calls read the contiguous copies that are made for loops.", _read_copies),
    PlanPass("order", "An order of low peak memory that respects the dependencies.", _order),
    PlanPass(
        "order_bodies",
        "Bodies and their results in an order that does not tell how fusion found them.",
        _order_bodies,
    ),
    PlanPass(
        "end_layers_alike",
        "What comes behind the last layer stores what stands between layers.",
        _end_layers_alike,
    ),
    PlanPass(
        "pass_differing_numbers",
        "Numbers in which nests differ that are otherwise equal become arguments.",
        _pass_differing_numbers,
    ),
    PlanPass(
        "plan_kernels",
        "Each nest is a launch, equal and twin ones of one kernel; a contraction is one or a call.",
        _plan_kernels,
    ),
    PlanPass("join_lists", "Launches of one kernel over lists of tensors are one launch.", _join_lists),
    PlanPass("add_in_place", "A product is added to a total where the total lies.", _add_in_place),
    PlanPass("place_buffers", "Memory for what launches write: new, or taken over in place.", _place_buffers),
    PlanPass("call_library", "A lone op that a library does as well is its call.", _call_library),
    PlanPass("fold_repeats", "Equal runs of steps are one repeat.", _fold_repeats),
    PlanPass("release_in_repeats", "What a run makes for itself is released inside it.", _release_in_repeats),
    PlanPass("make_layers", "The layers that the program leaves out, from those it holds.", _make_layers),
    PlanPass("count_once", "What modules count with is counted in one call.", _count_once),
    PlanPass("release", "Buffers are released after their last use where that lowers the peak.", _release),
    PlanPass(
        "tell_refusals_once",
        "What later runs of a repeat share is told of the first alone.",
        _tell_refusals_once,
    ),
)
