"""Calls of the logging module: a message that nobody listens to is nothing, any other is a break."""

from __future__ import annotations

import logging
import types

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.constants import as_python
from longhand.capture.bytecode.values.tracked import Const, Obj, Value

__all__ = ["call_logger"]

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


def call_logger(trace: Trace, function: types.FunctionType, args: list[Value]) -> Value:
    """``function(*args)``, where it is one of logging's.

    Raises:
        Unsupported: It writes.
    """
    owner = trace.force(args[0]) if args else None
    name = function.__name__
    if isinstance(owner, Obj) and isinstance(owner.value, logging.Logger) and owner.source is not None:
        if name == "isEnabledFor":
            return Const(_listens(trace, owner, as_python(trace, args[1])))
        if name in _LEVELS and not _listens(trace, owner, _LEVELS[name]):
            return Const(None)
    raise Unsupported(f"{function.__module__}.{function.__qualname__} writes a message")


def _listens(trace: Trace, owner: Obj, level: int) -> bool:
    assert owner.source is not None
    answer: bool = owner.value.isEnabledFor(level)
    readable = (
        f"{owner.source.name} {'listens' if answer else 'does not listen'} to {logging.getLevelName(level)}"
    )
    trace.guards.add(owner.source, f"{{}}.isEnabledFor({level}) is {answer}", readable)
    return answer
