"""Calls of functions that remember their results (functools.cache)."""

from __future__ import annotations

import torch

from longhand.capture.bytecode import attributes
from longhand.capture.bytecode.breaks import Unsupported
from longhand.capture.bytecode.constants import as_python
from longhand.capture.bytecode.sources import root
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import Const, Obj, Value

__all__ = ["call_cached"]

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)


def call_cached(trace: Trace, function: Obj, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A function behind functools.cache is really called, once as in eager: later calls find what it kept."""
    if function.source is None:
        raise Unsupported("a cached function without a name is called")
    if trace.has_effects():
        return _call_pure(trace, attributes.get(trace, function, "__wrapped__"), args, kwargs)
    trace.guards.same_object(function.source, function.value)
    given = [as_python(trace, value) for value in args]
    named = {key: as_python(trace, value) for key, value in kwargs.items()}
    result = function.value(*given, **named)
    if isinstance(result, _PLAIN):
        return Const(result)
    parts = [trace.guards.constant(part) for part in given]
    parts += [f"{key}={trace.guards.constant(part)}" for key, part in named.items()]
    text = f"{trace.guards.constant(function.value)}({', '.join(parts)})"
    return trace.wrap(result, root(text, f"{function.source.name}(...)"))


def _call_pure(trace: Trace, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Interprets a call that must do nothing but give a plain value: what is changed already may matter to it."""
    before = len(trace.graph.nodes), trace.n_effects()
    result = trace.force(trace.call_value(function, args, kwargs))
    if before != (len(trace.graph.nodes), trace.n_effects()):
        raise Unsupported("a cached function that does something is called after side effects")
    if not isinstance(result, Const) or not isinstance(result.value, _PLAIN):
        raise Unsupported("a cached function is called after side effects")
    return result
