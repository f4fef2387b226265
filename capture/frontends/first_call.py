"""What only the first call of a model does, done on a copy: hooks that it installs on itself, a registry that it fills.

transformers installs the hooks that collect hidden states when they are first asked for, behind a lock. Capture meets
the lock, and no graph holds what it guards; a model that was called before is one graph. So a model that breaks is
called once, as a copy, and captured again. Others keep what they computed: a copy is called twice, to see whether a
second call does what the first one did. What they kept of calls before is left out of a copy, if a call makes it again:
in a unit it would be a constant, and weights that are loaded later would not count.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
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


def without_memos(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, train: bool
) -> nn.Module | None:
    """A copy of a module, of the same parameters, without tensors that a call makes again: LeViT's table of biases.

    None where it is no module, keeps none besides its state, or where a call without them gives another result, or
    other tensors.
    """
    if not isinstance(model, nn.Module):
        return None
    kept = [
        (path, name)
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if name not in _STATE and _is_memo(value)
    ]
    if not kept:
        return None
    try:
        warm, cold, unused = (_sharing_parameters(model) for _ in range(3))
        for path, name in kept:
            for one in (cold, unused):
                value = vars(one.get_submodule(path))[name]
                setattr(one.get_submodule(path), name, {} if isinstance(value, dict) else None)
        devices = range(torch.cuda.device_count())
        results = []
        for one in (warm, cold):
            given, named = copy.deepcopy((args, kwargs))
            with torch.random.fork_rng(devices), torch.set_grad_enabled(train):
                results.append(pytree.tree_leaves(one(*given, **named)))
        torch.testing.assert_close(*results, rtol=0, atol=0, equal_nan=True)
        for path, name in kept:
            before, again = (vars(one.get_submodule(path))[name] for one in (model, cold))
            torch.testing.assert_close(again, before, rtol=0, atol=0, equal_nan=True)
    except Exception:  # whatever the user's code raises: then they are no memos
        return None
    return unused


@contextlib.contextmanager
def put_back(model: Any) -> Iterator[list[str]]:
    """Puts the attributes of a module and of those in it back; in the list is then what was another tensor meanwhile.

    torch.export traces a module itself: what a call keeps would be a fake tensor in the user's model from then on.
    """
    changed: list[str] = []
    modules = dict(model.named_modules()) if isinstance(model, nn.Module) else {}
    before = {
        path: {name: (value, _shallow(value)) for name, value in vars(one).items()}
        for path, one in modules.items()
    }
    try:
        yield changed
    finally:
        for path, module in modules.items():
            held = before[path]
            for name in [name for name in vars(module) if name not in held]:
                changed += [f"{path}.{name}"] if _tensors(vars(module)[name]) else []
                del module.__dict__[name]
            for name, (value, content) in held.items():
                now = vars(module).get(name)
                is_other = now is not value or (content is not None and not _are_same(now, content))
                if is_other:
                    # Recurrent layers list their parameters, which torch.export sets for the time of its trace.
                    is_list_of_own = isinstance(module, nn.RNNBase) and name == "_flat_weights"
                    is_kept = _tensors(now) != _tensors(content if content is not None else value)
                    changed += [f"{path}.{name}"] if is_kept and not is_list_of_own else []
                    _refill(value, content)
                    module.__dict__[name] = value


def _shallow(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list) else None


def _are_same(now: Any, content: Any) -> bool:
    if len(now) != len(content):
        return False
    if isinstance(content, dict):
        return all(name in now and now[name] is one for name, one in content.items())
    return all(one is other for one, other in zip(now, content, strict=True))


def _refill(value: Any, content: Any) -> None:
    """A dict or a list with what it held; nothing of anything else."""
    if isinstance(value, dict):
        value.clear()
        value.update(content)
    elif isinstance(value, list):
        value[:] = content


def _tensors(value: Any) -> list[int]:
    """Which tensors a value holds: torch.export puts other containers in a module, of the same."""
    return [id(leaf) for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _is_memo(value: Any) -> bool:
    """Whether an attribute may be what a call keeps: a tensor, or a dict of tensors."""
    leaves = [*value.values()] if isinstance(value, dict) else [value]
    return bool(leaves) and all(type(leaf) is torch.Tensor for leaf in leaves)


def _sharing_parameters(model: nn.Module) -> nn.Module:
    """A copy of a module and of what it keeps, but for its parameters, which are the same."""
    return copy.deepcopy(model, {id(one): one for one in model.parameters()})


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
