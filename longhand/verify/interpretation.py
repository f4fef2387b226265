"""A CUDA unit on a machine without a GPU: its kernels in Triton's interpreter, everything else on the CPU.

Needs TRITON_INTERPRET=1 before triton is imported.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import resource
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from longhand.loading import import_file
from longhand.verify.attention_on_cpu import register

_SECONDS = 120
# What they tell of a batch of short floats is float32 on CUDA, and as short on the CPU where the weights are.
_BATCH_NORMS = frozenset(
    {"native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional"}
)


def limit_interpreter() -> None:
    """Ends this process (SIGXCPU) after two minutes of Triton's interpreter, which takes a millisecond a program.

    Time of this process and not of the clock: the machine may be busy.
    """
    if os.environ.get("TRITON_INTERPRET") == "1":
        _, most = resource.getrlimit(resource.RLIMIT_CPU)  # nobody may ask for more than they were given
        seconds = _SECONDS if most == resource.RLIM_INFINITY else min(_SECONDS, most)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, most))


def import_on_cpu(name: str, folder: Path) -> Any:
    """Imports a CUDA unit so that it runs on the CPU: see `move_to_cpu`. What it holds is made there, too."""
    with MadeOn("cpu"):
        package = import_file(name, folder / "__init__.py", [str(folder)])
    move_to_cpu(package)
    return package


def move_to_cpu(package: ModuleType) -> None:
    """Lets a CUDA unit run on the CPU: its checks of devices pass, and what it makes on CUDA is made on the CPU."""
    model: Any = importlib.import_module(f"{package.__name__}.model")
    for name in ("check_tensor", "check_tensors", "check_weights"):
        if hasattr(model, name):
            setattr(model, name, lambda *_, **__: None)
    parts: list[Any] = [model, *filter(None, [getattr(package, "backward", None)])]
    for part in parts:
        for name, value in list(vars(part).items()):
            if inspect.isclass(value) and issubclass(value, torch.nn.Module):
                for method in {"forward", "launch"} & vars(value).keys():
                    setattr(value, method, _on_cpu(vars(value)[method]))
            elif inspect.isfunction(value) and value.__module__ == part.__name__:
                setattr(part, name, _on_cpu(value))
                if vars(package).get(name) is value:  # as callers of the unit find it
                    setattr(package, name, getattr(part, name))
    register()
    mend_interpreter()


def mend_interpreter() -> None:
    """Lets Triton's interpreter compute what its compiler does, where a version of it does not."""
    # Not at the top: triton is imported after the environment said that it interprets.
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    if getattr(interpreter, "is_mended", False):
        return
    interpreter.is_mended = True
    _mend_splats(interpreter)
    _mend_bounds(interpreter)
    _mend_extremes(interpreter)
    _mend_bfloat16(interpreter)
    _mend_sums(interpreter)


def _on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with MadeOn("cpu"):
            return function(*args, **kwargs)

    return run


class MadeOn(TorchFunctionMode):
    """Tensors that are made on CUDA are made on another device: the CPU, or meta."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "cuda":
            kwargs = {**kwargs, "device": self.device}
        if func is torch.Tensor.to and len(args) > 1 and _is_cuda(args[1]):
            args = (args[0], self.device, *args[2:])
        if getattr(func, "__name__", "").partition(".")[0] in _BATCH_NORMS:
            normed, mean, deviation, *running = func(*args, **kwargs)
            return (
                normed,
                *(one.float() if one.dtype.itemsize < 4 else one for one in (mean, deviation)),
                *running,
            )
        return func(*args, **kwargs)


def _is_cuda(value: Any) -> bool:
    """Whether the argument that `Tensor.to` is given first is a device of that kind."""
    return isinstance(value, str | torch.device) and torch.device(value).type == "cuda"


def _mend_splats(interpreter: Any) -> None:
    """Triton's interpreter fills a block with the outcome of a comparison of scalars as if it had their type.

    Such a block is no mask then. The compiler has no such fault.
    """
    original = interpreter.InterpreterBuilder.create_splat
    if list(inspect.signature(original).parameters) != ["self", "ret_ty", "arg"]:
        return

    def create_splat(self: Any, ret_ty: Any, arg: Any) -> Any:
        is_condition = arg.data.dtype == bool
        return original(
            self, ret_ty, interpreter.TensorHandle(arg.data, ret_ty.scalar) if is_condition else arg
        )

    interpreter.InterpreterBuilder.create_splat = create_splat


def _mend_bounds(interpreter: Any) -> None:
    """Triton 3.6's interpreter cannot make a number of a loop's bound with numpy 2.4: it is an array of one element."""
    if not metadata.version("triton").startswith("3.6."):
        return
    original = interpreter._patch_lang_tensor

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patch_lang_tensor


def _mend_extremes(interpreter: Any) -> None:
    """Before Triton 3.9 its interpreter keeps the NaN that ``tl.maximum`` and ``tl.minimum`` drop when compiled."""
    builder = interpreter.InterpreterBuilder
    for name, function in (("create_maxnumf", np.fmax), ("create_minnumf", np.fmin)):
        setattr(builder, name, functools.partialmethod(_binary, function))


def _binary(builder: Any, function: Callable[..., Any], left: Any, right: Any) -> Any:
    return builder.binary_op(left, right, function)


def _mend_bfloat16(interpreter: Any) -> None:
    """Triton's interpreter cuts digits off to make a bfloat16: a product of many such numbers is far too small.

    The compiler rounds to the nearest, and to the even one of two, as PyTorch does.
    """
    builder = interpreter.InterpreterBuilder
    original = builder.cast_impl

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        if dst_type.scalar.name != "bf16" or src.dtype.scalar.name == "bf16":
            return original(self, src, dst_type)
        return interpreter.TensorHandle(_rounded_to_bfloat16(src.data), dst_type.scalar)

    builder.cast_impl = cast_impl


def _rounded_to_bfloat16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bits of numbers in bfloat16, as whole numbers of 16 bits."""
    bits = values.astype(np.float32).view(np.uint32)
    is_last_odd = (bits >> 16) & 1
    rounded = (bits + (0x7FFF + is_last_odd)) >> 16
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def _mend_sums(interpreter: Any) -> None:
    """Triton's interpreter adds up along any side but the last one by one, which errs more the more there are.

    The compiler adds them in pairs, as numpy does along the last side.
    """
    original = interpreter.ReduceOps.sum

    def add_up(self: Any, block: Any) -> Any:
        values = block.handle.data
        if self.axis is None or not np.issubdtype(values.dtype, np.floating):
            return original(self, block)
        total = np.ascontiguousarray(np.moveaxis(values, self.axis, -1)).sum(-1)
        return self.to_tensor(np.expand_dims(total, self.axis) if self.keep_dims else total, block.dtype)

    interpreter.ReduceOps.sum = add_up
