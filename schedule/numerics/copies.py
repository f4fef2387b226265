"""Which values a kernel only moves from memory to memory: they need no arithmetic, and stay in the dtype they have."""

from __future__ import annotations

from collections.abc import Mapping, Set

import torch

from longhand.lower.ir import Load, Pointwise, PointwiseOp, Store, Value, arguments


def copied_values(body: tuple[Value, ...], memory: Mapping[str, torch.dtype]) -> frozenset[int]:
    """Positions of the loads that are only stored, in the dtype of their memory, and of choices among such loads.

    Args:
        body: A kernel's.
        memory: The dtype of each buffer that it names.
    """
    dtypes = _dtypes(body, memory)
    copied = {*dtypes}
    while True:
        kept = {position for position in copied if _is_only_moved(body, position, memory, dtypes, copied)}
        if kept == copied:
            return frozenset(kept)
        copied = kept


def _dtypes(body: tuple[Value, ...], memory: Mapping[str, torch.dtype]) -> dict[int, torch.dtype]:
    """The dtype in memory of each load, and of each choice among loads of one dtype."""
    dtypes: dict[int, torch.dtype] = {}
    for position, value in enumerate(body):
        if isinstance(value, Load):
            dtypes[position] = memory[value.buffer]
        elif _is_choice(value):
            first, second = (dtypes.get(argument) for argument in arguments(value)[1:])
            if first is not None and first == second:
                dtypes[position] = first
    return dtypes


def _is_choice(value: Value) -> bool:
    return isinstance(value, Pointwise) and value.op is PointwiseOp.WHERE


def _is_only_moved(
    body: tuple[Value, ...],
    position: int,
    memory: Mapping[str, torch.dtype],
    dtypes: Mapping[int, torch.dtype],
    copied: Set[int],
) -> bool:
    """Whether what a value is chosen from, and all that becomes of it, are copies."""
    value = body[position]
    if _is_choice(value) and not set(arguments(value)[1:]) <= copied:
        return False
    for at, user in enumerate(body):
        if position not in arguments(user):
            continue
        if isinstance(user, Store):
            if user.value != position or user.mask == position or memory[user.buffer] != dtypes[position]:
                return False
        elif at not in copied or arguments(user)[0] == position:
            return False
    return True
