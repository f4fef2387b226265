"""Compiles what a unit launched to sm_90, without a GPU: reads folders from stdin, answers with a line of JSON each.

Started by tests/models/cuda_sweep.py, without TRITON_INTERPRET.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import torch

from longhand.loading import import_file
from tests.models.cuda_units import LAUNCHES, in_words
from tests.triton_compile import compile_launch

FEW_BYTES = 128  # what sines of large numbers need


def compile_unit(folder: Path, package: str) -> list[str]:
    """What does not compile, or spills, in words."""
    problems: list[str] = []
    import_file(package, folder / "unit" / "__init__.py", [str(folder / "unit")])
    for line in (folder / LAUNCHES).read_text().splitlines():
        name, function, args, options = json.loads(line)
        kernel: Any = getattr(importlib.import_module(f"{package}.kernels.{name}"), function)
        try:
            usage = compile_launch(
                getattr(kernel, "kernel", None) or kernel, tuple(map(_value, args)), options
            )
        except Exception as error:
            problems.append(f"compile {function}: {in_words(error)}")
            continue
        if usage.spill_bytes > FEW_BYTES:
            problems.append(f"compile {function}: spills {usage.spill_bytes} bytes")
        if usage.shared_bytes > 227 * 1024:
            problems.append(f"compile {function}: {usage.shared_bytes} bytes of shared memory")
    return list(dict.fromkeys(problems))


def _value(plain: Any) -> Any:
    """An argument of a launch again: a dtype's name stands for a tensor."""
    return (
        torch.empty(0, dtype=getattr(torch, plain.removeprefix("torch.")))
        if isinstance(plain, str)
        else plain
    )


def main() -> None:
    for number, line in enumerate(sys.stdin):
        print(json.dumps(compile_unit(Path(line.strip()), f"compiled_unit_{number}")), flush=True)


if __name__ == "__main__":
    main()
