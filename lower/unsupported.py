"""What loops of ours do not compute: a lowering declines, and the op becomes a library call that says why."""

from __future__ import annotations

import torch

LOOP_DTYPES = frozenset(
    {
        torch.bool,
        torch.int8,
        torch.uint8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
    }
)

BEST_IN_LIBRARY = ""  # no reason that a reader wants to be told: the call is what anybody would write


class UnsupportedLowering(Exception):
    """Raised by a lowering that does not fit this call; the op becomes an extern with this reason."""


def require_loop_dtypes(*dtypes: torch.dtype) -> None:
    """Declines dtypes that bodies do not compute in."""
    for dtype in dtypes:
        if dtype not in LOOP_DTYPES:
            raise UnsupportedLowering(f"{str(dtype).removeprefix('torch.')} is left to ATen.")
