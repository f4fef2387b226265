"""longhand compiles PyTorch models to source code that people own."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longhand.collection import no_collection

if TYPE_CHECKING:
    from longhand.api import generate
    from longhand.compiling import compile, disable, graph_break, mark_dynamic, reset
    from longhand.loading import load
    from longhand.telling.explanation import explain
    from longhand.telling.logs import set_logs

__all__ = [
    "compile",
    "disable",
    "explain",
    "generate",
    "graph_break",
    "load",
    "mark_dynamic",
    "reset",
    "set_logs",
]

# The rooms (capture, lower, schedule, emit, templates) stand beside this package in a checkout; an
# installed distribution already has them inside.
_ROOT = Path(__file__).resolve().parent.parent
if (_ROOT / "pyproject.toml").is_file() and str(_ROOT) not in __path__:
    __path__.append(str(_ROOT))

# Where each public name lives. Imported on first use: a room may import another without loading the whole compiler,
# and `longhand.load` works where black and clang-format are not installed.
_HOMES = {
    "compile": "longhand.compiling",
    "disable": "longhand.compiling",
    "explain": "longhand.telling.explanation",
    "generate": "longhand.api",
    "graph_break": "longhand.compiling",
    "load": "longhand.loading",
    "mark_dynamic": "longhand.compiling",
    "reset": "longhand.compiling",
    "set_logs": "longhand.telling.logs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'longhand' has no attribute {name!r}")
    try:
        with no_collection():  # what modules make stays
            value = getattr(importlib.import_module(_HOMES[name]), name)
    except (ImportError, AttributeError) as error:
        raise importlib.import_module("longhand.torch_versions").explained(error) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
