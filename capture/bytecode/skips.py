"""Which frames the hook leaves to CPython: torch's, the standard library's, longhand's own and generated code; and
which ones with all that they call: units, and torch's Dynamo.
"""

from __future__ import annotations

import functools
import inspect
import os
import sysconfig
from types import CodeType

import torch

__all__ = ["GENERATED", "is_closed", "reason_to_skip"]

GENERATED = "generated code"

_HERE = os.path.dirname(os.path.abspath(__file__))
_LONGHAND = os.path.dirname(os.path.dirname(_HERE)) + os.sep
# In a checkout the rooms stand beside each other, with the user's code among them; where longhand is installed, what is
# beside capture is longhand's.
_IS_INSTALLED = os.path.isfile(_LONGHAND + "__init__.py")
_ROOMS = (
    (_LONGHAND,)
    if _IS_INSTALLED
    else tuple(
        _LONGHAND + room + os.sep
        for room in ("capture", "lower", "schedule", "emit", "templates", "longhand")
    )
)
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_DYNAMO = os.path.join(_TORCH, "_dynamo") + os.sep
_AROUND_UNITS = os.sep + os.path.join("longhand", "deploy", "operator.py")  # what load() puts around a unit
_MODULES = (os.path.join(_TORCH, "nn", "modules") + os.sep,)
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_BESIDE_TORCH = os.path.dirname(os.path.dirname(_TORCH)) + os.sep
_PACKAGES = tuple(
    {sysconfig.get_path("purelib") + os.sep, sysconfig.get_path("platlib") + os.sep, _BESIDE_TORCH}
)
_OTHERS = ("sympy", "numpy", "pytest", "_pytest", "pluggy", "triton", "networkx", "bytecode")


def reason_to_skip(code: CodeType) -> str | None:
    """Why calls of this code are not captured on their own; None if they are."""
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return "a generator or coroutine"
    if code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
        return "a comprehension of a frame that is CPython's"
    file = code.co_filename
    if file.startswith("<") and not file.startswith(("<stdin", "<ipython", "<string")):
        return GENERATED
    if file.startswith("<string") and code.co_name.startswith("__"):
        return GENERATED
    if file.startswith("<string") and code.co_name == "<lambda>" and code.co_varnames[:1] == ("_cls",):
        return GENERATED  # a named tuple's __new__
    path = os.path.abspath(file)
    if path.startswith(_TORCH):
        is_forward = path.startswith(_MODULES) and code.co_name == "forward"
        return None if is_forward else "torch's own code"
    if path.startswith(_ROOMS):
        return "longhand's own code"
    for folder in _PACKAGES:
        if path.startswith(folder):
            top = path[len(folder) :].split(os.sep)[0]
            return f"{top}'s code" if top in _OTHERS else None
    return "the standard library's code" if path.startswith(_STANDARD) else None


def is_closed(code: CodeType) -> bool:
    """Whether nothing that this code calls is captured either: it is a unit's, or torch's Dynamo's.

    Units are told by the lock in their folder, however they were loaded: through `load`, from the cache, as a package.
    """
    path = os.path.abspath(code.co_filename)
    return path.startswith(_DYNAMO) or path.endswith(_AROUND_UNITS) or _is_units(os.path.dirname(path))


@functools.lru_cache(maxsize=4096)
def _is_units(folder: str) -> bool:
    """Whether a folder is a unit's, or the ``kernels`` folder of one."""
    owner = os.path.dirname(folder) if os.path.basename(folder) == "kernels" else folder
    return os.path.isfile(os.path.join(owner, "longhand.lock"))
