"""``torch.compile(model, backend="longhand")``: one graph of torch's Dynamo becomes a unit in the cache folder.

Whatever goes wrong in longhand leaves the graph in eager, with the reason told: never a wrong result. A graph that
gradients must flow through becomes a unit with a backward pass.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import sys
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from longhand.cache.folder import cached_unit
from longhand.capture import torch_private, torch_transforms
from longhand.capture.bytecode.entry.graph_call import devices_drawn_on
from longhand.capture.frontends.data_attributes import may_write_through_data, written_through_data
from longhand.capture.frontends.dynamo import is_under_autocast
from longhand.capture.frontends.dynamo_run import eager_function, records_gradients
from longhand.capture.frontends.held_inputs import lift_written
from longhand.capture.graph import CapturedGraph
from longhand.compiled.call_state import (
    GraphFunction,
    counting_writes,
    needs_gradients,
    unless_gradients,
    unless_odd,
    unless_overlapping,
    with_gradients,
    with_own_types,
    without_gradients,
    written_inputs,
)
from longhand.compiled.captured_call import captured_call
from longhand.compiled.concrete_sizes import can_be_fixed, for_each_set_of_sizes, has_symbols
from longhand.compiled.early_writes import early_writes
from longhand.compiled.unit_binding import bind_unit
from longhand.compiled.unit_failures import UnitHealth, health_of, unless_failing, watch_backward
from longhand.compiled.watched_results import leading_places, watching
from longhand.emit.unit.loading import load_unit
from longhand.emit.unit.threeway import Outcome
from longhand.errors import CaptureError, EagerWarning, LonghandError, OptionError, UnitError
from longhand.options import Device, Options
from longhand.pipeline import compile_unit
from longhand.proof.fallbacks import refuse_torch_kernels
from longhand.targets import options_for, placing
from longhand.telling.clock import Clock
from longhand.telling.logs import Subject, logger, set_logs_from_environment
from longhand.telling.summary import Summary
from longhand.telling.tally import EagerGraph, GraphCalls, counted, counts_calls

_KNOWN_OPTIONS = {"strict", "out"}
_UNRECORDED = (
    "its training steps are not recorded as CUDA graphs: the host reads, or takes part in, what it computes."
)


@dataclasses.dataclass(frozen=True)
class GraphReport:
    """What became of one graph.

    Attributes:
        n_ops: Calls in Dynamo's graph.
        folder: The unit's folder; None if the graph runs in eager.
        summary: What was generated; None in eager, and when the unit was in the cache already.
        reason: Why it runs in eager.
        note: What of the mode does not apply to it, and why; empty if all does.
        calls: What its calls ran in.
    """

    n_ops: int
    folder: Path | None = None
    summary: Summary | None = None
    reason: str | None = None
    note: str = ""
    calls: GraphCalls | None = None


def longhand_backend(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    report: Callable[[GraphReport], None] | None = None,
) -> GraphFunction:
    """Compiles one graph, with its backward pass where gradients must flow through it.

    Args:
        graph_module: As Dynamo made it: parameters are among its inputs.
        example_inputs: Fake tensors and sizes.
        mode: One of torch.compile's modes.
        options: ``{"strict": True}`` raises where a graph would run in eager (so does LONGHAND_STRICT=1).
            ``{"out": FOLDER}`` writes each graph as a unit below that folder instead of into the cache: what you
            edit there is merged, and is what runs.
        report: Is told what became of the graph.

    Raises:
        OptionError: An unknown mode or option.
        LonghandError: Only in strict mode.
    """
    set_logs_from_environment()
    if unknown := set(options or {}) - _KNOWN_OPTIONS:
        raise OptionError(f"longhand knows no option {sorted(unknown)[0]!r}.", hint="It knows: strict, out.")
    strict = is_strict(options)
    n_ops = sum(node.op.startswith("call_") for node in graph_module.graph.nodes)
    say = report or (lambda _: None)
    lifted = lift_written(graph_module)
    if lifted is not None:
        given = [*example_inputs, *lifted.tensors]
        function = longhand_backend(lifted.module, given, mode=mode, options=options, report=report)
        return lambda *inputs: function(*inputs, *lifted.tensors)

    calls = GraphCalls(f"a graph of {n_ops} ops")
    eager = EagerGraph(eager_function(graph_module), calls)
    compile_part = functools.partial(longhand_backend, mode=mode, options=options, report=report)
    if (parts := early_writes(graph_module)) is not None:
        first, rest = (compile_part(part, example_inputs) for part in (parts.first, parts.rest))
        joined = parts.joined(first, rest)
        if parts.is_moved:
            return unless_overlapping(joined, eager, fixed_sizes=not has_symbols(graph_module))
        return joined

    def counting(function: GraphFunction) -> GraphFunction:
        return counted(function, calls) if report is not None or counts_calls() else function

    def left_in_eager(reason: str) -> GraphFunction:
        say(GraphReport(n_ops, reason=reason, calls=calls))
        is_counted = report is not None or counts_calls()
        return counting(lambda *inputs: eager(reason, inputs)) if is_counted else eager.function

    if reason := _reason_for_eager(graph_module, example_inputs):
        logger(Subject.EAGER).info("a graph of %d ops runs in eager: %s", n_ops, reason)
        if strict and report is None:  # whoever asks for a report is told
            raise CaptureError(f"A graph of {n_ops} ops would run in eager: {reason.rstrip('.')}.")
        return left_in_eager(reason)
    trains = _requires_grad(graph_module, example_inputs) and records_gradients(graph_module)
    if trains and can_be_fixed(graph_module):
        return for_each_set_of_sizes(graph_module, compile_part, left_in_eager, strict=strict)
    try:
        made = _compile(graph_module, example_inputs, mode, (options or {}).get("out"), calls, strict)
        refuse_torch_kernels(made.folder, strict=strict, is_told=made.summary is not None)
    except Exception as error:
        if strict or (isinstance(error, OptionError)):
            raise
        reason = str(error) if isinstance(error, LonghandError) else f"{type(error).__name__}: {error}"
        warnings.warn(f"longhand runs a graph of {n_ops} ops in eager: {reason}", EagerWarning, stacklevel=2)
        return left_in_eager(reason)
    calls.title = f"{made.folder.name}, {calls.title}"
    if made.note:
        logger(Subject.EAGER).info("a graph of %d ops: %s", n_ops, made.note)
    say(GraphReport(n_ops, made.folder, made.summary, note=made.note, calls=calls))
    return counting(made.function)


def is_strict(options: Mapping[str, Any] | None) -> bool:
    """Whether what would run in eager is an error."""
    return bool((options or {}).get("strict", os.environ.get("LONGHAND_STRICT", "0") != "0"))


@dataclasses.dataclass(frozen=True)
class _Made:
    """A graph's unit as a function of its inputs, where it is, and what is to be said of it."""

    function: GraphFunction
    folder: Path
    summary: Summary | None
    note: str


