"""C++ types and literals for torch dtypes, and the variable of a sum: a float, a double, or one that is rounded."""

from __future__ import annotations

import math

import numpy
import torch

from longhand.emit.text.expression import Precedence, Text

# What an element in memory is called. bfloat16 and float16 are small structs of ours (templates/cpp/).
CPP_TYPES: dict[torch.dtype, str] = {
    torch.float32: "float",
    torch.float64: "double",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.bool: "bool",
    torch.int8: "int8_t",
    torch.uint8: "uint8_t",
    torch.int16: "int16_t",
    torch.int32: "int32_t",
    torch.int64: "int64_t",
}
# Sizes, strides and loop variables.
SIZE_TYPE = "long"
_INT64_MIN = -(2**63)
_INT32_MAX = 2**31 - 1


def cpp_type(dtype: torch.dtype) -> str:
    """The C++ type of an element of `dtype`."""
    return CPP_TYPES[dtype]


def is_struct(dtype: torch.dtype) -> bool:
    """Whether elements are one of our 16-bit float structs, which convert to float when read."""
    return dtype in (torch.bfloat16, torch.float16)


def literal(value: float | int | bool, dtype: torch.dtype, is_wide: bool = False) -> Text:
    """A number as C++ writes it: the fewest digits that give the same value in `dtype`.

    Args:
        value: The number.
        dtype: Of the body's value.
        is_wide: Whether a whole number must have 64 bits by itself, whatever stands beside it.
    """
    if dtype is torch.bool:
        return Text("true" if value else "false")
    if dtype.is_floating_point:
        return _float_literal(float(value), dtype)
    number = int(value)
    if number == _INT64_MIN:
        return Text("INT64_MIN", needs=frozenset({"INT64_MIN"}))
    is_int = -_INT32_MAX <= number <= _INT32_MAX and not is_wide
    text = f"{number}" if is_int else f"{number}L"
    return Text(text, Precedence.UNARY if number < 0 else Precedence.ATOM)


def _float_literal(value: float, dtype: torch.dtype) -> Text:
    if math.isnan(value):
        return Text("NAN", needs=frozenset({"NAN"}))
    if dtype is not torch.float64:
        with numpy.errstate(over="ignore"):
            rounded = numpy.float32(value)
        value, text = float(rounded), str(rounded)
    else:
        text = repr(value)
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    precedence = Precedence.UNARY if sign else Precedence.ATOM
    if math.isinf(value):
        return Text(f"{sign}INFINITY", precedence, frozenset({"INFINITY"}))
    if "." not in text and "e" not in text:
        text += ".0"
    return Text(text if dtype is torch.float64 else f"{text}f", precedence)
