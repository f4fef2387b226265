"""What an autocast block changes in this thread, and how to bring it back."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["autocast_nesting", "autocast_settings", "set_autocast"]

_AUTOCAST_DEVICES = ("cpu", "cuda")


def autocast_nesting() -> int:
    """How many autocast blocks are open."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def autocast_settings() -> tuple[Any, ...]:
    """Everything that an autocast block changes: (enabled, dtype) of each device, and whether casts are kept."""
    devices = [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _AUTOCAST_DEVICES]
    return (*devices, torch.is_autocast_cache_enabled())


def set_autocast(settings: tuple[Any, ...], nesting: int) -> None:
    """Brings autocast to what autocast_settings() and autocast_nesting() gave."""
    *devices, keeps = settings
    for device, (enabled, dtype) in zip(_AUTOCAST_DEVICES, devices, strict=True):
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(keeps)
    while (now := autocast_nesting()) != nesting:
        (torch.autocast_increment_nesting if now < nesting else torch.autocast_decrement_nesting)()
    if nesting == 0:
        torch.clear_autocast_cache()
