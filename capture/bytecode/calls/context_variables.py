"""`contextvars.ContextVar`: where a call sets one and resets it again, what is read between is what was set.

Only a call that is captured whole is told so: after a graph break CPython's own code would read the variable.
"""

from __future__ import annotations

import contextvars
import dataclasses

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import Const, Obj, Value

_METHODS = frozenset({"get", "set", "reset"})


@dataclasses.dataclass(frozen=True, eq=False)
class ContextToken:
    """What `set` gives, and `reset` takes.

    Attributes:
        variable: The variable that was set.
        before: What the call had set it to before; None: nothing.
    """

    variable: contextvars.ContextVar[object]
    before: Value | None


def call_context_variable(trace: Trace, owner: Obj, name: str, args: list[Value]) -> Value:
    """``variable.set(value)``, ``variable.get()`` or ``variable.reset(token)``.

    Raises:
        Unsupported: The call may be several graphs, or reads what was set before it and is no constant.
    """
    variable = owner.value
    if name not in _METHODS or not trace.keeps_context:
        raise Unsupported(f"the built-in method {name} of a ContextVar that comes from outside")
    if name == "set":
        token = ContextToken(variable, trace.context.get(variable))
        trace.context[variable] = args[0]
        return Obj(token)
    if name == "reset":
        given = getattr(trace.force(args[0]), "value", None)
        if not isinstance(given, ContextToken) or given.variable is not variable:
            raise Unsupported("a ContextVar is reset with a token that comes from outside")
        trace.context.pop(variable, None)
        if given.before is not None:
            trace.context[variable] = given.before
        return Const(None)
    if variable in trace.context:
        return trace.context[variable]
    if args and variable not in contextvars.copy_context():
        return args[0]
    try:
        value = variable.get()
    except LookupError:
        raise Unsupported(f"the ContextVar {variable.name} is read, and nothing has set it") from None
    if value is not None and not isinstance(value, bool | int | float | str):
        raise Unsupported(f"the ContextVar {variable.name} holds what others may change")
    return Const(value)


def require_reset(trace: Trace) -> None:
    """Refuses a call that leaves a variable set.

    Raises:
        Unsupported: It does.
    """
    for variable in trace.context:
        raise Unsupported(f"the ContextVar {variable.name} stays set", "Reset it in the same call.")
