"""The headers that a C++ kernel includes: they follow from what its statements need, which travels with them.

What a statement needs are the names that stand in it and are none of the kernel's own: functions, types, constants.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Self

from longhand.emit.cpp.operators import BINARY_FUNCTIONS, TORCH_FUNCTIONS, VECTOR_FUNCTIONS, WRITTEN_OUT

_VECTOR_NAMES = frozenset(name + suffix for name in VECTOR_FUNCTIONS.values() for suffix in ("", "f"))
LOAD_TRANSPOSED = "load_transposed"
VECTOR = "std::vector"
_OF_ALGORITHM = frozenset({"std::max", "std::min", "std::upper_bound"})
_FLOAT_CONSTANTS = frozenset({"INFINITY", "NAN"})
_WHOLE_NUMBERS = frozenset(
    {
        *("int8_t", "int16_t", "int32_t", "int64_t", "uint8_t"),
        *("INT32_MIN", "INT32_MAX", "INT64_MIN", "INT64_MAX"),
    }
)


class CppSource(str):
    """The text of a kernel's file.

    Attributes:
        needs: What stands in its statements and is none of its own names.
    """

    __slots__ = ("needs",)
    needs: frozenset[str]

    def __new__(cls, text: str, needs: frozenset[str]) -> Self:
        made = super().__new__(cls, text)
        made.needs = needs
        return made


def own_headers(needs: Set[str]) -> tuple[str, ...]:
    """The headers of ours, sorted."""
    headers = {
        "bfloat16.h": "bfloat16" in needs,
        "float16.h": "float16" in needs,
        "torch_math.h": bool(needs & TORCH_FUNCTIONS),
        "transpose.h": LOAD_TRANSPOSED in needs,
        "vector_math.h": bool(needs & {*_VECTOR_NAMES, *WRITTEN_OUT.values()}),
    }
    return tuple(header for header, is_needed in headers.items() if is_needed)


def standard_headers(needs: Set[str]) -> tuple[str, ...]:
    """Those of the standard library, sorted."""
    functions = {name for name in needs if name.startswith("std::")} - _OF_ALGORITHM - {VECTOR}
    headers = {
        "algorithm": bool(needs & _OF_ALGORITHM),
        "cmath": bool(functions or needs & _FLOAT_CONSTANTS),
        "cstdint": bool(needs & _WHOLE_NUMBERS),
        "vector": VECTOR in needs,
    }
    return tuple(header for header, is_needed in headers.items() if is_needed)


def vector_functions(needs: Set[str]) -> list[tuple[str, int]]:
    """The functions of libm that vector_math.h is to declare, each with the number of its arguments."""
    return [
        (name, 2 if name.removesuffix("f") in BINARY_FUNCTIONS else 1)
        for name in sorted(needs & _VECTOR_NAMES)
    ]
