"""The arguments of a call as a literal and a list of tensors: what an operator of PyTorch takes."""

from __future__ import annotations

from typing import Any

import torch

from longhand.errors import UnitError


def described(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Arguments as a literal; the tensors among them are put into a list."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return ("tensor",)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        kind = "list" if isinstance(value, list) else "tuple"
        return (kind, [described(one, tensors) for one in value])
    if isinstance(value, dict):
        return ("dict", [(key, described(one, tensors)) for key, one in value.items()])
    if isinstance(value, torch.SymInt):
        return ("value", int(value))
    if value is None or isinstance(value, bool | int | float | str):
        return ("value", value)
    raise UnitError(
        f"A unit inside torch.compile or torch.export was given a {type(value).__name__}, which no operator takes.",
        hint="Give it tensors, numbers, lists, tuples and dicts.",
    )


def rebuilt(value: Any, tensors: Any) -> Any:
    """The arguments that a literal says, with these tensors in their places, in order."""
    kind, *rest = value
    if kind == "tensor":
        return next(tensors)
    if kind == "value":
        return rest[0]
    if kind == "dict":
        return {key: rebuilt(one, tensors) for key, one in rest[0]}
    return {"list": list, "tuple": tuple}[kind](rebuilt(one, tensors) for one in rest[0])