def _compile(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[Any],
    mode: str | None,
    out: str | None,
    calls: GraphCalls,
    strict: bool,
) -> _Made:
    requires_grad = _requires_grad(graph_module, example_inputs)
    options = dataclasses.replace(
        options_for(None, None, mode, placing(graph_module, example_inputs)),
        train=requires_grad and records_gradients(graph_module),
    )
    clock = Clock()
    summaries: list[Summary] = []
    with clock.stage("capture"):
        captured = captured_call(graph_module, example_inputs, options)
    graph, options = captured.graph, captured.options

    def make(folder: Path) -> None:
        summaries.append(compile_unit(lambda: graph, options, folder, clock))

    if out is None:
        folder = cached_unit(graph, options, make)
    else:
        folder = _unit_folder(Path(out), graph.name)
        make(folder)
        if conflicts := summaries[0].merge.of(Outcome.CONFLICT):
            raise UnitError(
                f"{folder} is of an earlier version of this graph: edits in {', '.join(conflicts)} conflict.",
                hint="Settle them: see FILE.new beside each.",
            )
    unit = load_unit(folder)  # it was made, or found by content, just now
    eager = EagerGraph(eager_function(captured.module), calls)
    function = _callable(unit, graph, captured.module, options, requires_grad, eager)
    health = health_of(folder, unit)
    if options.train:
        _hide_backward(unit, health)
        if places := leading_places(captured.module):
            function = watching(function, places)
    function = unless_failing(
        function,
        eager,
        health,
        written=written_inputs(graph),
        drawn_on=devices_drawn_on(captured.module.graph),
        strict=strict,
    )
    if captured.outside is not None:
        function = captured.outside.completed(function)
    if graph.rewritten:
        whole = EagerGraph(eager_function(graph_module), calls)
        function = unless_overlapping(function, whole, fixed_sizes=True)
    is_unrecorded = options.train and _asks_to_record(options) and not _records_training(unit)
    note = _UNRECORDED if is_unrecorded else ""
    return _Made(function, folder, summaries[0] if summaries else None, note)


def _requires_grad(graph_module: fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    given = [*example_inputs, *graph_module.parameters(), *graph_module.buffers()]
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in given)


