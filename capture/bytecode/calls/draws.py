"""Numbers that Python's own generator draws: each call of what was captured draws them, in the order of the code.

Nobody knows such a number while capturing. Code that only keeps it (a layer drop's, while nothing is trained) needs no
more; what reads it ends the graph.
"""

from __future__ import annotations

import random
from typing import Any

from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.constants import NotConstant, as_python
from longhand.capture.bytecode.values.tracked import Bound, BoundMethod, Const, Func, Obj, RandomNumber, Value

__all__ = ["drawn"]

_OWNER: Any = random.random.__self__  # type: ignore[attr-defined]  # what random's functions are methods of
_DRAWS = frozenset(
    ["random", "uniform", "randint", "randrange", "gauss", "normalvariate", "triangular", "getrandbits"]
)
_PLAIN = (int, float, type(None))


def drawn(trace: Trace, function: Value, args: list[Value], kwargs: dict[str, Value]) -> RandomNumber | None:
    """The number that a call draws; None if it draws none, or one that what is traced decides about."""
    name = _name_of(function)
    if name not in _DRAWS:
        return None
    try:
        given = [as_python(trace, trace.force(value)) for value in args]
        named = {key: as_python(trace, trace.force(value)) for key, value in kwargs.items()}
    except NotConstant:
        return None
    if not all(type(part) in _PLAIN for part in (*given, *named.values())):
        return None
    made = RandomNumber(getattr(_OWNER, name), tuple(given), tuple(named.items()))
    trace.draws.append(made)
    return made


def _name_of(function: Value) -> str:
    """The method's name, if it is one of the generator that the functions of ``random`` share."""
    if isinstance(function, BoundMethod) and isinstance(function.function, Func):
        real, owner = function.function.real, function.owner
        if real is None or not isinstance(owner, Obj) or owner.value is not _OWNER:
            return ""
        name = str(real.__name__)
        return name if vars(random.Random).get(name) is real else ""
    if isinstance(function, Bound):
        return function.name if isinstance(function.owner, Obj) and function.owner.value is _OWNER else ""
    if isinstance(function, Const | Obj) and getattr(function.value, "__self__", None) is _OWNER:
        return str(getattr(function.value, "__name__", ""))
    return ""
