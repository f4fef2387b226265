"""What a kernel's docstring says of its traffic: ``Reads x once, writes out once; weight stays in cache``."""

from __future__ import annotations

from collections.abc import Mapping

from longhand.lower.ir import Buffer, Load, Store
from longhand.schedule.named_plan import KernelNames, fills_padding
from longhand.schedule.names.words import listed
from longhand.schedule.plan import KernelPlan, KernelReads, Launch

_MOST_WORDS = 6  # of a list; of a longer one the first are named, and how many there are besides


def traffic_line(
    kernel: KernelPlan, launch: Launch, buffers: Mapping[str, Buffer], names: KernelNames
) -> str:
    """The line, without its full stop.

    Args:
        kernel: The kernel.
        launch: Its first call.
        buffers: The unit's buffers.
        names: The kernel's words.
    """
    pointers = names.pointers
    stores = [value for value in kernel.body if isinstance(value, Store)]
    written = listed(dict.fromkeys(pointers[v.buffer] for v in stores if not v.adds))
    added = listed(dict.fromkeys(pointers[v.buffer] for v in stores if v.adds))
    writes = " and ".join(
        [*([f"writes {written} once"] if written else []), *([f"adds to {added}"] if added else [])]
    )
    if fills_padding(kernel):
        return f"Writes the padding of {written} once, and nothing else"
    reads = KernelReads(kernel, launch.sizes, [buffers[buffer].shape for buffer in launch.buffers])
    loaded = dict.fromkeys(value.buffer for value in kernel.body if isinstance(value, Load))
    kept = [buffer for buffer in loaded if reads.stays_in_cache(buffer)]
    picked = [buffer for buffer in loaded if reads.is_picked(buffer)]
    rest = [buffer for buffer in loaded if buffer not in (*kept, *picked)]
    for_each = [buffer for buffer in rest if reads.read_for_each(buffer)]
    rest = [buffer for buffer in rest if buffer not in for_each]
    again = [buffer for buffer in rest if reads.is_repeated(buffer)]
    once = [buffer for buffer in rest if buffer not in again]
    parts = (
        [f"{_some([pointers[buffer] for buffer in once])} once{_picked(once, reads, pointers)}"]
        if once
        else []
    )
    if again:
        parts.append(
            f"{_some([pointers[buffer] for buffer in again])} once from memory and again from the cache"
        )
    parts += _for_each(for_each, reads, names)
    parts += _where(picked, reads, pointers)
    line = f"Reads {listed(parts)}, {writes}" if parts else f"{writes[:1].upper()}{writes[1:]}"
    if kept:
        words = [pointers[buffer] for buffer in kept]
        what = listed(words) if len(words) <= _MOST_WORDS else f"the {len(words)} vectors"
        line += f"; {what} stay{'s' * (len(words) == 1)} in cache"
    return f"One launch over lists of tensors of any sizes. {line}" if kernel.schedule.is_over_lists else line


def _picked(once: list[str], reads: KernelReads, pointers: Mapping[str, str]) -> str:
    """`` (logits at labels twice)``: elements that are read again because a tensor of positions says so."""
    picks = [
        (pointers[buffer], listed(map(pointers.__getitem__, reads.picked_by(buffer)))) for buffer in once
    ]
    texts = [f"{word} at {positions} twice" for word, positions in picks if positions]
    return f" ({listed(texts)})" if texts else ""


def _for_each(buffers: list[str], reads: KernelReads, names: KernelNames) -> list[str]:
    """``cos and sin once for each head``"""
    tables: dict[str, list[str]] = {}
    for buffer in buffers:
        axes = listed(names.axes[axis].index for axis in reads.read_for_each(buffer))
        tables.setdefault(axes, []).append(names.pointers[buffer])
    return [f"{_some(words)} once for each {axes}" for axes, words in tables.items()]


def _where(picked: list[str], reads: KernelReads, pointers: Mapping[str, str]) -> list[str]:
    """``embed_tokens where input_ids says``: of each element nobody knows how often it is read, or whether."""
    tables: dict[tuple[str, ...], list[str]] = {}
    for buffer in picked:
        tables.setdefault(tuple(map(pointers.__getitem__, reads.picked_by(buffer))), []).append(
            pointers[buffer]
        )
    return [
        f"{_some(words)} where {listed(positions)} say{'s' * (len(positions) == 1)}"
        for positions, words in tables.items()
    ]


def _some(words: list[str]) -> str:
    """All of a few; of many the first ones, and how many there are besides."""
    few = (
        words
        if len(words) <= _MOST_WORDS
        else [*words[: _MOST_WORDS - 1], f"{len(words) - _MOST_WORDS + 1} more"]
    )
    return listed(few)
