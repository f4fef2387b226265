"""Small units to merge: kernels that call nothing else, and what is done to them."""

from __future__ import annotations

import json
from pathlib import Path

from longhand.emit.unit.lock_file import LOCK
from longhand.emit.unit.threeway import MergeReport, Outcome

Files = dict[str, str | bytes]

KERNEL = """import torch

# Tunables.
BLOCK = 512
NUM_WARPS = 4


def {name}(x, out):
    first = x * {first}

    second = first + 1

    third = second * 2

    out.copy_(third)


def reference(x):
    return (x * {first} + 1) * 2
"""


def unit(kernels: dict[str, str]) -> Files:
    """A unit of kernels that call nothing else."""
    names = sorted(kernels)
    imports = "".join(f"from .{name} import {name}\n" for name in names)
    files: Files = {
        "__init__.py": "from .model import run\n",
        "model.py": "from . import kernels\n\n\ndef run(x):\n"
        + "".join(f"    kernels.{n}(x, x)\n" for n in names),
        "kernels/__init__.py": imports,
        **{f"kernels/{name}.py": text for name, text in kernels.items()},
    }
    base: Files = {f".base/{path}": content for path, content in files.items()}
    lock = {"hashes": {}, "ledger": {}}
    return {**files, **base, LOCK: json.dumps(lock)}


def version(**first: object) -> Files:
    return unit({name: KERNEL.format(name=name, first=value) for name, value in first.items()})


def edit(out: Path, path: str, old: str, new: str) -> None:
    text = (out / path).read_text()
    assert old in text
    (out / path).write_text(text.replace(old, new, 1))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def outcome(report: MergeReport, path: str) -> Outcome:
    return next(file.outcome for file in report.files if file.path == path)


def bytes_of(files: Files) -> dict[str, bytes]:
    return {path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()}
