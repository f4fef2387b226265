"""What torch._check and its kin do: a condition that holds is nothing in the graph, one that does not raises."""

from __future__ import annotations

from longhand.capture import torch_private
from longhand.capture.bytecode.calls.rules import Rule, Rules
from longhand.capture.bytecode.entry.breaks import Raised, Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.constants import as_python
from longhand.capture.bytecode.values.operators import compare, is_none, truth
from longhand.capture.bytecode.values.tracked import Const, Error, Tensor, Value

__all__ = ["RULES"]

RULES = Rules()
_UNTOLD = "Expected cond to be True, but got False."


def _require(trace: Trace, kind: type[Exception], condition: Value, message: Value | None) -> Value:
    if isinstance(trace.force(condition), Tensor):
        raise Unsupported("a tensor's values are checked")
    if truth(trace, condition):
        return Const(None)
    if message is None or is_none(trace, message):
        raise Raised(Error(kind, [Const(_UNTOLD)]))
    told = trace.force(message)
    text = told if isinstance(told, Const) and isinstance(told.value, str) else trace.call_value(told, [], {})
    raise Raised(Error(kind, [text], is_exact=True))


def _check_of(kind: type[Exception]) -> Rule:
    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given = dict(zip(("cond", "message"), args, strict=False)) | kwargs
        return _require(trace, kind, given["cond"], given.get("message"))

    return rule


for _function, _kind in torch_private.CHECKS.items():
    RULES[_function] = _check_of(_kind)


@RULES.of(torch_private.check_with)
def _check_with(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given = dict(zip(("error_type", "cond", "message"), args, strict=False)) | kwargs
    kind = as_python(trace, given["error_type"])
    return _require(trace, kind, given["cond"], given.get("message"))


def _check_is_size(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given = dict(zip(("i", "message"), args, strict=False)) | kwargs
    _require(trace, RuntimeError, compare(trace, ">=", given["i"], Const(0)), given.get("message"))
    if "max" in given and not is_none(trace, given["max"]):
        _require(trace, RuntimeError, compare(trace, "<=", given["i"], given["max"]), given.get("message"))
    return Const(None)


if torch_private.check_is_size is not None:
    RULES[torch_private.check_is_size] = _check_is_size
