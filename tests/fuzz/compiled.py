"""Compiles every kernel that a call of a unit launches to an sm_90 binary, without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from longhand.verify.interpretation import move_to_cpu
from tests.triton_compile import Recorder, compile_launch


def compile_unit(unit: Callable[..., Any], example: Sequence[torch.Tensor]) -> int:
    """Calls a unit with its kernels' launches recorded, and compiles these.

    Args:
        unit: A unit's function.
        example: The arguments of one call, on the CPU: what kernels would compute stays unwritten.

    Returns:
        How many launches there were.
    """
    package = unit.__module__.rpartition(".")[0]
    move_to_cpu(sys.modules[package])
    launches: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{package}.kernels."):
            for word, kernel in list(vars(module).items()):
                if word.endswith("_kernel"):
                    setattr(module, word, Recorder(getattr(kernel, "kernel", None) or kernel, launches))
    results = unit(*[one.clone() for one in example])
    carrying = [one for one in results if one.requires_grad and one.is_floating_point()]
    if carrying:
        torch.autograd.backward(carrying, [torch.ones_like(one) for one in carrying])
    for kernel, args, options in launches:
        compile_launch(kernel, args, options)
    return len(launches)