def _asks_to_record(options: Options) -> bool:
    return options.mode.records_cuda_graphs and options.target.device is Device.CUDA


def _records_training(unit: Any) -> bool:
    """Whether a unit's text makes what records its training steps."""
    return "TrainingGraph" in vars(sys.modules[unit.__module__])


def _callable(
    unit: Any,
    graph: CapturedGraph,
    graph_module: fx.GraphModule,
    options: Options,
    requires_grad: bool,
    eager: EagerGraph,
) -> GraphFunction:
    """The unit as a function of Dynamo's inputs, right for every call that Dynamo's guards let through."""
    function = bind_unit(unit, graph, options.target.device, is_recorded=_asks_to_record(options))
    if options.train:
        if not torch.is_grad_enabled():
            function = with_gradients(function)
    elif requires_grad:
        function = without_gradients(function)
    else:
        function = unless_gradients(function, eager)
    function = unless_odd(function, eager)
    if is_under_autocast(graph_module):
        function = with_own_types(function, options.target.device.value)
    if graph.mutations:
        uncounted = written_through_data(graph_module)
        counted = tuple(place for place in written_inputs(graph) if place not in uncounted)
        function = counting_writes(function, counted)
        function = unless_overlapping(function, eager, fixed_sizes=not graph.symbols)
    return function


# The units that this process wrote below a folder of the user's, in order.
_units_of: dict[Path, list[str]] = {}


def number_from_one(out: Path) -> None:
    """The next graphs that are written below a folder are numbered as in a fresh process."""
    _units_of.pop(out.resolve(), None)


def _unit_folder(out: Path, name: str) -> Path:
    """A folder for a graph: named after it, and numbered in the order of compilation where it has several versions."""
    word = re.sub(r"\W+", "_", name).strip("_").lower()[:40] or "graph"
    written = _units_of.setdefault(out.resolve(), [])
    written.append(word)
    number = written.count(word)
    return out / (word if number == 1 else f"{word}_{number}")


_hidden: weakref.WeakSet[type] = weakref.WeakSet()


def _hide_backward(unit: Any, health: UnitHealth) -> None:
    """Keeps Dynamo from compiling a unit's backward once more where a compiled function calls ``loss.backward()``."""
    module = sys.modules[f"{unit.__module__.rpartition('.')[0]}.backward"]
    for member in vars(module).values():
        if isinstance(member, type) and issubclass(member, torch.autograd.Function) and member not in _hidden:
            hidden = torch.compiler.disable(watch_backward(member, health))
            member.backward = staticmethod(hidden)  # type: ignore[method-assign]
            _hidden.add(member)


def _reason_for_eager(graph_module: fx.GraphModule, example_inputs: Sequence[Any]) -> str | None:
    inside = [*graph_module.parameters(), *graph_module.buffers()]
    tensors = [value for value in (*example_inputs, *inside) if isinstance(value, torch.Tensor)]
    if any(tensor.requires_grad for tensor in tensors):
        if reason := _reason_against_training(graph_module):
            return reason
        numbers = any(isinstance(value, torch.SymFloat | torch.SymBool) for value in example_inputs)
        if numbers and needs_gradients(tensors):
            return "gradients must flow through it and it is given numbers that are no sizes: pass dynamic=False."
    is_training = _requires_grad(graph_module, example_inputs) and records_gradients(graph_module)
    if not may_write_through_data(graph_module, is_training=is_training):
        return "it writes through the `data` of a tensor that it reads before, or writes otherwise, too."
    if any(tensor.is_neg() for tensor in tensors):
        return "the memory of an input holds its elements with the opposite sign."
    if any("dual_level" in getattr(node.target, "__name__", "") for node in graph_module.graph.nodes):
        return "it takes forward-mode derivatives."
    kinds = {tensor.device.type for tensor in tensors} - {"cpu", "cuda"}
    return f"it has tensors on {sorted(kinds)[0]}." if kinds else None


def _reason_against_training(graph_module: fx.GraphModule) -> str | None:
    """What of a graph has gradients of its own kind."""
    for node in graph_module.graph.nodes:
        if "inference_mode" in str(node.target):
            return "it turns inference mode on or off inside."
        if torch_transforms.differentiates(node):
            return "gradients must flow through a function of torch.func that takes some itself."
        if torch_private.is_checkpoint(node.target):
            continue
        if isinstance(node.target, torch._ops.HigherOrderOperator) and torch.is_grad_enabled():
            return f"gradients must flow through {node.target.name()}."
        if node.op == "call_method" and node.target in ("register_hook", "requires_grad_", "backward"):
            return f"it calls {node.target} inside."
    return None
