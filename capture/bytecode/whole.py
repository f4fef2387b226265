"""One call captured whole and not run: one graph, the tree of what it returns, what it writes to, what it relies on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx, nn

from longhand.capture import torch_private
from longhand.capture.bytecode.calls.context_variables import require_reset
from longhand.capture.bytecode.entry.breaks import (
    BreakRecord,
    CallRaises,
    NeedsFixedSizes,
    Raised,
    SkipFrame,
    Unsupported,
)
from longhand.capture.bytecode.entry.outcome import OutcomeWriter
from longhand.capture.bytecode.entry.shapes import DynamicSizes
from longhand.capture.bytecode.frames.interpreter import Interpreter
from longhand.capture.bytecode.memos import keeps_only_memos
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.sources import root
from longhand.capture.bytecode.values.tracked import Const, Obj, Sym, Value

__all__ = ["BrokenCall", "WholeCall", "capture_whole"]


@dataclasses.dataclass(frozen=True, eq=False)
class WholeCall:
    """A call that is one graph.

    Attributes:
        graph: Calls of torch functions; each placeholder has its fake value and where it was found.
        inputs: The real tensor of each placeholder.
        result: What the call returns, with nodes of `graph` for its tensors and symbolic sizes.
        changes: The Python objects that the call writes to, for people.
        keeps_memos: All that it writes are memos (`longhand.capture.bytecode.memos`).
        guards: What the graph relies on, for people.
        mode: What made the fake values.
    """

    graph: fx.Graph
    inputs: tuple[torch.Tensor, ...]
    result: Any
    changes: tuple[str, ...]
    keeps_memos: bool
    guards: tuple[str, ...]
    mode: torch_private.FakeTensorMode


class BrokenCall(Exception):
    """The call is not one graph.

    Args:
        record: The first break.
        raises_as_compiled: Whether it raises, and might not if code that asked were told what eager tells it.
    """

    def __init__(self, record: BreakRecord, *, raises_as_compiled: bool = False) -> None:
        super().__init__(record.reason)
        self.record, self.raises_as_compiled = record, raises_as_compiled


def capture_whole(
    function: Callable[..., Any],
    args: Mapping[str, Any],
    kwargs: Mapping[str, Any],
    sizes: DynamicSizes,
    *,
    tells_compiled: bool = True,
) -> WholeCall:
    """Interprets ``function(*args.values(), **kwargs)`` symbolically.

    Args:
        function: A module or function.
        args: Positional arguments by how guards are to call them: ``L['x']``.
        kwargs: Keyword arguments.
        sizes: Which sizes are symbolic.
        tells_compiled: Whether code that asks is told that it is compiled; else it is told what eager tells it.

    Raises:
        BrokenCall: Something in it cannot be captured.
    """
    trace = Trace(sizes)
    trace.tells_compiled, trace.keeps_context = tells_compiled, True
    Interpreter(trace, None)  # teaches the trace to call
    grad_enabled = torch.is_grad_enabled()
    try:
        callee = trace.wrap(function, root("function", "L['self']"))
        given = [
            trace.lazy(value, root(f"args[{position}]", name))
            for position, (name, value) in enumerate(args.items())
        ]
        named = {
            key: trace.lazy(value, root(f"kwargs[{key!r}]", f"L[{key!r}]")) for key, value in kwargs.items()
        }
        result = trace.call_value(callee, list(given), dict(named))
        require_reset(trace)
        if trace.draws:
            hint = "Draw them with torch, or outside of what is generated."
            raise Unsupported("Python's random numbers are drawn", hint)
        outcome = _Tree(trace)
        tree = outcome.tree(result, {"function": function, "args": tuple(args.values()), "kwargs": kwargs})
    except Unsupported as error:
        is_as_compiled = isinstance(error, CallRaises) and trace.has_told_compiled and tells_compiled
        record = BreakRecord(error.reason, error.where or "", error.hint)
        raise BrokenCall(record, raises_as_compiled=is_as_compiled) from None
    except SkipFrame as error:
        raise BrokenCall(BreakRecord(str(error), "")) from None
    except NeedsFixedSizes:
        reason = "a torch.autograd.Function with gradients is called with tensors of symbolic sizes"
        raise BrokenCall(BreakRecord(reason, "", "Train with fixed sizes: dynamic=False.")) from None
    except Raised as raised:
        kind = getattr(raised.value, "kind", Exception).__name__
        is_as_compiled = trace.has_told_compiled and tells_compiled
        raise BrokenCall(BreakRecord(f"{kind} is raised", ""), raises_as_compiled=is_as_compiled) from None
    finally:
        torch_private.set_grad_enabled(grad_enabled)
    return WholeCall(
        trace.graph,
        tuple(trace.real_inputs),
        tree,
        _changes(trace),
        isinstance(function, nn.Module) and keeps_only_memos(trace),
        tuple(guard.readable for guard in trace.guards.guards),
        trace.mode,
    )


class _Tree(OutcomeWriter):
    """Makes the result's tree with nodes as leaves, instead of the text of a function that would make it."""

    def tree(self, result: Value, given: dict[str, Any]) -> Any:
        """The result; `given` is what sources start from."""
        text = self.expression(result)
        names = dict(given)
        names |= {f"i{k}": tensor.node for k, tensor in enumerate(self.trace.inputs)}
        names |= {f"g{k}": node for k, node in enumerate(self.outputs)}
        names |= self.trace.guards.constants
        exec("\n".join(self.lines), names)
        return eval(text, names)

    def _expression(self, value: Value) -> str:
        if isinstance(value, Sym) and isinstance(value.node, fx.Node):
            if value.node not in self.outputs:
                self.outputs.append(value.node)
            return f"g{self.outputs.index(value.node)}"
        return super()._expression(value)


def _changes(trace: Trace) -> tuple[str, ...]:
    """What a replay in Python would have to write; writes into tensors are part of the graph."""
    changes = [value.source.name for value in trace.changed if value.source is not None]
    for owner, written in trace.attributes.items():
        if isinstance(owner, Obj) and owner.source is not None:
            changes += [
                f"{owner.source.name}.{name}"
                for name, value in written.items()
                if not _is_as_before(owner.value, name, value)
            ]
    for _, names in trace.globals_written.values():
        changes += [f"global {name}" for name in names]
    return tuple(dict.fromkeys(changes))


def _is_as_before(owner: object, name: str, value: Value) -> bool:
    """Whether an attribute ends with the constant that it began with."""
    before = vars(owner).get(name, owner) if hasattr(owner, "__dict__") else owner
    return isinstance(value, Const) and (
        value.value is before or (type(value.value) is type(before) and value.value == before)
    )
