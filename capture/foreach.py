"""``torch._foreach_mul_(tensors, 2)`` and its like, written out: one op for each tensor, which fusion joins again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_PREFIX = "_foreach_"
_KEYWORD = ("addcmul", "addcdiv")  # their fourth argument goes by a keyword in the op for one tensor


def for_each(target: Any) -> Callable[..., Any] | None:
    """A function that does what a foreach op does by calls for single tensors; None for any other op."""
    name = getattr(target, "__name__", "")
    if getattr(torch, name, None) is not target or not name.startswith(_PREFIX):
        return None
    word = name.removeprefix(_PREFIX)

    def run(tensors: list[torch.Tensor] | float, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        if word == "pow" and not isinstance(tensors, list | tuple):
            return [torch.pow(tensors, exponent) for exponent in args[0]]
        assert isinstance(tensors, list | tuple)
        return [
            _one(
                word, tensor, [_of(arg, place) for arg in args], {k: _of(v, place) for k, v in kwargs.items()}
            )
            for place, tensor in enumerate(tensors)
        ]

    return run


def _one(word: str, tensor: torch.Tensor, args: list[Any], kwargs: dict[str, Any]) -> torch.Tensor:
    if word == "norm":
        return torch.linalg.vector_norm(tensor, *args, **kwargs)
    if word.rstrip("_") in _KEYWORD and len(args) == 3:
        kwargs = {**kwargs, "value": args.pop()}
    if not hasattr(tensor, word) and word.endswith("_"):  # maximum_ and minimum_ are there for lists alone
        return tensor.copy_(getattr(tensor, word[:-1])(*args, **kwargs))
    found: torch.Tensor = getattr(tensor, word)(*args, **kwargs)
    return found


def _of(argument: Any, place: int) -> Any:
    """What a list among the arguments has for a tensor; anything else is for all."""
    return argument[place] if isinstance(argument, list | tuple) else argument
