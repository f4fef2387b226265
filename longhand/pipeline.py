"""The whole compiler on one screen: capture, lower, schedule, emit, prove, write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from longhand.capture.autograd.training import ready_to_train, train
from longhand.capture.graph import CapturedGraph, TrainingGraphs
from longhand.capture.known.held import with_held
from longhand.collection import no_collection
from longhand.emit.unit.files import emit_unit
from longhand.emit.unit.threeway import ConflictStyle
from longhand.emit.unit.torch_kernels import NONE_IN_TORCH, InTorch
from longhand.emit.unit.writer import read_ledger, write_unit
from longhand.lower.draft import LoweringDraft
from longhand.lower.ir import Buffer, View
from longhand.lower.layouts import trained_filters
from longhand.lower.lowering import lower, memory_of_saved
from longhand.lower.printing import print_program
from longhand.options import Options
from longhand.proof.fallbacks import warn_of_torch_kernels
from longhand.proof.keeping import tried
from longhand.proof.kernels import faulty_kernels, make_ready
from longhand.proof.python import prove_python
from longhand.proof.trial import TrialPlace
from longhand.schedule.draft import Draft
from longhand.schedule.layers.replication import LayersDiffer
from longhand.schedule.names.unit import name_plans
from longhand.schedule.plan import TrainingPlan, UnitPlan
from longhand.schedule.printing import print_plan
from longhand.schedule.scheduler import schedule
from longhand.schedule.without_input import made_of_nothing
from longhand.telling.clock import Clock
from longhand.telling.dump import Dump
from longhand.telling.logs import Subject, logger
from longhand.telling.summary import Summary, summarize
from longhand.verify.checking import inspect_edits


def compile_unit(
    capture: Callable[[], CapturedGraph],
    options: Options,
    out: Path,
    clock: Clock,
    stage: TrialPlace | None = None,
    style: ConflictStyle = ConflictStyle.BESIDE,
) -> Summary:
    """From a model to a folder of source code.

    Args:
        capture: Captures the model; it runs inside, so that its time is counted.
        options: What to compile for.
        out: The unit's folder: made, or brought up to date.
        clock: Where the stages' times go.
        stage: Where the unit is run once before it is kept; None keeps it as it is.
        style: What is put into the unit where an edit and the new version conflict.

    Raises:
        VerificationError: The unit does not compute what its original does. What was on disk is untouched.
        LonghandError: Any stage failed. What was on disk is untouched.
    """
    make_ready(options.target)
    with no_collection():
        plan, training, files = plan_and_text(capture, options, out, clock)
        with clock.stage("compile"):
            plans = [plan] if training is None else [plan, training.backward]
            in_torch = faulty_kernels(plans, files, out, clock.tell)

        def emit(in_torch: Mapping[str, InTorch]) -> dict[str, str | bytes]:
            with clock.stage("emit"):
                return _text(plan, training, out, in_torch)

        if in_torch:
            files = emit(in_torch)
        told = ""
        if stage is not None:
            files, told = tried(stage, files, in_torch, emit, clock)
        with clock.stage("write"):
            report = write_unit(files, out, inspect_edits, style)
    in_torch_names = warn_of_torch_kernels(files)
    logger(Subject.OUTPUT_CODE).info("%s\n%s", out, files.get("model.py", ""))
    return summarize(plan, out, tuple(files), clock.timings(), report, training, in_torch_names, told)


def plan_and_text(
    capture: Callable[[], CapturedGraph],
    options: Options,
    out: Path,
    clock: Clock,
    in_torch: Mapping[str, InTorch] = NONE_IN_TORCH,
) -> tuple[UnitPlan, TrainingPlan | None, dict[str, str | bytes]]:
    """From a model to the text of its unit, with the names of the one in `out`; nothing is written.

    Kernels that are `in_torch`, by key, become PyTorch calls.

    Returns:
        The plan of the call, in training that of the backward pass, and the files.
    """
    dump = Dump.from_environment()
    with clock.stage("capture"):
        graph = capture()
    dump.write("graph.py", graph)
    if options.train:
        with clock.stage("autograd"):
            graph = ready_to_train(graph)
    plan, training = _plans(graph, options, clock, dump)
    nothing = made_of_nothing(plan)
    nothing |= made_of_nothing(training.backward) if training is not None else frozenset()
    held = with_held(graph, nothing, options.target.device)
    if held is not graph:
        plan, training = _plans(held, options, clock, dump)
    with clock.stage("emit"):
        files = _text(plan, training, out, in_torch)
    dump.write("files.txt", files, "\n".join)
    return plan, training, files


def _text(
    plan: UnitPlan, training: TrainingPlan | None, out: Path, in_torch: Mapping[str, InTorch]
) -> dict[str, str | bytes]:
    """Name, emit, and prove what is Python of it."""
    files = emit_unit(name_plans(plan, ledger=read_ledger(out), training=training), in_torch=in_torch)
    prove_python(files)
    return files


def _plans(
    graph: CapturedGraph, options: Options, clock: Clock, dump: Dump
) -> tuple[UnitPlan, TrainingPlan | None]:
    """The plan of the call, and in training that of the backward pass."""
    graphs: TrainingGraphs | None = None
    if options.train:
        with clock.stage("autograd"):
            graphs = train(graph, options.target, memory_budget=options.activation_memory_budget)
    if graphs is None:
        return _plan(graph, options, clock, dump), None
    dump.write("forward.py", graphs.forward)
    dump.write("backward.py", graphs.backward)
    dump.write("partition.txt", graphs.report)
    of_forward, of_backward = trained_filters(graphs, options)
    plan = _plan(graphs.forward, options, clock, dump, filters=of_forward)
    memory = memory_of_saved(plan.program, graphs)
    return plan, TrainingPlan(graphs, _plan(graphs.backward, options, clock, dump, memory, of_backward))


def _plan(
    graph: CapturedGraph,
    options: Options,
    clock: Clock,
    dump: Dump,
    memory: Mapping[str, tuple[View, Buffer]] | None = None,
    filters: frozenset[str] = frozenset(),
) -> UnitPlan:
    """Lower and schedule, for one pass: equal layers once, unless the plan shows that they are not to be told apart."""
    try:
        plan = _plan_program(graph, options, clock, dump, memory, filters, every_layer=False)
    except LayersDiffer:
        plan = _plan_program(graph, options, clock, dump, memory, filters, every_layer=True)
    dump.write("plan.txt", plan, print_plan)
    for refusal in plan.refusals:
        logger(Subject.FUSION).info(
            "%s + %s: %s: %s", refusal.producer, refusal.consumer, refusal.verdict.value, refusal.reason
        )
    return plan


def _plan_program(
    graph: CapturedGraph,
    options: Options,
    clock: Clock,
    dump: Dump,
    memory: Mapping[str, tuple[View, Buffer]] | None,
    filters: frozenset[str],
    every_layer: bool,
) -> UnitPlan:
    with clock.stage("lower"):
        passes = dump.within("lower")
        program = lower(
            graph,
            options,
            memory,
            every_layer=every_layer,
            filters=filters,
            show=lambda name, draft: passes.write(f"{name}.txt", draft, _print_lowering),
        )
    dump.write("program.txt", program, print_program)
    planning = dump.within("schedule")
    with clock.stage("schedule"):
        return schedule(
            program, options, lambda name, draft: planning.write(f"{name}.txt", draft, _print_draft)
        )


def _print_lowering(draft: LoweringDraft) -> str:
    return str(draft.short) if draft.context is None else print_program(draft.as_program())


def _print_draft(draft: Draft) -> str:
    return print_plan(draft.as_plan()) if draft.has_kernels else print_program(draft.as_program())
