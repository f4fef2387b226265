"""One run of the symbolic interpreter over a frame, and what runs instead of the frame."""

from __future__ import annotations

import builtins
import dataclasses
import types
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.autocast_state import autocast_nesting, autocast_settings, set_autocast
from longhand.capture.bytecode.entry.backward_hooks import guard_hooks_on_its_last_op
from longhand.capture.bytecode.entry.breaks import (
    BreakRecord,
    CallRaises,
    NothingLeft,
    Raised,
    SkipFrame,
    Unsupported,
)
from longhand.capture.bytecode.entry.graph_call import check_texts, drop_unused_sizes, graph_lines, sharing
from longhand.capture.bytecode.entry.held_numbers import guard_values
from longhand.capture.bytecode.entry.held_paths import same_objects
from longhand.capture.bytecode.entry.kept_by_hooks import KeptByHooks
from longhand.capture.bytecode.entry.leftovers import may_have_tensor
from longhand.capture.bytecode.entry.loops import loop_around, loop_code
from longhand.capture.bytecode.entry.outcome import OutcomeWriter, is_null
from longhand.capture.bytecode.entry.recompiles import failure_told
from longhand.capture.bytecode.entry.resume import (
    ResumePoint,
    asks_for_locals,
    first_name,
    is_continuation,
    live_locals,
    original_position,
    parameters,
    step_code,
)
from longhand.capture.bytecode.entry.shapes import DynamicSizes, size_guards
from longhand.capture.bytecode.entry.side_effects import write_side_effects
from longhand.capture.bytecode.entry.text import (
    CLASSES_TEXT,
    LEAVE,
    STATE_TEXT,
    entry_text,
    parameter_name,
)
from longhand.capture.bytecode.frames.frame import Frame
from longhand.capture.bytecode.frames.interpreter import BreakHere, Interpreter
from longhand.capture.bytecode.hook import frame_hook
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.sources import root
from longhand.capture.bytecode.values.tracked import Cell, Const, Value

__all__ = ["Attempt", "Captured", "Miss", "Ways"]

Miss = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Captured:
    """What became of one frame.

    Attributes:
        entry: What the hook runs; None if the frame is CPython's.
        breaks: Why it is not one graph.
        guards: The guards, for people.
        n_ops: Calls in the graph.
        conditions: (text, for people) of each guard, and the names it needs.
        failure: What went wrong in capture itself, where something did.
        leaves_calls: Whether all that the frame calls is CPython's, too.
        does_nothing: Whether it has no graph, and where it breaks nothing is left that holds a tensor.
    """

    entry: Callable[..., Any] | None
    breaks: tuple[BreakRecord, ...] = ()
    guards: tuple[str, ...] = ()
    n_ops: int = 0
    conditions: tuple[tuple[str, str], ...] = ()
    names: dict[str, Any] = dataclasses.field(default_factory=dict)
    parameters: tuple[str, ...] = ()
    source: str = ""
    failure: str = ""
    leaves_calls: bool = False
    does_nothing: bool = False

    @property
    def is_skipped(self) -> bool:
        """Whether the frame is left to CPython whole."""
        return any(record.skipped for record in self.breaks)

    def first_failure(self, function: Any, args: tuple[Any, ...]) -> str:
        """The first guard that these arguments do not satisfy, and what to do about it."""
        given = {"f": function, **dict(zip(self.parameters, args, strict=True))}
        for text, readable in self.conditions:
            try:
                holds = eval(text, self.names, given)
            except Exception:  # what the guard looks at is gone: it does not hold
                holds = False
            if not holds:
                return failure_told(text, readable, self.names, given)
        return "other sizes or aliases"


