"""From a part's name to what measures it: makes the row's model, and tells apart that it cannot be made here."""

from __future__ import annotations

import torch

from benchmarks.architectures import catalog
from benchmarks.architectures.calls import copied
from benchmarks.architectures.capture_counts import dynamo_counts, longhand_counts
from benchmarks.architectures.compiled import compiled_result
from benchmarks.architectures.cubins import cubin_result, interpreted_result
from benchmarks.architectures.rows import Part, Result, Verdict
from benchmarks.architectures.speed import speed_result
from longhand.options import Frontend
from longhand.verify.convolutions import without_tf32


def measure(
    row: str, *, part: Part, device: str, dtype: torch.dtype, frontend: Frontend, arch: str, train: bool
) -> Result:
    """One part of one row.

    Args:
        row: ``family/name``.
        part: What to try.
        device: Where; units for CUDA are made and interpreted on the CPU.
        dtype: Of weights and inputs.
        frontend: What captures it.
        arch: What CUDA binaries are for.
        train: With the parts that exist both ways, in training.
    """
    is_training = part is Part.TRAINING or (train and part is not Part.INFERENCE)
    try:
        example = catalog.example(row, train=is_training)
        if device == "cuda":
            example = copied(example, device=device)
        with torch.no_grad():
            module, args, kwargs = copied(example, dtype)
            module(*args, **kwargs)
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        return Result(Verdict.NOT_MADE, f"{type(error).__name__}: {first[:200]}")
    match part:
        case Part.MADE:
            return Result(Verdict.RIGHT)
        case Part.CAPTURE:
            return longhand_counts(example, train=is_training)
        case Part.DYNAMO:
            return dynamo_counts(example, train=is_training)
        case Part.INFERENCE | Part.TRAINING:
            with without_tf32():
                return compiled_result(example, dtype, frontend, train=is_training)
        case Part.CUBINS:
            return cubin_result(example, arch, train=is_training)
        case Part.INTERPRETER:
            return interpreted_result(row, example, arch, train=is_training)
        case Part.SPEED:
            return speed_result(example, dtype, frontend, device, train=is_training)
