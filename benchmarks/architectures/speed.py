"""Milliseconds of one call or training step: eager, torch.compile and longhand, side by side in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

import longhand
from benchmarks.architectures.calls import copied, step
from benchmarks.architectures.compiled import Watched
from benchmarks.architectures.example import Example
from benchmarks.architectures.rows import Result, Verdict
from longhand.options import Frontend
from longhand.tune.bench import time_side_by_side

_TURNS = 5


def speed_result(
    example: Example, dtype: torch.dtype, frontend: Frontend, device: str, *, train: bool
) -> Result:
    """Medians; a contender that fails has none and is named in the note."""
    longhand.reset()
    torch.compiler.reset()
    calls: dict[str, Callable[[], Any]] = {}
    failures: list[str] = []
    for name in ("eager", "torch.compile", "longhand"):
        module, args, kwargs = copied(example, None if dtype is torch.float32 else dtype)
        try:
            call = _contender(name, module, frontend)
            step(call, module, args, kwargs, train=train)
            calls[name] = _timed(call, module, args, kwargs, train)
            calls[name]()
        except Exception as error:
            calls.pop(name, None)
            failures.append(
                f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"
            )
    times = time_side_by_side(calls, device=device, n_turns=_TURNS)
    numbers = {name: measured.median for name, measured in times.items()}
    verdict = Verdict.RIGHT if "longhand" in numbers else Verdict.FAILED
    return Result(verdict, "; ".join(failures), numbers)


def _contender(name: str, module: Any, frontend: Frontend) -> Callable[..., Any]:
    if name == "eager":
        return module
    return torch.compile(module) if name == "torch.compile" else Watched(module, frontend).call


def _timed(call: Callable[..., Any], module: Any, args: Any, kwargs: Any, train: bool) -> Callable[[], Any]:
    if train:
        return lambda: _train(call, module, args, kwargs)
    return lambda: _infer(call, args, kwargs)


def _infer(call: Callable[..., Any], args: Any, kwargs: Any) -> None:
    with torch.no_grad():
        call(*args, **kwargs)


def _train(call: Callable[..., Any], module: Any, args: Any, kwargs: Any) -> None:
    module.zero_grad(set_to_none=True)
    results = pytree.tree_leaves(call(*args, **kwargs))
    carrying = [value for value in results if isinstance(value, torch.Tensor) and value.requires_grad]
    torch.autograd.backward(carrying, [torch.ones_like(value) for value in carrying])
