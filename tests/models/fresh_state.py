"""A unit for the CPU against eager, on weights and buffers drawn anew after it was made: no two layers hold the same.

What a unit takes from the wrong layer is wrong by far more than rounding, so one tolerance serves all models.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn

import longhand

TOLERANCE = 2e-4  # of the largest element
_NEGLIGIBLE = 1e-3  # a gradient so much smaller than the largest one is compared on that one's scale
_SEED = 5

Call = tuple[tuple[Any, ...], dict[str, Any]]


def randomize(model: nn.Module, seed: int) -> None:
    """Other values for all that the state_dict holds; positive stays positive, infinite infinite."""
    generator = torch.Generator().manual_seed(seed)
    saved = model.state_dict().keys()
    with torch.no_grad():
        for parameter in dict.fromkeys(model.parameters()):
            if parameter.is_floating_point():
                noise = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
                parameter.mul_(1 + 0.2 * noise).add_(0.03 * noise.flip(0) if noise.ndim else 0.03)
        for name, buffer in model.named_buffers():
            if name in saved and buffer.is_floating_point():
                buffer.mul_(1 + 0.3 * torch.rand(buffer.shape, generator=generator).to(buffer.dtype))


def fresh(call: Call, seed: int) -> Call:
    """Other inputs of the same kind: positions are shuffled, so that they stay in range."""
    generator = torch.Generator().manual_seed(seed)

    def draw(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if value.is_floating_point():
            return torch.randn(value.shape, generator=generator).to(value.dtype)
        order = torch.randperm(value.numel(), generator=generator)
        return value.flatten()[order].view(value.shape)

    found: Call = pytree.tree_map(draw, call)
    return found


def larger(call: Call) -> Call:
    """The call with one more of whatever the first dimension counts."""

    def enlarge(value: Any) -> Any:
        has_batch = isinstance(value, Tensor) and value.ndim and value.shape[0] > 1
        return torch.cat([value, value[:1]]) if has_batch else value

    found: Call = pytree.tree_map(enlarge, call)
    return found


def differences(model: nn.Module, call: Call, folder: Path, *, train: bool = False) -> list[str]:
    """How the unit that is generated for a call differs from eager: nothing, if it is right.

    Args:
        model: In training or eval mode is what it is put in.
        call: Its example arguments.
        folder: Where the unit goes.
        train: Whether gradients are generated and compared, too.
    """
    model.train(train)
    randomize(model, 1)
    args, kwargs = copy.deepcopy(call)
    with torch.set_grad_enabled(train):
        longhand.generate(model, args, kwargs, out=folder, train=train)
    exported = longhand.load(folder)
    found = [
        f"state_dict: {key}" for key in sorted(model.state_dict().keys() ^ exported().state_dict().keys())
    ]
    if found:
        return found
    for seed in (None, 2):
        if seed is not None:
            randomize(model, seed)
            call = fresh(call, seed)
        eager = copy.deepcopy(model)
        unit = exported().train(train)
        unit.load_state_dict(model.state_dict())
        expected = _step(eager, eager, copy.deepcopy(call), train)
        found += disagreements(_step(unit, unit, copy.deepcopy(call), train), expected)
    return found


def dynamic_differences(model: nn.Module, call: Call) -> list[str]:
    """How ``longhand.compile(dynamic=True)`` differs from eager at two sizes, or why it runs in eager."""
    model.eval()
    randomize(model, 1)
    longhand.reset()
    compiled = longhand.compile(copy.deepcopy(model), dynamic=True, options={"strict": True})
    found = []
    for one in (call, larger(call)):
        expected = _step(model, model, copy.deepcopy(one), False)
        actual = _step(compiled, model, copy.deepcopy(one), False)
        found += disagreements(actual, expected)
    return found


def _step(run: Callable[..., Any], owner: nn.Module, call: Call, train: bool) -> dict[str, Tensor]:
    """What one call leaves, by name: results, with `train` gradients and buffers."""
    torch.manual_seed(_SEED)
    args, kwargs = call
    with torch.set_grad_enabled(train):
        results = _tensors(run(*args, **kwargs))
    found = {f"result {place}": result.detach() for place, result in enumerate(results)}
    if train:
        owner.zero_grad(set_to_none=True)
        carrying = [result for result in results if result.requires_grad]
        generator = torch.Generator().manual_seed(_SEED)
        noise = [torch.randn(one.shape, generator=generator).to(one.dtype) for one in carrying]
        torch.autograd.backward(carrying, noise)
        named = owner.named_parameters()
        found |= {f"gradient of {name}": p.grad for name, p in named if p.grad is not None}
        found |= {f"{name} after the call": buffer.clone() for name, buffer in owner.state_dict().items()}
    return found


def _tensors(result: Any) -> list[Tensor]:
    plain = dict(result) if isinstance(result, Mapping) else result
    return [leaf for leaf in pytree.tree_leaves(plain) if isinstance(leaf, Tensor)]


def disagreements(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> list[str]:
    """What differs by more than rounding, is missing, or is there and should not be."""
    gradients = [value for name, value in expected.items() if name.startswith("gradient")]
    negligible = _NEGLIGIBLE * _largest(gradients)
    found = []
    for name in dict.fromkeys((*actual, *expected)):
        ours, theirs = actual.get(name), expected.get(name)
        if ours is None or theirs is None:
            found.append(f"{name}: {'missing' if ours is None else 'eager has none'}")
            continue
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            found.append(
                f"{name}: {ours.dtype} {tuple(ours.shape)}, not {theirs.dtype} {tuple(theirs.shape)}"
            )
            continue
        scale = max(_largest([theirs]), negligible if name.startswith("gradient") else 0.0, 1e-6)
        error = _distance(ours, theirs)
        if not error <= TOLERANCE * scale:
            found.append(f"{name}: off by {error:.2g}, largest {scale:.2g}")
    return found


def _largest(tensors: Sequence[Tensor]) -> float:
    finite = (t.detach().double().nan_to_num(0.0, 0.0, 0.0).abs() for t in tensors if t.numel())
    return max((float(t.max()) for t in finite), default=0.0)


def _distance(one: Tensor, other: Tensor) -> float:
    """The largest difference; infinite where one is not finite and the other is something else."""
    left, right = one.detach().double(), other.detach().double()
    odd = ~(left.isfinite() & right.isfinite())
    if not torch.equal(left[odd].nan_to_num(7.0), right[odd].nan_to_num(7.0)):
        return math.inf
    return _largest([(left - right)[~odd]])
