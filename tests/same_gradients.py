"""A unit beside the model that it was made of: its results, and in training its gradients, are the model's."""

from __future__ import annotations

import copy
import functools
from pathlib import Path

import torch
from torch import nn

import longhand

_TIMES_EAGER = 4
_LAST_BITS = 4 * torch.finfo(torch.float32).eps  # of the largest number


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


def assert_gradients_as_exact(model: nn.Module, folder: Path, *args: torch.Tensor) -> None:
    """Holds both against the model in float64: a unit may be a few times as far off as the model, by rounding.

    For sums over many rows, in which the last bits of both are noise.
    """
    exact_model = copy.deepcopy(model).double()
    exact = gradients(exact_model, *(arg.double() for arg in args))
    ours, theirs = gradients(unit_of(model, folder), *args), gradients(model, *args)
    assert ours.keys() == theirs.keys() == exact.keys()
    for name, wanted in exact.items():
        if wanted is None:
            assert ours[name] is None and theirs[name] is None, name
            continue
        off, eagers = ((found[name].double() - wanted).abs().max() for found in (ours, theirs))
        allowed = _TIMES_EAGER * eagers + _LAST_BITS * wanted.abs().max()
        assert off <= allowed, f"{name}: {off} from float64, where the model is {eagers}"


def assert_graph_gives_gradients_again(model: nn.Module, folder: Path, *args: torch.Tensor) -> None:
    """A graph that is retained: its backward pass empties no record that a second one reads."""
    ours = unit_of(model, folder).train()
    result = ours(*args).sum()
    first = torch.autograd.grad(result, list(ours.parameters()), retain_graph=True)
    second = torch.autograd.grad(result, list(ours.parameters()))
    torch.testing.assert_close(first, second)
