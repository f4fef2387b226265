"""CUDA: how many values fit into the registers of a program."""

from __future__ import annotations

# Registers that the values of a thread's elements may seem to take. A compiler loads some of them late; where
# there are many it spills all the same (sm_90: 8 values of 32 elements none, 12 a kilobyte, 29 of them 24).
_MOST_REGISTERS = 256
_CROWDED_REGISTERS = 160


def in_registers(elements: int, live_words: int, n_warps: int) -> int:
    """How many elements of a program stay in registers: `elements`, or fewer where their values are crowded."""
    threads = 32 * n_warps
    if live_words * elements <= _MOST_REGISTERS * threads:
        return elements
    while live_words * elements > _CROWDED_REGISTERS * threads and elements > threads:
        elements //= 2
    return elements
