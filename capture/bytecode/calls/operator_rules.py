"""What the symbolic interpreter knows of the operator module: each function is its operator."""

from __future__ import annotations

import operator

from longhand.capture.bytecode.calls.rules import Rules
from longhand.capture.bytecode.containers.items import delete_item, get_item, set_item
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.operators import binary, compare, contains, is_same, truth
from longhand.capture.bytecode.values.tracked import (
    Const,
    Value,
)

__all__ = ["RULES"]

RULES = Rules()


for _symbol, _functions in {
    "+": (operator.add, operator.concat),
    "-": (operator.sub,),
    "*": (operator.mul,),
    "/": (operator.truediv,),
    "//": (operator.floordiv,),
    "%": (operator.mod,),
    "**": (operator.pow, pow),
    "@": (operator.matmul,),
    "&": (operator.and_,),
    "|": (operator.or_,),
    "^": (operator.xor,),
    "+=": (operator.iadd,),
    "*=": (operator.imul,),
}.items():

    def _binary_rule(
        trace: Trace, args: list[Value], kwargs: dict[str, Value], symbol: str = _symbol
    ) -> Value:
        if len(args) != 2 or kwargs:
            raise Unsupported("an operator's function with other than two arguments")
        return binary(trace, symbol, args[0], args[1])

    for _function in _functions:
        RULES[_function] = _binary_rule

for _symbol, _function in {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}.items():

    def _compare_rule(
        trace: Trace, args: list[Value], kwargs: dict[str, Value], symbol: str = _symbol
    ) -> Value:
        return compare(trace, symbol, args[0], args[1])

    RULES[_function] = _compare_rule

RULES[operator.getitem] = lambda trace, args, kwargs: get_item(trace, args[0], args[1])
RULES[operator.contains] = lambda trace, args, kwargs: Const(contains(trace, args[0], args[1]))
RULES[operator.truth] = lambda trace, args, kwargs: Const(truth(trace, args[0]))
RULES[operator.not_] = lambda trace, args, kwargs: Const(not truth(trace, args[0]))
RULES[operator.is_] = lambda trace, args, kwargs: Const(is_same(trace, args[0], args[1]))
RULES[operator.is_not] = lambda trace, args, kwargs: Const(not is_same(trace, args[0], args[1]))


@RULES.of(operator.setitem)
def _setitem(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    set_item(trace, args[0], args[1], args[2])
    return Const(None)


@RULES.of(operator.delitem)
def _delitem(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    delete_item(trace, args[0], args[1])
    return Const(None)
