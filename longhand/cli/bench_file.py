"""What `longhand bench --json` printed into a file, read back: it may be anybody's."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from longhand.emit.unit.lock_file import read_regular
from longhand.errors import OptionError, UnitError


def read_times(file: Path) -> dict[str, Any]:
    """By kernel: ``ms``, ``base_ms`` and ``gb_per_s``, under ``kernels``.

    Raises:
        OptionError: It is something else.
    """
    try:
        content = json.loads(read_regular(file))
        kernels = {
            str(name): {
                "ms": _number(one["ms"]),
                "base_ms": _number(one["base_ms"]) if one.get("base_ms") else None,
                "gb_per_s": _number(one["gb_per_s"]) if one.get("gb_per_s") else None,
            }
            for name, one in content["kernels"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError, UnitError):
        kernels = None
    if kernels is None:
        raise OptionError(f"--bench {file}: it is not what `longhand bench --json` prints.")
    return {"kernels": kernels}


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number
