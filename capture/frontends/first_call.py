"""What only the first call of a model does, done on a copy: hooks that it installs on itself, a registry that it fills.

transformers installs the hooks that collect hidden states when they are first asked for, behind a lock. Capture meets
the lock, and no graph holds what it guards; a model that was called before is one graph. So a model that breaks is
called once, as a copy, and captured again. Others keep what they computed: a copy is called twice, to see whether a
second call does what the first one did.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn

from longhand.capture.frontends.call import state_of

# A module's own bookkeeping: its tensors are its state, which is put back.
_STATE = frozenset({"_parameters", "_buffers", "_modules"})


def called_once(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, train: bool
) -> nn.Module | None:
    """A copy of a module that was called once, with the parameters and buffers that it had before.

    None where it is no module, cannot be copied or called, or keeps tensors of that call: a second call could give
    another result than a first one.
    """
    if not isinstance(model, nn.Module):
        return None
    try:
        called, args, kwargs = copy.deepcopy((model, args, kwargs))
        devices = range(torch.cuda.device_count())  # named: else several of them are warned of
        with torch.random.fork_rng(devices), torch.set_grad_enabled(train):
            called(*args, **kwargs)
        before = dict(state_of(model))
        after = dict(state_of(called))
        if before.keys() != after.keys() or _n_kept(model) != _n_kept(called):
            return None
        with torch.no_grad():
            for name, tensor in after.items():
                tensor.copy_(before[name])
                tensor.grad = None
    except Exception:  # whatever the user's code raises: then the breaks are what is told
        return None
    return called


def called_twice(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, train: bool
) -> nn.Module | None:
    """A copy of a module that was called twice, with equal results; None where they differ or it cannot be called."""
    try:
        called = copy.deepcopy(model)
        devices = range(torch.cuda.device_count())
        results = []
        for _ in range(2):
            given, named = copy.deepcopy((args, kwargs))
            with torch.random.fork_rng(devices), torch.set_grad_enabled(train):
                results.append(pytree.tree_leaves(called(*given, **named)))
        torch.testing.assert_close(*results, rtol=0, atol=0, equal_nan=True)
    except Exception:  # whatever the user's code raises: then what it writes to is what is told
        return None
    return called


def _n_kept(model: nn.Module) -> list[int]:
    """How many tensors each of the modules holds besides its state."""
    return [
        sum(
            isinstance(leaf, torch.Tensor)
            for name, value in vars(module).items()
            if name not in _STATE
            for leaf in pytree.tree_leaves(value)
        )
        for module in model.modules()
    ]
