"""One call of a model: made so that it can be repeated, its tensors, and whether two runs of it agree."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn

from benchmarks.architectures.example import Example
from longhand.verify.comparison import compare

_MOST = 3e-5  # of a result's scale, where both run the same ATen calls in another order
_DROPOUTS = (
    "p",
    "dropout",
    "drop_prob",
    "drop_rate",
    "attention_dropout",
    "dropout_p",
    "attn_drop",
    "dropout_rate",
)


def repeatable(example: Example, *, train: bool = False) -> Example:
    """The call with nothing random in it: each dropout is turned off.

    What else is random draws from torch's generator, which the callers seed.
    """
    module, args, kwargs = example
    module.train(train)
    for part in module.modules():
        for name in _DROPOUTS:
            if isinstance(vars(part).get(name), float):
                setattr(part, name, 0.0)
    return module, args, kwargs


def copied(example: Example, dtype: torch.dtype | None = None, device: str | None = None) -> Example:
    """The call on copies, with every float in a dtype."""
    module, args, kwargs = example
    module = copy.deepcopy(module)
    if dtype is not None or device is not None:
        module.to(device=device, dtype=dtype)
    return module, *copied_arguments(args, kwargs, dtype, device)


def copied_arguments(
    args: Any, kwargs: Any, dtype: torch.dtype | None = None, device: str | None = None
) -> tuple[Any, Any]:
    """Copies of the arguments alone: a module that keeps results of a step for the next one cannot be copied."""

    def moved(value: torch.Tensor) -> torch.Tensor:
        kind = dtype if dtype is not None and value.is_floating_point() else value.dtype
        return value.detach().to(device=device or value.device, dtype=kind, copy=True)

    copies: tuple[Any, Any] = pytree.tree_map_only(torch.Tensor, moved, (args, kwargs))
    return copies


def tensors(result: Any) -> list[torch.Tensor]:
    """The tensors of a result, in order; of an object of a class that pytree does not know, those of its fields."""
    leaves: list[torch.Tensor] = []
    for leaf in pytree.tree_leaves(dict(result) if hasattr(result, "keys") else result):
        if isinstance(leaf, torch.Tensor):
            leaves.append(leaf.detach() if not leaf.requires_grad else leaf)
        elif dataclasses.is_dataclass(leaf) or hasattr(leaf, "layers"):
            members = (
                vars(leaf) if not hasattr(leaf, "layers") else {"layers": [vars(x) for x in leaf.layers]}
            )
            leaves += tensors([value for value in members.values() if value is not result])
    return leaves


def agree(found: list[torch.Tensor], expected: list[torch.Tensor]) -> str:
    """What differs between two runs of the same ATen calls; empty if nothing does."""
    if [(t.shape, t.dtype) for t in found] != [(t.shape, t.dtype) for t in expected]:
        return (
            f"{len(found)} results of shapes {[tuple(t.shape) for t in found][:4]}, {len(expected)} expected"
        )
    for place, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if not ours.numel():
            continue
        comparison = compare(f"result {place}", ours, theirs, theirs)
        scale = theirs.double().abs().nan_to_num(posinf=0).max().item() if theirs.numel() else 0.0
        if comparison.note or comparison.error > _MOST * max(scale, 1e-6):
            return f"result {place}: {comparison.note or f'error {comparison.error:.1e} of {scale:.1e}'}"
    return ""


class NothingToTrainError(Exception):
    """No result of the model carries gradients, in eager."""


def step(call: Any, module: nn.Module, args: Any, kwargs: Any, *, train: bool) -> list[torch.Tensor]:
    """The results of one call; in training also the gradients of the mean of squares, and what buffers hold then.

    A parameter without gradient counts as one of zeros: what only unused results of a graph depend on has zeros there
    when it is compiled, by torch.compile too, and none in eager (docs/training.md). A model without parameters is one
    that others are trained through: its gradients are those of its arguments.

    Raises:
        NothingToTrainError: Nothing carries gradients.
    """
    torch.manual_seed(0)
    if not train:
        with torch.no_grad():
            return tensors(call(*args, **kwargs))
    module.zero_grad(set_to_none=True)
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not trained:
        args, kwargs = pytree.tree_map_only(torch.Tensor, _as_leaf, (args, kwargs))
        leaves = pytree.tree_leaves((args, kwargs))
        trained = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    results = tensors(call(*args, **kwargs))
    carrying = [value for value in results if value.requires_grad]
    if not carrying:
        raise NothingToTrainError("no result carries gradients")
    loss = torch.stack([value.double().square().mean() for value in carrying]).sum()
    loss.backward()
    gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in trained]
    buffers = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    return [value.detach().clone() for value in (*results, *gradients, *buffers)]


def _as_leaf(tensor: torch.Tensor) -> torch.Tensor:
    """One that gathers gradients of its own, if it can."""
    return tensor.detach().requires_grad_(tensor.is_floating_point() or tensor.is_complex())