@dataclasses.dataclass(frozen=True)
class Ways:
    """How a frame is tried.

    Attributes:
        sizes: Which sizes are symbolic.
        break_at: The number of the step that is left to CPython; None at first.
        takes_loops: Whether that step is all that is left of the loop in which it lies.
        ends: Whether that step raises, and nothing of the code runs after it.
        may_delay: Whether a text that names a tensor's values, and a class, is made where something reads it.
        keeps_empty: Whether a call that does nothing with tensors has an entry: others of the code may do something.
        hooks_apart: The forward hooks at whose modules the graph ends.
        tells_compiled: Whether code that asks is told that it is compiled; else it is told what eager tells it.
    """

    sizes: DynamicSizes
    break_at: int | None = None
    takes_loops: bool = False
    ends: bool = False
    may_delay: bool = True
    keeps_empty: bool = False
    hooks_apart: frozenset[CodeType] = frozenset()
    tells_compiled: bool = True


class Attempt:
    """One run of the interpreter over a frame."""

    def __init__(
        self,
        function: Any,
        code: CodeType,
        names: tuple[str, ...],
        args: tuple[Any, ...],
        ways: Ways,
        owner: Any,
    ) -> None:
        self.owner, self.ways = owner, ways
        self.state = torch_private.global_state()
        self.function, self.code, self.names, self.args = function, code, names, args
        self.trace = Trace(ways.sizes)
        self.trace.may_delay, self.trace.hooks = ways.may_delay, KeptByHooks(ways.hooks_apart)
        self.trace.tells_compiled = ways.tells_compiled
        self.trace.called, self.trace.is_guarded = next(iter(args), None), True
        self.interpreter = Interpreter(self.trace, ways.break_at)
        self.frame = self._frame()
        self.has_raised = self.has_call_raised = self.leaves_tensors = False

    def _frame(self) -> Frame:
        trace, code, function = self.trace, self.code, self.function
        given: dict[str, Value] = {
            name: trace.lazy(value, root(parameter_name(name), f"L[{name!r}]"))
            for name, value in zip(self.names, self.args, strict=True)
        }
        cells = {
            name: trace.cell(cell, root(f"f.__closure__[{position}]", f"L[{name!r}]"), name)
            for position, (name, cell) in enumerate(
                zip(code.co_freevars, function.__closure__ or (), strict=True)
            )
        }
        made = is_continuation(code)
        for name in code.co_cellvars:
            tracked = given.pop(name, None)
            if not made:
                cells[name] = Cell(tracked, name)
            elif tracked is not None:
                place = root(parameter_name(name), f"L[{name!r}]")
                cell = self.args[self.names.index(name)]
                if type(cell) is types.CellType:
                    cells[name] = trace.cell(cell, place, name)
                else:  # a comprehension uses the cell's place for a plain value
                    given[name] = tracked
        for name, value in zip(self.names[:1], self.args, strict=False):
            guard_hooks_on_its_last_op(trace, value, root(parameter_name(name), f"L[{name!r}]"))
        trace.guards.same_object(root("f.__globals__", "globals"), function.__globals__)
        globals_name = trace.guards.constant(function.__globals__)
        return Frame(code, function.__globals__, vars(builtins), given, cells, globals_name)

    def run(
        self,
        backend: Any,
        others: tuple[Miss, Miss | None],
        records: tuple[BreakRecord, ...],
        grad_enabled: bool,
        autocast: tuple[tuple[Any, ...], int],
    ) -> Captured:
        """Interprets, then builds the entry."""
        outcome = OutcomeWriter(self.trace)
        self.trace.assumes = others[1] is not None
        try:
            result = self.interpreter.run(self.frame)
            ending = (outcome.expression(result), "result")
        except BreakHere:
            ending = self._break(outcome)
        except Raised as raised:
            self.has_raised = True
            # No local may hold an exception: its traceback would keep the user's frames, and all that they hold, alive.
            reason = f"{getattr(raised.value, 'kind', Exception).__name__} is raised"
            raise Unsupported(reason, where="{}:{}".format(*self.frame.place()[:2])) from None
        except CallRaises:
            self.has_call_raised = True
            raise
        if _has_open_generators(self.trace):
            raise SkipFrame("a generator is left inside a try or with block")
        self._require_balance()
        write_side_effects(outcome)
        self.trace.hooks.require_apart(outcome.outputs)
        if torch.is_grad_enabled() != grad_enabled:
            outcome.effects.append(f"set_grad_enabled({torch.is_grad_enabled()})")
            self.trace.call("call_function", torch_private.set_grad_enabled, (grad_enabled,), {})
            torch_private.set_grad_enabled(grad_enabled)  # the backend asks for it
        now = autocast_settings(), autocast_nesting()
        if now != autocast:
            outcome.effects.append(f"set_autocast(*{outcome.constant(now)})")
            self.trace.call("call_function", set_autocast, autocast, {})
            set_autocast(*autocast)
        return self._entry(outcome, ending, backend, others, records)

    def _require_balance(self) -> None:
        if self.trace.n_index_modes:
            raise SkipFrame("a torch function mode is left on")

    def break_place(self) -> int:
        """The step that CPython is to run: of an exception on its way, and in its handlers, the one that raised it."""
        frame = self.frame
        is_handling = not (isinstance(frame.current_error, Const) and frame.current_error.value is None)
        if is_handling or self.has_raised:
            return self.interpreter.raised_at
        return self.interpreter.n_root_steps

    def _break(self, outcome: OutcomeWriter) -> tuple[str, str]:
        """The call of the step function, with all that is alive."""
        frame = self.frame
        if not (isinstance(frame.current_error, Const) and frame.current_error.value is None):
            raise SkipFrame("a graph break inside an except block")
        code, index = original_position(self.code, frame.start)
        if asks_for_locals(code):
            raise SkipFrame("a graph break in a function that asks for its locals")
        if index < 0:
            raise SkipFrame("a graph break before the first instruction")
        self._require_balance()
        stack = frame.stack
        live = live_locals(code, index)
        given = {
            **frame.locals,
            **{name: frame.cells[name] for name in code.co_cellvars if name in frame.cells},
        }
        first = first_name(code)
        if first is not None and first not in given:
            raise SkipFrame("a method deletes its instance")
        names = tuple(sorted(name for name in given if name in live or name == first))
        values = given | {f"stack{depth}_": value for depth, value in enumerate(stack)}
        alive = [*(given[name] for name in given if name in live), *stack, *frame.cells.values()]
        if is_continuation(self.code) and not self.n_ops() and not may_have_tensor(alive):
            raise NothingLeft
        self.leaves_tensors = not self.ways.ends and may_have_tensor(alive, looks_inside=True)
        position = ResumePoint(code, index, tuple(is_null(value) for value in stack), names)
        loop = loop_around(position, self.code, frame.loops)
        step = loop_code(position, loop) if loop and self.ways.takes_loops else step_code(position)
        frame_hook().mark(step, frame_hook().SKIP)
        arguments = [outcome.expression(values[name]) for name in parameters(position)]
        closure = [outcome.expression(frame.cells[name]) for name in code.co_freevars]
        cells = f"({', '.join(closure)},)" if closure else "None"
        function = f"{outcome.constant(types.FunctionType)}({outcome.constant(step)}, f.__globals__, f.__name__, None"
        parts = "".join(f"{part}, " for part in arguments)
        return f"[({parts}), {function}, {cells})]", LEAVE

    @property
    def raises_as_compiled(self) -> bool:
        """Whether it raises, and might not if code that asked were told what eager tells it."""
        has_raised = self.has_raised or self.has_call_raised
        return has_raised and self.trace.has_told_compiled and self.ways.tells_compiled

    def n_ops(self) -> int:
        return sum(node.op.startswith("call") for node in self.trace.graph.nodes)

    def _entry(
        self,
        outcome: OutcomeWriter,
        ending: tuple[str, str],
        backend: Any,
        others: tuple[Miss, Miss | None],
        records: tuple[BreakRecord, ...],
    ) -> Captured:
        trace = self.trace
        n_ops = self.n_ops()
        if not n_ops and not records and not self.ways.keeps_empty:
            return Captured(None)
        namespace: dict[str, Any] = {}
        lines: list[str] = []
        inputs = outcome.inputs()
        drop_unused_sizes(trace.graph)
        if n_ops:
            checks, outputs = check_texts(trace, outcome.expression), outcome.outputs
            trace.graph.output(tuple(outputs))
            module = fx.GraphModule(torch.nn.Module(), trace.graph)
            module.meta["guards"] = tuple(guard.readable for guard in trace.guards.guards)
            trace.sizes.require_known(module, trace.real_inputs, [tensor.fake for tensor in trace.inputs])
            namespace["graph"] = backend(module, list(trace.real_inputs))
            results = "".join(f"g{k}, " for k in range(len(outputs)))
            call = f"graph({', '.join(name for name, _ in inputs)})"
            loses = bool(outcome.effects or outcome.late)
            given = ", ".join(("f", *map(parameter_name, self.names)))
            assigned = f"{results + '= ' if results else ''}{call}"
            lines = graph_lines(trace, assigned, given, others[1], namespace, loses, checks)
        trace.guard_separate()
        guard_values(trace)
        more = size_guards(trace.environment, inputs)
        more += self._storage_guard(namespace)
        parameters = tuple(parameter_name(name) for name in self.names)
        roots = same_objects(self.function, dict(zip(parameters, self.args, strict=True)))
        places = [tensor.source for tensor in trace.inputs if tensor.source is not None]
        check = trace.guards.check(places, roots)
        namespace |= {"state": torch_private.global_state, "STATE": self.state}
        text = entry_text(
            ", ".join(("f", *parameters)),
            [f"paused is OWNER and {STATE_TEXT} and {CLASSES_TEXT}", check.condition, *more],
            [f"i{k} = {place}" for k, place in enumerate(check.loads)],
            [*lines, *outcome.lines, *outcome.effects, *outcome.late],
            ending,
            check.held,
        )
        hook, classes = frame_hook(), trace.classes.guard()
        namespace |= (
            trace.guards.constants
            | check.names
            | {
                "miss": others[0],
                "OWNER": self.owner,
                "same_tags": hook.same_tags,
                "KINDS": classes.classes,
                "TAGS": classes.tags,
                "recheck": classes.recheck,
                "pause": hook.pause,
                "resume": hook.resume,
                "dispatch_keys": torch_private.dispatch_keys,
                "set_grad_enabled": torch_private.set_grad_enabled,
                "set_autocast": set_autocast,
                "autocast_settings": autocast_settings,
                "is_current_stream_capturing": torch.cuda.is_current_stream_capturing,
                "same_code": hook.same_code,
                "FUNCTIONS": tuple(trace.codes),
                "CODES": tuple(trace.codes.values()),
            }
        )
        exec(compile(text, f"<longhand entry of {self.code.co_name}>", "exec"), namespace)
        if check.held is not None:
            hook.mark(namespace["walked"].__code__, hook.SKIP)
        hook.mark(namespace["entry"].__code__, hook.SKIP)
        conditions = [(STATE_TEXT, "gradients, autocast or another global setting changed")]
        conditions.append(
            (CLASSES_TEXT, "a method, another attribute of a class or the code of a function changed")
        )
        conditions += [
            (guard.condition.format(guard.source.expression()), guard.readable)
            for guard in trace.guards.guards
        ]
        readable = tuple(guard.readable for guard in trace.guards.guards) + tuple(more)
        return Captured(
            namespace["entry"],
            records,
            readable,
            n_ops,
            tuple(conditions),
            namespace,
            parameters,
            text,
            does_nothing=not n_ops and not self.leaves_tensors,
        )

    def _storage_guard(self, namespace: dict[str, Any]) -> list[str]:
        """Where the graph writes into an input, which inputs share memory matters."""
        if not self.trace.written() or len(self.trace.inputs) < 2:
            return []
        namespace["sharing"] = sharing
        pattern = sharing(*self.trace.real_inputs)
        names = ", ".join(f"i{k}" for k in range(len(self.trace.inputs)))
        return [f"sharing({names}) == {pattern!r}"]


def _has_open_generators(trace: Trace) -> bool:
    """Whether a generator was left inside a try or with block, which runs on when CPython drops it."""
    return any(
        frame.index > 0 and not frame.finished and frame.runs_when_closed() for frame in trace.generators
    )
