"""Timing a kernel as its unit calls it: a call by hand is checked each time, which takes longer than a launch."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any


def as_the_unit_calls(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The host function of a kernel, called from a function that stands in the kernel's unit (docs/units.md).

    A kernel in C++ is checked in either case, in nanoseconds, and is returned as it is.
    """
    package, _, name = str(getattr(kernel, "__module__", "")).rpartition(".kernels.")
    if not package or not isinstance(kernel, types.FunctionType):
        return kernel

    def call(*args: Any, **named: Any) -> Any:
        return kernel(*args, **named)

    return types.FunctionType(call.__code__, {"__package__": package}, name, None, call.__closure__)
