"""Which sums are kept in double: those whose rounding shows in what is stored.

Eager PyTorch adds pairwise; a sum that a SIMD loop adds in float, with its last elements one by one, is farther from
exact, and a mean, a norm or a softmax takes that over. A logarithm damps it, and what is rounded to 16 bits hides it:
there the sum stays float, which takes less time.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from longhand.lower.ir import Pointwise, PointwiseOp, Reduce, ReduceOp, Store, Value, arguments

_DAMPING = frozenset({PointwiseOp.LOG, PointwiseOp.LOG2})


def wide_sums(body: tuple[Value, ...], memory: Mapping[str, torch.dtype]) -> frozenset[int]:
    """Positions of the Reduces SUM of float32 that are accumulated in double (CPU).

    Args:
        body: A kernel's.
        memory: The dtype of each buffer that it names.
    """
    return frozenset(
        position
        for position, value in enumerate(body)
        if isinstance(value, Reduce)
        and value.op is ReduceOp.SUM
        and value.dtype is torch.float32
        and _shows(position, body, memory)
    )


def _shows(position: int, body: tuple[Value, ...], memory: Mapping[str, torch.dtype]) -> bool:
    """Whether the rounding of a value reaches a store of full precision undamped."""
    reached = {position}
    for user, value in enumerate(body):
        if reached.isdisjoint(arguments(value)):
            continue
        if isinstance(value, Store):
            if memory[value.buffer] is torch.float32:
                return True
        elif not (isinstance(value, Pointwise) and value.op in _DAMPING):
            reached.add(user)
    return False
