"""Each function of MKL's vector math is asked once by one thread, before several ask for it at once.

MKL chooses a function's kernel in its first call. Where several threads make that call together (the first cos() of a
large tensor in a process), one of them may run a kernel of low accuracy on its part: one in a hundred processes gets
cosines that are wrong by 1.5e-4 (pytorch issue 188792; MKL before 2025.0, which torch's wheels have). A table that a
model makes so would go into a unit, and a unit that is right would differ from eager.
"""

from __future__ import annotations

import functools

import torch

__all__ = ["settle_vector_math"]

_FUNCTIONS = (
    torch.acos,
    torch.asin,
    torch.atan,
    torch.cos,
    torch.erf,
    torch.erfc,
    torch.erfinv,
    torch.exp,
    torch.expm1,
    torch.lgamma,
    torch.log,
    torch.log10,
    torch.log1p,
    torch.log2,
    torch.sin,
    torch.sqrt,
    torch.tan,
    torch.tanh,
)


@functools.cache
def settle_vector_math() -> None:
    """Once in a process; about a millisecond."""
    for dtype in (torch.float32, torch.float64):
        one = torch.full((1,), 0.5, dtype=dtype, device="cpu")
        for function in _FUNCTIONS:
            function(one)
