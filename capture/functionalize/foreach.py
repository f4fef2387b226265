"""``torch._foreach_mul_(tensors, 2)`` and its like, written out: one op for each tensor, which fusion joins again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from longhand.capture.functionalize.functionalize import Rewriter, Rule

_PREFIX = "_foreach_"
_KEYWORD = ("addcmul", "addcdiv")  # their fourth argument goes by a keyword in the op for one tensor
_OF_NUMBERS = {  # single tensors have these by another name
    "maximum": "clamp_min",
    "maximum_": "clamp_min_",
    "minimum": "clamp_max",
    "minimum_": "clamp_max_",
}


def for_each(target: Any) -> Callable[..., Any] | None:
    """A function that does what a foreach op does by calls for single tensors; None for any other op."""
    name = getattr(target, "__name__", "")
    if getattr(torch, name, None) is not target or not name.startswith(_PREFIX):
        return None
    return _written_out(name.removeprefix(_PREFIX))


def _rule(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """The op of ATen, in a graph that was traced without `for_each`."""
    if "out" in kwargs:
        return NotImplemented
    word = target._schema.name.split("::")[1].removeprefix(_PREFIX)
    return rewriter.inlined(_written_out(word), args, kwargs, eager)


RULES: dict[str, Rule] = {name: _rule for name in dir(torch) if name.startswith(_PREFIX)}


@functools.cache
def _written_out(word: str) -> Callable[..., Any]:
    def run(tensors: list[torch.Tensor] | float, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        if word == "pow" and not isinstance(tensors, list | tuple):
            return [torch.pow(tensors, exponent) for exponent in args[0]]
        assert isinstance(tensors, list | tuple)
        if word.rstrip("_") in _KEYWORD and len(args) == 3:
            *args, kwargs["value"] = args  # type: ignore[assignment]
        if isinstance(kwargs.get("value"), torch.Tensor):  # one for each of the list, on the CPU
            kwargs["value"] = list(kwargs["value"])
        return [
            _one(word, tensor, [_of(arg, at) for arg in args], {k: _of(v, at) for k, v in kwargs.items()})
            for at, tensor in enumerate(tensors)
        ]

    return run


def _one(word: str, tensor: torch.Tensor, args: list[Any], kwargs: dict[str, Any]) -> torch.Tensor:
    if word == "norm":
        return torch.linalg.vector_norm(tensor, *args, **kwargs)
    if word == "powsum":
        order, dtype = [*args, 2][0], kwargs.get("dtype") or (args[1] if len(args) > 1 else None)
        return tensor.to(dtype or tensor.dtype).abs().pow(order).sum()
    if isinstance(value := kwargs.get("value"), torch.Tensor):
        args, kwargs = [args[0] * value.to(args[0].device), *args[1:]], {}
    if word in _OF_NUMBERS and not isinstance(args[0], torch.Tensor):
        word = _OF_NUMBERS[word]
    if not hasattr(tensor, word) and word.endswith("_"):  # maximum_ and minimum_ are there for lists alone
        return tensor.copy_(getattr(tensor, word[:-1])(*args, **kwargs))
    made: torch.Tensor = getattr(tensor, word)(*args, **kwargs)
    return made


def _of(argument: Any, place: int) -> Any:
    """What a list among the arguments has for a tensor; anything else is for all."""
    return argument[place] if isinstance(argument, list | tuple) else argument
