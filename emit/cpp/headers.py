"""The headers that C++ kernels include: found in the kernels' text, so that nothing unused is included or written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from longhand.emit.cpp.operators import BINARY_FUNCTIONS, TORCH_FUNCTIONS, VECTOR_FUNCTIONS, WRITTEN_OUT
from longhand.emit.cpp.templates import render_template

_VECTOR_NAMES = frozenset(name + suffix for name in VECTOR_FUNCTIONS.values() for suffix in ("", "f"))
_CALLED = re.compile(r"(?<![\w:])(\w+)(?:<\w+>)?\(")

_STANDARD = {
    "algorithm": re.compile(r"std::(max|min|upper_bound)\b"),
    "cmath": re.compile(r"\b(INFINITY|NAN|std::(?!max|min|upper_bound|vector|array|fill)\w+)\b"),
    "cstdint": re.compile(r"\b(u?int(8|16|32|64)_t|INT(32|64)_(MIN|MAX))\b"),
    "vector": re.compile(r"std::vector\b"),
}


def called_functions(text: str) -> frozenset[str]:
    """The unqualified names that a C++ text calls."""
    return frozenset(_CALLED.findall(text))


def own_headers(text: str) -> tuple[str, ...]:
    """The headers of ours that a kernel's text needs, sorted."""
    called = called_functions(text)
    needs = {
        "bfloat16.h": re.search(r"\bbfloat16\b", text) is not None,
        "float16.h": re.search(r"\bfloat16\b", text) is not None,
        "torch_math.h": bool(called & TORCH_FUNCTIONS),
        "transpose.h": "load_transposed" in called,
        "vector_math.h": bool(called & {*_VECTOR_NAMES, *WRITTEN_OUT.values()}),
    }
    return tuple(header for header, needed in needs.items() if needed)


def standard_headers(text: str) -> tuple[str, ...]:
    """The headers of the standard library that a kernel's text needs, sorted."""
    return tuple(header for header, pattern in _STANDARD.items() if pattern.search(text))


def print_cpp_headers(kernels: Iterable[str]) -> Mapping[str, str]:
    """The text of every header that a unit's kernels include, by file name, not yet through clang-format.

    Args:
        kernels: The texts of all the C++ kernels of the unit, as printed.
    """
    texts = tuple(kernels)
    called = frozenset[str]().union(*(called_functions(text) for text in texts))
    vector = [(name, _n_arguments(name)) for name in sorted(called & _VECTOR_NAMES)]
    return {
        name: render_template(
            f"{name}.jinja",
            vector_functions=vector,
            written_out=called & set(WRITTEN_OUT.values()),
            functions=called & TORCH_FUNCTIONS,
        )
        for name in sorted({header for text in texts for header in own_headers(text)})
    }


def _n_arguments(function: str) -> int:
    return 2 if function.removesuffix("f") in BINARY_FUNCTIONS else 1
