"""A step of a unit with a backward pass, against eager and float64: results, gradients, buffers, what is written."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn

from longhand.factory import Call
from longhand.loading import bound
from longhand.verify.comparison import Comparison, compare, tensors_by_name
from longhand.verify.exact_results import exact_results
from longhand.verify.forms import Watched, other_form
from longhand.verify.layouts import SettledLayouts, wrong_in_torch
from longhand.verify.original import SEED, copied

__all__ = ["compare_training", "step_of"]

_AFTER = " after the call"


def compare_training(unit: object, call: Call) -> tuple[Comparison, ...]:
    """Runs one forward and backward pass of each, from the same seed and with the same gradients of the results.

    Args:
        unit: What was generated with ``train=True``.
        call: The original and its example arguments.

    Returns:
        Every result, gradient, buffer and argument that is written into, by name. A gradient that only one of them
        has is wrong, unless it is zero. A table that only the unit has is its own, and must stay as it was made; a
        buffer that only the original has (an ``original_inv_freq`` that nothing reads) counts if the step changes it.
    """
    eager_call, our_call = copied(call), copied(call)
    bound_unit = bound(unit, our_call.model)
    tables = _tables(bound_unit, eager_call.model)
    original, generated = Watched(eager_call.model), Watched(bound_unit)
    eager = step_of(original, eager_call)
    ours = step_of(generated, our_call)
    if other := other_form(generated, original):
        return (other,)
    exact = {**exact_results(call, lambda one: step_of(one.model, one), eager), **tables}
    eager = {name: one for name, one in eager.items() if name in ours or not _stays(name, one, call.model)}
    eager |= tables
    comparisons = []
    for name in dict.fromkeys((*eager, *ours)):
        mine, theirs = ours.get(name), eager.get(name)
        only = theirs if mine is None else mine
        if mine is not None and theirs is not None:
            comparisons.append(compare(name, mine, theirs, exact[name]))
        elif only is not None and name.startswith("gradient") and not only.any():
            comparisons.append(Comparison(name, 0.0, 0.0, 0.0))  # none is a gradient of zero
        else:
            note = "eager has none" if theirs is None else "missing"
            comparisons.append(Comparison(name, math.inf, 0.0, 0.0, note))
    if all(one.is_right for one in comparisons):
        return tuple(comparisons)
    return _where_eager_is_right(comparisons, ours, eager, call)


def _where_eager_is_right(
    comparisons: Sequence[Comparison],
    ours: Mapping[str, torch.Tensor],
    eager: Mapping[str, torch.Tensor],
    call: Call,
) -> tuple[Comparison, ...]:
    """The comparisons, of what eager itself gets wrong with what is right: PyTorch has operations wrong for a layout.

    Args:
        comparisons: With eager as it is.
        ours: What the unit's step left.
        eager: What eager's did.
        call: The original and its arguments.
    """
    settled, exactly = SettledLayouts(), SettledLayouts()

    def exact_step(one: Call) -> dict[str, torch.Tensor]:
        with exactly:
            return step_of(one.model, one)

    right: Mapping[str, torch.Tensor] = {}
    with contextlib.suppress(Exception):  # some operations run under no mode, some models in one layout alone
        again = copied(call)
        with settled:
            right = step_of(again.model, again)
    if not settled.wrong:
        return tuple(comparisons)
    exact = exact_results(call, exact_step, right)
    if exactly.wrong != settled.wrong:  # what would be right is not known
        return tuple(comparisons)
    remark = wrong_in_torch(settled.wrong)
    judged = []
    for one in comparisons:
        name = one.name
        is_told = one.is_right or one.note or name not in right
        if is_told or compare(name, eager[name], right[name], exact[name]).is_right:
            judged.append(one)
        else:
            row = compare(name, ours[name], right[name], exact[name])
            judged.append(dataclasses.replace(row, remark=remark))
    return tuple(judged)


def step_of(run: Callable[..., Any], call: Call) -> dict[str, torch.Tensor]:
    """What one step leaves, by name: ``result``, ``gradient of fc.weight``, ``bn.running_mean after the call``."""
    owner = getattr(run, "original", run)
    args, kwargs = pytree.tree_map(_leaf, (call.args, call.kwargs))
    if isinstance(owner, nn.Module):
        owner.zero_grad(set_to_none=True)
    torch.manual_seed(SEED)
    with torch.enable_grad():
        results = tensors_by_name("result", run(*args, **kwargs))
        carrying = [value for _, value in results if value.requires_grad]
        generator = torch.Generator().manual_seed(SEED)
        drawn = [torch.randn(value.shape, generator=generator).bfloat16() for value in carrying]
        noise = [one.to(value) for one, value in zip(drawn, carrying, strict=True)]  # the same in every type
        torch.autograd.backward(carrying, noise)
    tensors = {name: value.detach() for name, value in results}
    arguments = tensors_by_name("argument", (args, kwargs))
    tensors |= {f"gradient of {name}": value.grad for name, value in arguments if value.grad is not None}
    tensors |= {f"{name}{_AFTER}": value.detach() for name, value in arguments}
    if isinstance(owner, nn.Module):
        named = owner.named_parameters(remove_duplicate=False)
        tensors |= {f"gradient of {name}": p.grad for name, p in named if p.grad is not None}
        tensors |= {f"{name}{_AFTER}": buffer for name, buffer in owner.named_buffers()}
    return tensors


def _stays(name: str, after: torch.Tensor, model: Callable[..., Any]) -> bool:
    """Whether something is a buffer of the model that a step left as it was."""
    buffers = dict(model.named_buffers()) if isinstance(model, nn.Module) else {}
    before = buffers.get(name.removesuffix(_AFTER))
    if before is None or not name.endswith(_AFTER) or before.shape != after.shape:
        return False
    are_nan = (before != before) & (after != after)
    return bool(((before == after) | are_nan).all())


def _tables(unit: Callable[..., Any], original: Callable[..., Any]) -> dict[str, torch.Tensor]:
    """Copies of the buffers that the unit holds and the original does not: what no input decides."""
    if not (isinstance(unit, nn.Module) and isinstance(original, nn.Module)):
        return {}
    known = {name for name, _ in original.named_buffers(remove_duplicate=False)}
    return {
        f"{name}{_AFTER}": buffer.detach().clone()
        for name, buffer in unit.named_buffers()
        if name not in known
    }


def _leaf(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().requires_grad_(value.requires_grad)
