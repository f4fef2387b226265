"""Runs a CUDA unit of the gallery at odd sizes, against eager in float64: on a GPU, or in Triton's interpreter.

A model's unit is tied to its weights' sizes, so one is generated for the odd sizes and given the gallery's own kernels.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.utils._pytree as pytree
from odd_calls import FUNCTION_SIZES, MODELS, UPDATES, function_arguments

import longhand
from examples import fused_ops
from examples.gallery import ARCH, ROOT


def moved(value: Any, device: str) -> Any:
    """A tensor, or nested ones, on a device; what asks for gradients still does."""
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.detach().to(device).requires_grad_(t.requires_grad), value
    )


def without_checks(package: ModuleType) -> ModuleType:
    """The unit's model module, which then takes tensors of any size on any device."""
    model = sys.modules[f"{package.__name__}.model"]
    for name in ("check_tensor", "check_tensors", "check_weights"):
        if hasattr(model, name):
            setattr(model, name, lambda *args, **kwargs: None)
    return model


def close(ours: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor, factor: int = 2) -> None:
    """Raises unless our error is at most twice eager's, or a few units in the last place at the result's scale."""
    scale = exact.abs().max().item()
    allowed = max(
        factor * (eager.double() - exact).abs().max().item(), 2 * scale * torch.finfo(ours.dtype).eps
    )
    error = (ours.double() - exact).abs().max().item()
    assert error <= allowed, f"error {error:.3g}, allowed {allowed:.3g}"


def in_float64(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        arg.detach().double().requires_grad_(arg.requires_grad) if arg.is_floating_point() else arg
        for arg in args
    )


def gradients(model: torch.nn.Module, args: tuple[Any, ...]) -> dict[str, torch.Tensor]:
    """The result and the gradients of one step."""
    model.zero_grad(set_to_none=True)
    args = tuple(arg.detach().requires_grad_(arg.requires_grad) for arg in args)
    with torch.enable_grad():
        result = model(*args)
        # No two neighbours alike: a norm's gradient of what is alike is nothing but rounding.
        direction = torch.arange(result.numel(), device=result.device).cos().to(torch.bfloat16)
        result.backward(direction.view(result.shape).to(result.dtype))
    found = {path: parameter.grad for path, parameter in model.named_parameters()}
    found |= {f"argument {place}": arg.grad for place, arg in enumerate(args)}
    return {"result": result.detach(), **{path: g for path, g in found.items() if g is not None}}


def run_function(name: str, device: str) -> set[str]:
    """The unit of one function of fused_ops, as it stands in the gallery."""
    sys.path.insert(0, str(ROOT / "fused_ops_cuda"))
    package = importlib.import_module(name)
    model = without_checks(package)
    function = getattr(fused_ops, name)
    for rows, cols in FUNCTION_SIZES:
        args = moved(function_arguments(name, rows, cols), device)
        close(getattr(model, name)(*args), function(*args), function(*in_float64(args)).double())
    return set(package.kernels.__all__)


def run_update(unit: str, device: str) -> set[str]:
    """The unit of an update of lists, as it stands in the gallery, on lists of tensors of other sizes."""
    sys.path.insert(0, str(ROOT))
    package = importlib.import_module(unit)
    ours = getattr(without_checks(package), package.__all__[0])
    eager, calls = UPDATES[unit]
    for args in moved(calls(), device):
        given = [pytree.tree_map(torch.clone, args) for _ in range(2)]
        exact = pytree.tree_map(torch.Tensor.double, args)
        ours(*given[0])
        eager(*given[1])
        eager(*exact)
        for mine, theirs, true in zip(*map(pytree.tree_leaves, (*given, exact)), strict=True):
            if true.numel():
                close(mine, theirs, true)
    return set(package.kernels.__all__)


def run_model(unit: str, workshop: Path, device: str) -> set[str]:
    """A model's unit, generated for odd sizes, with the kernels of the gallery's unit."""
    sys.path[:0] = [str(ROOT), str(workshop)]
    gallery = importlib.import_module(f"{unit}.kernels")
    ran: set[str] = set()
    is_training = "train" in unit
    for number, make in enumerate(MODELS[unit]):
        original, args = make()
        original, args = original.to(device), moved(args, device)
        original.train(is_training)
        name = f"{unit}_{number}"
        out = workshop / name
        # It runs below, with the gallery's kernels.
        longhand.generate(original, args, out=out, device="cuda", arch=ARCH, train=is_training, run=False)
        package = importlib.import_module(name)
        model = without_checks(package)
        for kernel in set(package.kernels.__all__) & set(gallery.__all__):
            ours, theirs = getattr(package.kernels, kernel), getattr(gallery, kernel)
            if [*inspect.signature(ours).parameters] == [*inspect.signature(theirs).parameters]:
                setattr(package.kernels, kernel, theirs)
                ran.add(kernel)
        compiled = getattr(model, package.__all__[0])().to(device)
        compiled.load_state_dict(original.state_dict())
        if is_training:
            ours, eager = gradients(compiled, args), gradients(original, args)
            exact = gradients(original.double(), in_float64(args))
            for path, gradient in eager.items():
                # The interpreter truncates where a GPU rounds, which errs twice as much, and always to one side.
                close(ours[path], gradient, exact[path], factor=6)
            continue
        result, eager = compiled(*args), original(*args)
        close(result, eager, original.double()(*in_float64(args)))
    missing = set(gallery.__all__) - ran
    assert not missing, f"not run: {sorted(missing)}"
    return ran


def run(unit: str, workshop: Path, device: str) -> set[str]:
    """The kernels of a unit that ran and were right.

    Args:
        unit: Its folder, relative to generated/.
        workshop: Where units may be generated.
        device: "cpu" in Triton's interpreter.
    """
    torch.manual_seed(0)
    with torch.no_grad():
        if "/" in unit:
            return run_function(unit.split("/")[1], device)
        return run_update(unit, device) if unit in UPDATES else run_model(unit, workshop, device)
