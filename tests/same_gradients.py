"""A unit beside the model that it was made of: its results, and in training its gradients, are the model's."""

from __future__ import annotations

import functools
from pathlib import Path

import torch
from torch import nn

import longhand


def unit_of(model: nn.Module, folder: Path) -> nn.Module:
    """The unit in a folder, with the model's weights."""
    unit: nn.Module = longhand.load(folder)()
    unit.load_state_dict(model.state_dict())
    return unit


def gradients(module: nn.Module, *args: torch.Tensor) -> dict[str, torch.Tensor | None]:
    """The result, and the gradients of all weights, and of the arguments that want one, towards random directions."""
    module.zero_grad()
    given = [arg.detach().clone().requires_grad_(arg.requires_grad) for arg in args]
    result = module(*given)
    result.backward(torch.randn(result.shape, generator=torch.Generator().manual_seed(0)))
    found = {f"argument {place}": one.grad for place, one in enumerate(given)}
    found |= {name: weight.grad for name, weight in module.named_parameters()}
    return {"result": result.detach(), **found}


def assert_same_gradients(
    model: nn.Module, folder: Path, *args: torch.Tensor, rtol: float | None = None, atol: float | None = None
) -> None:
    """Holds the unit in a folder against its model; the tolerances are assert_close's."""
    ours, theirs = gradients(unit_of(model, folder), *args), gradients(model, *args)
    assert ours.keys() == theirs.keys()
    assert any(one is not None for name, one in theirs.items() if name != "result")
    for name, wanted in theirs.items():
        told = functools.partial("{0}: {1}".format, name)
        torch.testing.assert_close(ours[name], wanted, rtol=rtol, atol=atol, msg=told)
