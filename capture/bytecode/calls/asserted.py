"""What torch._check and its kin do: a condition that holds is nothing in the graph, one that does not raises.

That a tensor's values are as they must be is taken for granted, and looked at after the graph.
"""

from __future__ import annotations

import torch

from longhand.capture import torch_private
from longhand.capture.bytecode.calls.rules import Rule, Rules
from longhand.capture.bytecode.calls.tensors import tensor_method
from longhand.capture.bytecode.entry.assumed import assume, may_assume
from longhand.capture.bytecode.entry.breaks import Raised, Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.constants import as_python
from longhand.capture.bytecode.values.operators import compare, is_none, truth
from longhand.capture.bytecode.values.tracked import Const, Error, Tensor, Value

__all__ = ["RULES"]

RULES = Rules()
_PLAIN_MESSAGE = "Expected cond to be True, but got False."


def _require(trace: Trace, kind: type[Exception], condition: Value, message: Value | None) -> Value:
    condition = trace.force(condition)
    if isinstance(condition, Tensor):
        if kind is not AssertionError or not may_assume(trace, condition):  # the others take no tensor
            raise Unsupported("a tensor's values are checked")
        assume(trace, condition, True)
        return Const(None)
    if truth(trace, condition):
        return Const(None)
    if message is None or is_none(trace, message):
        raise Raised(Error(kind, [Const(_PLAIN_MESSAGE)]))
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


@RULES.of(torch_private.check_all_with)
def _check_all_with(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given = dict(zip(("error_type", "cond", "message"), args, strict=False)) | kwargs
    return _check_all(trace, [given["cond"]], {})


@RULES.of(torch_private.check_all)
def _check_all(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given = dict(zip(("cond", "message"), args, strict=False)) | kwargs
    condition = trace.force(given["cond"])
    if not isinstance(condition, Tensor) or condition.fake.dtype is not torch.bool:
        raise Unsupported("the values of something that is no tensor of truths are checked")
    holds = tensor_method(trace, "all", [condition], {})
    assert isinstance(holds, Tensor)
    if not may_assume(trace, holds):
        raise Unsupported("a tensor's values are checked")
    assume(trace, holds, True)
    return Const(None)


def _check_is_size(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given = dict(zip(("i", "message"), args, strict=False)) | kwargs
    _require(trace, RuntimeError, compare(trace, ">=", given["i"], Const(0)), given.get("message"))
    if "max" in given and not is_none(trace, given["max"]):
        _require(trace, RuntimeError, compare(trace, "<=", given["i"], given["max"]), given.get("message"))
    return Const(None)


if torch_private.check_is_size is not None:
    RULES[torch_private.check_is_size] = _check_is_size
