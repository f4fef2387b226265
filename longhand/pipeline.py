"""The whole compiler on one screen: capture, lower, schedule, emit, write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from longhand.capture.graph import CapturedGraph
from longhand.checking import inspect_edits
from longhand.clock import Clock
from longhand.dump import Dump
from longhand.emit.unit import emit_unit
from longhand.emit.writer import read_ledger, write_unit
from longhand.logs import Subject, logger
from longhand.lower.lowering import lower
from longhand.options import Options
from longhand.schedule.plan import UnitPlan
from longhand.schedule.printing import print_plan
from longhand.schedule.scheduler import schedule
from longhand.summary import Summary, summarize


def compile_unit(capture: Callable[[], CapturedGraph], options: Options, out: Path, clock: Clock) -> Summary:
    """From a model to a folder of source code.

    Args:
        capture: Captures the model; it runs inside, so that its time is counted.
        options: What to compile for.
        out: The unit's folder: made, or brought up to date.
        clock: Where the stages' times go.

    Raises:
        LonghandError: Any stage failed. What was on disk is untouched.
    """
    plan, files = plan_and_text(capture, options, out, clock)
    with clock.stage("write"):
        report = write_unit(files, out, inspect_edits)
    logger(Subject.OUTPUT_CODE).info("%s\n%s", out, files.get("model.py", ""))
    return summarize(plan, out, tuple(files), clock.timings(), report)


def plan_and_text(
    capture: Callable[[], CapturedGraph], options: Options, out: Path, clock: Clock
) -> tuple[UnitPlan, dict[str, str | bytes]]:
    """From a model to the text of its unit, with the names of the one in `out`; nothing is written."""
    dump = Dump.from_environment()
    with clock.stage("capture"):
        graph = capture()
    dump.write("graph.py", graph)
    with clock.stage("lower"):
        program = lower(graph, options)
    dump.write("program.txt", program)
    with clock.stage("schedule"):
        plan = schedule(program, options)
    dump.write("plan.txt", print_plan(plan))
    for refusal in plan.refusals:
        logger(Subject.FUSION).info(
            "%s + %s: %s: %s", refusal.producer, refusal.consumer, refusal.verdict.value, refusal.reason
        )
    with clock.stage("emit"):
        files = emit_unit(plan, ledger=read_ledger(out))
    dump.write("files.txt", "\n".join(files))
    return plan, files
