"""The bytecode of the Python that runs."""

from __future__ import annotations

import sys

from longhand.capture.bytecode.versions import cpython311, cpython312, cpython313
from longhand.capture.bytecode.versions.version import Version
from longhand.errors import CaptureError

__all__ = ["KNOWN", "VERSION"]

KNOWN = {module.VERSION.number: module.VERSION for module in (cpython311, cpython312, cpython313)}


def _running() -> Version:
    number = sys.version_info[:2]
    if number not in KNOWN:
        known = ", ".join(f"{major}.{minor}" for major, minor in KNOWN)
        raise CaptureError(
            f"The bytecode of Python {number[0]}.{number[1]} is not known.",
            hint=f"Use Python {known}, or frontend='dynamo' or 'export'.",
        )
    return KNOWN[number]


VERSION = _running()
