"""Calls of functions that remember their results (functools.cache)."""

from __future__ import annotations

from typing import Any

import torch

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import attributes
from longhand.capture.bytecode.values.constants import NotConstant, as_python
from longhand.capture.bytecode.values.sources import root
from longhand.capture.bytecode.values.tracked import Const, Obj, Value

__all__ = ["call_cached"]

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)


def call_cached(trace: Trace, function: Obj, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A function behind functools.cache is really called, once as in eager: later calls find what it kept."""
    if function.source is None:
        raise Unsupported("a cached function without a name is called")
    if trace.has_effects():
        known = _call_pure(trace, attributes.get(trace, function, "__wrapped__"), args, kwargs)
        if known is not None:
            return known
    trace.guards.same_object(function.source, function.value)
    try:
        given = [_given(trace, value) for value in args]
        named = {key: _given(trace, value) for key, value in kwargs.items()}
    except NotConstant:  # a symbolic size: what it computes from it is the same, kept or not
        return _interpreted(trace, attributes.get(trace, function, "__wrapped__"), args, kwargs)
    result = function.value(*given, **named)
    parts = [trace.guards.constant(part) for part in given]
    parts += [f"{key}={trace.guards.constant(part)}" for key, part in named.items()]
    text = f"{trace.guards.constant(function.value)}({', '.join(parts)})"
    source = root(text, f"{function.source.name}(...)")
    if isinstance(result, _PLAIN):  # asked again in each call: its cache may have been cleared
        trace.guards.equal(source, result)
        return Const(result)
    return trace.wrap(result, source)


def _given(trace: Trace, value: Value) -> Any:
    """An argument as it is: of an object, the object, whatever makes it equal to others."""
    value = trace.force(value)
    if isinstance(value, Obj) and value.source is not None:
        trace.guards.same_object(value.source, value.value)
        return value.value
    return as_python(trace, value)


def _interpreted(trace: Trace, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Interprets a call that must change nothing."""
    before = trace.n_effects()
    result = trace.call_value(function, args, kwargs)
    if before != trace.n_effects():
        raise Unsupported("a cached function that changes something is called with a symbolic size")
    return result


def _call_pure(trace: Trace, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """Interprets a call that must do nothing, for what is changed already may matter to it.

    Returns:
        What it gives; None where it looked at nothing that is changed, so that CPython may call it as well.
    """
    before = len(trace.graph.nodes), trace.n_effects()
    n_seen = trace.n_changed_seen
    result = trace.force(trace.call_value(function, args, kwargs))
    if before != (len(trace.graph.nodes), trace.n_effects()):
        raise Unsupported("a cached function that does something is called after side effects")
    if isinstance(result, Const) and isinstance(result.value, _PLAIN):
        return result
    if trace.n_changed_seen != n_seen or any(_is_written(trace, part) for part in (*args, *kwargs.values())):
        raise Unsupported("a cached function of what was changed is called")
    return None


def _is_written(trace: Trace, value: Value) -> bool:
    return trace.force(value) in trace.attributes
