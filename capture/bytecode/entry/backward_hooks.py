"""Hooks of register_backward_hook, which PyTorch keeps for old code: they are autograd's of a module's last op alone.

What they are given are the gradients of that op's arguments, so nothing in such a module may be a kernel. Hooks of
register_full_backward_hook see a module's arguments and results, and CPython calls the module.
"""

from __future__ import annotations

from typing import Any

import torch

from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.sources import Source, attribute

__all__ = ["guard_hooks_on_its_last_op", "has_hooks_on_its_last_op"]

_IS_FULL, _HOOKS = "_is_full_backward_hook", "_backward_hooks"


def has_hooks_on_its_last_op(owner: Any) -> bool:
    """Whether it is a module with such hooks."""
    held = vars(owner) if isinstance(owner, torch.nn.Module) else {}
    return held.get(_IS_FULL) is False and bool(held.get(_HOOKS))


def guard_hooks_on_its_last_op(trace: Trace, owner: Any, source: Source) -> None:
    """Holds that a module, whose call this is, has none: its entry is called below its hooks."""
    if not torch.is_grad_enabled() or not isinstance(owner, torch.nn.Module) or _IS_FULL not in vars(owner):
        return
    had = vars(owner)[_IS_FULL] is False  # it stays so when they are removed
    condition = f"not {{}}[{_HOOKS!r}]" if had else f"{{}}[{_IS_FULL!r}] is not False"
    trace.guards.add(attribute(source, "__dict__"), condition, f"{source.name} has no register_backward_hook")
