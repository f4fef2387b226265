"""What a kernel is for, where its operations do not say it: filling padding, statistics, another layout."""

from __future__ import annotations

import enum

from longhand.lower.ir import Constant, Derivation, Derived, Load, Store
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.plan import KernelPlan


class KernelPurpose(enum.Enum):
    """The text is the kernel's name."""

    FILL_PADDING = "fill_padding"
    PIECE_STATISTICS = "piece_statistics"  # makes the statistics of pieces
    BATCH_STATISTICS = "batch_statistics"  # reads them, and the running ones
    ROW_STATISTICS = "row_statistics"  # reads them alone
    TO_CHANNELS_LAST = "to_channels_last"
    TO_CONTIGUOUS = "to_contiguous"


def purpose_of(plan: KernelPlan, words: BufferNamer, made: str | None = None) -> KernelPurpose | None:
    """What a kernel is for; None where its operations say it.

    Args:
        plan: The kernel.
        words: The captured graph's.
        made: The last buffer of the call; of the one that the kernel was planned from where it is not told.
    """
    stored = _derivations(plan, words, Store)
    if Derivation.PIECE_SQUARES in stored:
        return KernelPurpose.PIECE_STATISTICS
    if Derivation.PIECE_SQUARES in _derivations(plan, words, Load):
        read = {value.buffer for value in plan.body if isinstance(value, Load)}
        return KernelPurpose.BATCH_STATISTICS if len(read) > 2 else KernelPurpose.ROW_STATISTICS
    if fills_padding(plan):
        return KernelPurpose.FILL_PADDING
    if all(isinstance(value, Load | Store) for value in plan.body):
        last = words.origins.derived(made or plan.pointers[-1].name)
        if last is not None and last.how is Derivation.CHANNELS_LAST:
            return KernelPurpose.TO_CHANNELS_LAST
        if last is not None and last.how is Derivation.CONTIGUOUS:
            return KernelPurpose.TO_CONTIGUOUS
    return None


def fills_padding(plan: KernelPlan) -> bool:
    """Whether a kernel reads nothing and writes zeros around what another one does."""
    stored = [plan.body[value.value] for value in plan.body if isinstance(value, Store)]
    is_zero = all(isinstance(value, Constant) and value.value == 0 for value in stored)
    return is_zero and any(parameter.pointer is not None for parameter in plan.ints)


def _derivations(plan: KernelPlan, words: BufferNamer, kind: type[Load] | type[Store]) -> set[Derivation]:
    derived: list[Derived | None] = [
        words.origins.derived(v.buffer) for v in plan.body if isinstance(v, kind)
    ]
    return {one.how for one in derived if one is not None}
