"""From a captured graph to a loop program: the passes of `lower.passes`, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from longhand.capture.graph import BackwardKind, CapturedGraph, TrainingGraphs
from longhand.lower.draft import LoweringDraft
from longhand.lower.ir import Buffer, Program, View
from longhand.lower.passes import PASSES
from longhand.lower.verifier import DraftVerifier
from longhand.options import Options


def lower(
    graph: CapturedGraph,
    options: Options,
    memory: Mapping[str, tuple[View, Buffer]] | None = None,
    *,
    every_layer: bool = True,
    filters: frozenset[str] = frozenset(),
    show: Callable[[str, LoweringDraft], None] = lambda name, draft: None,
) -> Program:
    """The loop program of a captured graph.

    Args:
        graph: What was captured.
        options: What is to be generated. The target decides how images lie and whether products are aligned; nothing
            else here does.
        memory: For a backward pass: placeholders that are results of the forward's program, as what they lie in
            memory.
        every_layer: False: of many equal layers the program holds only the first few: see `Program.layers`.
        filters: Of a pass of a training step: see `lower.layouts.trained_filters`.
        show: Is given each pass's name and what it made.

    Raises:
        LoweringError: The graph breaks a rule of `CapturedGraph`.
        BrokenPlanError: With LONGHAND_VERIFY=1: a pass made a program that breaks a rule.
    """
    draft = LoweringDraft.of(graph, options, memory or {}, every_layer, filters)
    verifier = DraftVerifier.from_environment()
    for lowering_pass in PASSES:
        draft = lowering_pass.apply(draft)
        show(lowering_pass.name, draft)
        verifier.check(lowering_pass.name, draft)
    return draft.as_program()


def memory_of_saved(forward: Program, training: TrainingGraphs) -> dict[str, tuple[View, Buffer]]:
    """How what the forward pass hands to the backward lies in memory, by placeholder of the backward.

    Args:
        forward: The forward's program.
        training: How the two hang together.
    """
    saved = {}
    for entry in training.inputs:
        if entry.kind in (BackwardKind.SAVED, BackwardKind.RESULT):
            assert isinstance(entry.source, int)
            result = forward.results[entry.source]
            if isinstance(result, View):
                saved[entry.node] = (result, forward.buffers[result.buffer])
    return saved
