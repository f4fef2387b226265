"""What stands against each other, and whether each computes the right thing: compiled, warmed up and compared first."""

from __future__ import annotations

import copy
import dataclasses
import gc
import math
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn

import longhand
from longhand.errors import EagerWarning

__all__ = ["CONTENDERS", "Contender", "Work", "exact_tensors", "make_contender", "tensors_of"]

# Eager's error is that of its rounding, which another order of the same sums rounds otherwise.
_EAGER_FACTOR = 2.0
_FLOOR = 1e-5
_WARM_UPS = 4

Compile = Callable[[nn.Module], Callable[..., Any]]
CONTENDERS: dict[str, Compile] = {
    "eager": lambda model: model,
    "torch.compile": lambda model: torch.compile(model),
    "longhand": lambda model: longhand.compile(model),
    "torch.compile graphs": lambda model: torch.compile(model, mode="reduce-overhead"),
    "longhand graphs": lambda model: longhand.compile(model, mode="reduce-overhead"),
}


@dataclasses.dataclass
class Work:
    """A call of a model, or a training step.

    Attributes:
        model: Whose parameters are trained.
        run: The model, or what stands for it.
        inputs: Keyword arguments.
        trains: Forward, backward and zero_grad instead of a forward pass without gradients.
        gradient: What is handed to the backward pass; drawn once.
    """

    model: nn.Module
    run: Callable[..., Any]
    inputs: dict[str, Any]
    trains: bool
    gradient: torch.Tensor | None = None

    def __call__(self) -> None:
        if not self.trains:
            with torch.no_grad():
                self.run(**self.inputs)
            return
        self.step()
        self.model.zero_grad(set_to_none=True)

    def step(self) -> Any:
        """Forward and backward; the gradients stay."""
        result = self.run(**self.inputs)
        first = floats_of(result)[0]
        if self.gradient is None:
            generator = torch.Generator(first.device).manual_seed(0)
            noise = torch.randn(first.shape, generator=generator, device=first.device)
            self.gradient = noise.to(first.dtype)
        first.backward(self.gradient)
        return result


@dataclasses.dataclass(frozen=True)
class Contender:
    """One of them, ready to be timed, or why it is not.

    Attributes:
        work: None where it failed.
        failure: Why.
        error: The relative distance of its results (and gradients) from the exact ones.
        peak_bytes: On CUDA, the most that calls after the first allocate beyond what stood before it.
        seconds: That compiling and the first call took.
    """

    work: Work | None
    failure: str = ""
    error: float = math.nan
    peak_bytes: int = 0
    seconds: float = 0.0


def floats_of(result: Any) -> list[torch.Tensor]:
    """The floating tensors in a result, in order."""
    leaves = pytree.tree_leaves(dict(result) if hasattr(result, "keys") else result)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def tensors_of(work: Work) -> list[torch.Tensor]:
    """Copies of the results of one call, and of the gradients of a step; of a parameter that has none, zeros.

    Where a result is not used, what is compiled gives zeros for what leads to it alone, and eager nothing.
    """
    if not work.trains:
        with torch.no_grad():
            return [tensor.detach().clone() for tensor in floats_of(work.run(**work.inputs))]
    copies = [one.detach().clone() for one in floats_of(work.step())]
    for one in work.model.parameters():
        copies.append(torch.zeros_like(one) if one.grad is None else one.grad.clone())
    work.model.zero_grad(set_to_none=True)
    return copies


def exact_tensors(
    model: nn.Module, inputs: dict[str, Any], trains: bool, gradient: torch.Tensor | None
) -> list[Any]:
    """The same in a wider dtype (float32 for 16 bits, else float64), in the CPU's memory afterwards."""
    dtype = torch.float32 if next(model.parameters()).dtype.itemsize == 2 else torch.float64
    wide = copy.deepcopy(model).to(dtype)
    given = {name: one.to(dtype) if one.is_floating_point() else one for name, one in inputs.items()}
    work = Work(wide, wide, given, trains, None if gradient is None else gradient.to(dtype))
    precision = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return [tensor.cpu() for tensor in tensors_of(work)]
    finally:
        torch.set_float32_matmul_precision(precision)


def relative_distance(ours: Iterable[torch.Tensor], exact: Iterable[torch.Tensor]) -> float:
    """The largest ||ours - exact|| / ||exact|| of results and gradients; infinite where there are not as many."""
    pairs = [*zip(ours, exact, strict=False)]
    if not pairs or len(list(ours)) != len(list(exact)):
        return math.inf
    worst = 0.0
    whole = max(float(right.double().norm()) for _, right in pairs)
    for mine, right in pairs:
        # A gradient that is zero but for rounding (a key's bias in attention) has no distance of its own.
        scale = max(float(right.norm()), 1e-3 * whole)
        distance = float((mine.double().cpu() - right.double()).norm()) / scale if scale else 0.0
        worst = max(worst, distance if math.isfinite(distance) else math.inf)
    return worst


def make_contender(
    compile_it: Compile,
    model: nn.Module,
    inputs: dict[str, Any],
    trains: bool,
    exact: list[torch.Tensor],
    eager_error: float,
) -> Contender:
    """Compiles, compares with the exact results, and warms up until graphs are recorded.

    What tells that it runs in eager instead is no contender: it would be timed as what it is not.
    """
    parameter = next(model.parameters())
    device = parameter.device
    allowed = max(_EAGER_FACTOR * eager_error, torch.finfo(parameter.dtype).eps, _FLOOR)
    before, began = _allocated(device), time.perf_counter()
    try:
        with warnings.catch_warnings(action="error", category=EagerWarning):
            work = Work(model, compile_it(model), inputs, trains)
            tensors = tensors_of(work)
            seconds = time.perf_counter() - began
            error = relative_distance(tensors, exact)
            del tensors
            if not error <= allowed:
                return Contender(None, f"wrong: off by {error:.1e}, eager by {eager_error:.1e}", error)
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
            for _ in range(_WARM_UPS):
                work()
            again = relative_distance(tensors_of(work), exact)
            if not again <= allowed:
                return Contender(None, f"wrong in a later call: off by {again:.1e}", again)
    except Exception as failure:
        text = str(failure).strip().splitlines()
        return Contender(None, f"{type(failure).__name__}: {text[0][:160] if text else ''}")
    peak = torch.cuda.max_memory_allocated() - before if device.type == "cuda" else 0
    return Contender(work, "", error, peak, seconds)


def _allocated(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    gc.collect()
    torch.cuda.synchronize()
    # cuBLAS keeps a workspace for each thread that called it, 32 MiB each on Hopper. Recordings give them back: what
    # the contender before left there would be taken off the peak of this one.
    getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
    return torch.cuda.memory_allocated()
