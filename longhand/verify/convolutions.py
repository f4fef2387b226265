"""Convolutions that are as exact for a unit as for eager: without TF32, which PyTorch allows them by default.

cuDNN takes TF32 for some layouts and sizes and not for others. A unit that convolves in channels last is then a
thousand times as far from float64 as eager is, or eager as the unit, and both are right.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def without_tf32() -> Iterator[None]:
    """Convolutions of float32 in float32, on CUDA; what was allowed before is allowed again after it."""
    cudnn: Any = torch.backends.cudnn
    try:
        before = cudnn.allow_tf32
        cudnn.allow_tf32 = False
    except RuntimeError:  # they and recurrent layers were told apart, or torch.testing has frozen the flags
        precision, cudnn.conv.fp32_precision = cudnn.conv.fp32_precision, "ieee"
        try:
            yield
        finally:
            cudnn.conv.fp32_precision = precision
        return
    try:
        yield
    finally:
        cudnn.allow_tf32 = before
