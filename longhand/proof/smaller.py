"""A part of an example that takes less time: Triton's interpreter needs a millisecond for each program."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
import torch.utils._pytree as pytree

from longhand.capture.tensor_leaves import tensors_in
from longhand.emit.unit.lock_file import read_lock
from longhand.factory import Call

INTERPRETED_WHOLE = 16 * 2**20  # bytes that kernels move: what the interpreter does in seconds


def bytes_moved(folder: Path) -> int:
    """What the kernels of a unit read and write in one call, at the example's sizes."""
    return sum(int(n_bytes) for _, n_bytes in read_lock(folder).get("traffic", {}).values())


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a call.

    Attributes:
        call: The call on it.
        how: What was cut, in words.
    """

    call: Call
    how: str


def smaller(call: Call) -> Part | None:
    """The call on the first row of its batch, if every tensor that it is given has the same first dimension.

    A unit that is for one batch size says so by being wrong or by raising; what it does right with one row counts.
    """
    tensors = tensors_in((call.args, call.kwargs))
    sizes = {tensor.shape[0] if tensor.ndim > 1 else None for tensor in tensors}
    size = next(iter(sizes), None)
    if len(sizes) != 1 or size is None or size == 1:
        return None
    args, kwargs = pytree.tree_map(
        lambda leaf: leaf[:1] if isinstance(leaf, torch.Tensor) else leaf, (call.args, call.kwargs)
    )
    return Part(Call(call.model, args, kwargs), f"on the first row of {size} in the batch")
