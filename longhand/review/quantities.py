"""Bytes and times in few words."""

from __future__ import annotations


def bytes_text(n_bytes: int) -> str:
    """``8.39 MB``: of thousands, as the unit's README has it."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.3g} {unit}"
    return f"{n_bytes} B"


def milliseconds_text(milliseconds: float) -> str:
    """``0.114 ms``"""
    return f"{milliseconds:.3g} ms"
