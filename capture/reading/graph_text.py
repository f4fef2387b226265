"""The calls of a captured graph as Python text."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


def call_text(node: fx.Node) -> str:
    """``torch.ops.aten.select.int(keys, 0, 0)``"""
    target = node.target
    name = f"torch.ops.{target}" if isinstance(target, torch._ops.OpOverload) else _python_name(target)
    arguments = [spelled(argument) for argument in node.args]
    arguments += [f"{key}={spelled(value)}" for key, value in sorted(node.kwargs.items())]
    return f"{name}({', '.join(arguments)})"


def _python_name(target: Any) -> str:
    """``operator.mul``; torch's own functions on symbolic sizes (``torch.sym_max``) keep their public names."""
    module = "operator" if target.__module__ == "_operator" else target.__module__
    return str(target.__name__) if module == "builtins" else f"{module}.{target.__name__}"


def spelled(value: Any) -> str:
    """An argument as Python source."""
    if isinstance(value, tuple):
        return f"({', '.join(map(spelled, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(spelled, value))}]"
    return str(value) if isinstance(value, fx.Node) else repr(value)


def described(value: Any) -> str:
    """``float32[4, 1024]`` of a fake tensor."""
    if isinstance(value, torch.Tensor):
        sizes = ", ".join(str(size) for size in value.shape)
        return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(described, value))})"
    return str(value)
