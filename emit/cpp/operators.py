"""How C++ writes each pointwise operation, with PyTorch's meaning.

Functions of libm are called by their C names (``logf``): vector_math.h declares them as SIMD functions. What has no
C++ counterpart with PyTorch's meaning (a maximum that keeps NaN, a floor division) is a function of torch_math.h.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from longhand.emit.cpp.types import cpp_type, is_struct
from longhand.emit.text.expression import SAME, Operator, Precedence, call, infix
from longhand.emit.text.function_names import FUNCTIONS, n_arguments
from longhand.lower.ir import AxisSize, Pointwise, PointwiseOp, Store, Value

P = PointwiseOp


# libm functions with a SIMD version in glibc's libmvec.
VECTOR_FUNCTIONS: dict[PointwiseOp, str] = {
    op: function.cpp for op, function in FUNCTIONS.items() if function.is_in_libmvec
}
# Of floats, written out in vector_math.h: faster than libmvec's.
WRITTEN_OUT: dict[PointwiseOp, str] = {P.EXP: "vector_exp", P.ERF: "vector_erf"}
ROUNDED_TO = "rounded_to_"  # float16, or bfloat16: in the header of that type
BINARY_FUNCTIONS = frozenset(name for op, name in VECTOR_FUNCTIONS.items() if n_arguments(op) == 2)

# Compilers turn these into single instructions by themselves.
_STANDARD_FUNCTIONS: dict[PointwiseOp, tuple[str, int]] = {
    **{
        op: (function.cpp, n_arguments(op))
        for op, function in FUNCTIONS.items()
        if not function.is_in_libmvec
    },
    P.FMOD: ("std::fmod", 2),
    P.ISNAN: ("std::isnan", 1),
    P.ISINF: ("std::isinf", 1),
    P.SIGNBIT: ("std::signbit", 1),
}

# torch_math.h, floats.
_FLOAT_FUNCTIONS: dict[PointwiseOp, tuple[str, int]] = {
    P.MAXIMUM: ("maximum", 2),
    P.MINIMUM: ("minimum", 2),
    P.FMAX: ("maximum_ignoring_nan", 2),
    P.FMIN: ("minimum_ignoring_nan", 2),
    P.FLOOR_DIV: ("floor_divide", 2),
    P.REMAINDER: ("remainder_of_divisor_sign", 2),
    P.SIGN: ("sign", 1),
}

# torch_math.h, integers: templates, called with the type that PyTorch computes in.
_INTEGER_FUNCTIONS: dict[PointwiseOp, tuple[str, int]] = {
    P.FLOOR_DIV: ("floor_divide", 2),
    P.TRUNC_DIV: ("trunc_divide", 2),
    P.REMAINDER: ("remainder_of_divisor_sign", 2),
    P.FMOD: ("remainder_of_dividend_sign", 2),
    P.POW: ("integer_power", 2),
    P.SHIFT_LEFT: ("shift_left", 2),
    P.SHIFT_RIGHT: ("shift_right", 2),
    P.SIGN: ("sign", 1),
}
TORCH_FUNCTIONS = frozenset(name for name, _ in (*_FLOAT_FUNCTIONS.values(), *_INTEGER_FUNCTIONS.values()))
_STANDARD_INTEGER = {P.MAXIMUM: "std::max", P.MINIMUM: "std::min", P.FMAX: "std::max", P.FMIN: "std::min"}

_COMPARISONS = {P.EQ: "==", P.NE: "!=", P.LT: "<", P.LE: "<=", P.GT: ">", P.GE: ">="}
_BITWISE = {P.BITWISE_AND: "&", P.BITWISE_OR: "|", P.BITWISE_XOR: "^"}

_ARITHMETIC: dict[PointwiseOp, Operator] = {
    P.ADD: infix("+", Precedence.SUM),
    P.SUB: infix("-", Precedence.SUM),
    P.MUL: infix("*", Precedence.PRODUCT),
    P.DIV: infix("/", Precedence.PRODUCT),
    P.NEG: Operator("-{0}", Precedence.UNARY, (Precedence.ATOM,)),
    P.LOGICAL_AND: Operator("{0} && {1}", Precedence.AND, (Precedence.AND, Precedence.COMPARE)),
    # g++ -Wall wants parentheses around an && inside an ||.
    P.LOGICAL_OR: Operator("{0} || {1}", Precedence.OR, (Precedence.COMPARE,)),
    P.LOGICAL_XOR: Operator("{0} != {1}", Precedence.COMPARE, (Precedence.BIT_OR,)),
    P.LOGICAL_NOT: Operator("!{0}", Precedence.UNARY, (Precedence.UNARY,)),
    P.BITWISE_NOT: Operator("~{0}", Precedence.UNARY, (Precedence.UNARY,)),
    P.WHERE: Operator(
        "{0} ? {1} : {2}",
        Precedence.CONDITIONAL,
        (Precedence.OR, Precedence.OR, Precedence.CONDITIONAL),
    ),
}


def cpp_operator(value: Pointwise, body: tuple[Value, ...]) -> Operator:
    """How C++ writes one operation of a body."""
    argument = body[value.args[-1] if value.op is P.WHERE else value.args[0]]
    assert not isinstance(argument, Store)  # a store has no value
    operand = argument.dtype
    if value.op is P.CAST:
        return _cast(value, operand)
    if value.op in _ARITHMETIC:
        return _ARITHMETIC[value.op]
    if value.op in _COMPARISONS:
        symbol = _COMPARISONS[value.op]
        return Operator(f"{{0}} {symbol} {{1}}", Precedence.COMPARE, (Precedence.BIT_OR,))
    if value.op in _BITWISE:
        # C++ binds & ^ | more loosely than comparisons, Python does not: parentheses whenever one is an operand.
        symbol = _BITWISE[value.op]
        return Operator(f"{{0}} {symbol} {{1}}", Precedence.CONDITIONAL, (Precedence.SHIFT,))
    if operand.is_floating_point:
        return _float_operator(value.op, operand)
    return _integer_operator(value.op, operand)


def operator_table(
    body: tuple[Value, ...], inverted: frozenset[int] = frozenset()
) -> Callable[[Pointwise], Operator]:
    """The C++ dialect for emit.expression.render; of values in `inverted` the inverse is at hand."""

    def operator(value: Pointwise) -> Operator:
        if value.op is P.DIV and value.args[1] in inverted:
            return _ARITHMETIC[P.MUL]
        return cpp_operator(value, body)

    return operator


def _float_operator(op: PointwiseOp, dtype: torch.dtype) -> Operator:
    suffix = "" if dtype is torch.float64 else "f"
    one = "1.0" + suffix
    if op in WRITTEN_OUT and dtype is not torch.float64:
        return call(WRITTEN_OUT[op])
    if op in VECTOR_FUNCTIONS:
        function = VECTOR_FUNCTIONS[op] + suffix
        return call(function, n_arguments(op))
    if op in _STANDARD_FUNCTIONS:
        return call(*_STANDARD_FUNCTIONS[op])
    if op in _FLOAT_FUNCTIONS:
        function, count = _FLOAT_FUNCTIONS[op]
        # Templates take their type in writing: a 16-bit element would be deduced as its struct.
        return call(function, count, cpp_type(dtype) if op in _INTEGER_FUNCTIONS else "")
    if op is P.TRUNC_DIV:
        operands = (Precedence.PRODUCT, Precedence.UNARY)
        return Operator("std::trunc({0} / {1})", operands=operands, needs=frozenset({"std::trunc"}))
    if op is P.RECIPROCAL:
        return Operator(f"{one} / {{0}}", Precedence.PRODUCT, (Precedence.UNARY,))
    if op is P.RSQRT:
        return Operator(f"{one} / std::sqrt({{0}})", Precedence.PRODUCT, needs=frozenset({"std::sqrt"}))
    if op is P.SIGMOID:
        exp = "exp" if dtype is torch.float64 else WRITTEN_OUT[P.EXP]
        text = f"{one} / ({one} + {exp}(-{{0}}))"
        return Operator(text, Precedence.PRODUCT, (Precedence.ATOM,), frozenset({exp}))
    raise KeyError(f"{op} on {dtype} has no C++ spelling")


def _integer_operator(op: PointwiseOp, dtype: torch.dtype) -> Operator:
    if op in _INTEGER_FUNCTIONS:
        function, count = _INTEGER_FUNCTIONS[op]
        return call(function, count, cpp_type(dtype))
    if op in _STANDARD_INTEGER:
        return call(_STANDARD_INTEGER[op], 2, cpp_type(dtype))
    if op is P.ABS:
        return call("std::abs")
    if op is P.SIGNBIT:
        return Operator("{0} < 0", Precedence.COMPARE, (Precedence.BIT_OR,))
    if op in (P.FLOOR, P.CEIL, P.TRUNC, P.ROUND):
        return SAME
    if op in (P.ISNAN, P.ISINF):
        return Operator("false")

    raise KeyError(f"{op} on {dtype} has no C++ spelling")


def _cast(value: Pointwise, source: torch.dtype) -> Operator:
    """A conversion; a value that is narrowed keeps its body type but holds what the narrow type could hold."""
    target = value.narrow or value.dtype
    if target is torch.bool:
        if source is torch.bool:
            return SAME
        zero = {torch.float32: "0.0f", torch.float64: "0.0"}.get(source, "0")
        return Operator(f"{{0}} != {zero}", Precedence.COMPARE, (Precedence.BIT_OR,))
    if target == source:
        return SAME
    if is_struct(target):  # of 16 bits in memory alone: in a register it stays a float
        rounded = f"{ROUNDED_TO}{cpp_type(target)}"
        return Operator(f"{rounded}({{0}})", needs=frozenset({rounded, cpp_type(target)}))
    if target is torch.uint8 and source.is_floating_point:
        # A negative float has no meaning as an unsigned integer in C++; PyTorch goes through int64.
        return Operator(
            "static_cast<uint8_t>(static_cast<int64_t>({0}))", needs=frozenset({"uint8_t", "int64_t"})
        )
    return Operator(f"static_cast<{cpp_type(target)}>({{0}})", needs=frozenset({cpp_type(target)}))


def prints_bare(position: int, body: tuple[Value, ...]) -> bool:
    """Whether an `AxisSize` may stand as the integer that it is: every use is arithmetic with a float beside it."""
    for value in body:
        if not isinstance(value, Pointwise) or position not in value.args:
            continue
        if value.op not in (P.ADD, P.SUB, P.MUL, P.DIV):
            return False
        other = value.args[0] if value.args[1] == position else value.args[1]
        if isinstance(body[other], AxisSize):
            return False
    return True
