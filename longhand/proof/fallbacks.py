"""Tells of kernels that are PyTorch calls, from the lock of their unit."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longhand.emit.unit.lock_file import LOCK, read_lock
from longhand.emit.unit.torch_kernels import InTorch
from longhand.errors import KernelWarning, ProofError


def torch_kernels_of(lock: Mapping[str, Any]) -> dict[str, InTorch]:
    """By key, the kernels of a unit that are PyTorch calls."""
    keys = lock.get("kernels", {})
    return {
        keys[name]: InTorch(why["cause"], why["detail"])
        for name, why in lock.get("in_torch", {}).items()
        if name in keys
    }


def warn_of_torch_kernels(files: Mapping[str, str | bytes]) -> tuple[str, ...]:
    """The same of a unit that was just made."""
    return warn_of(json.loads(files[LOCK]))


def refuse_torch_kernels(folder: Path, *, strict: bool, is_told: bool) -> None:
    """Looks at a unit that is about to run: warns of its kernels that are PyTorch calls, unless that `is_told`.

    Raises:
        ProofError: It has some, and `strict`.
    """
    lock = read_lock(folder)
    names = lock.get("in_torch", {}) if is_told else warn_of(lock)
    if strict and names:
        told = "; ".join(f"{name} {why['cause']}: {why['detail']}" for name, why in lock["in_torch"].items())
        raise ProofError(f"{folder} has kernels that are PyTorch calls: {told}.")


def warn_of(lock: Mapping[str, Any]) -> tuple[str, ...]:
    """Warns of each kernel of a unit that is PyTorch calls; their names."""
    reasons = lock.get("in_torch", {})
    for name, why in reasons.items():
        of = f", which is `{why['statement']}`" if why["statement"] else ""
        place = f"{why['where']}: " if why["where"] else ""
        warnings.warn(
            f"{place}longhand's kernel {name}{of}, {why['cause']}: {why['detail'].rstrip('.')}. It runs as PyTorch "
            "calls instead; all else is as it should be. This is a bug in longhand: please report it with this "
            "message and the statement's module.",
            KernelWarning,
            stacklevel=3,
        )
    return tuple(reasons)
