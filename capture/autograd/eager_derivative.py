"""The gradients of an op whose derivative looks at data, as one call in which autograd finds them.

A custom operator's backward may be any Python, with a loop over numbers that a tensor holds. No trace follows that, and
eager runs it: so the op runs once more in the backward pass, with autograd, and its own derivative after it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import torch

from longhand.capture.autograd.randomness import draws

__all__ = ["Differentiated", "differentiable_twin", "differentiated", "gradient_op", "is_twin"]

aten = torch.ops.aten
_NAMESPACE = "longhand_autograd"


@dataclasses.dataclass(frozen=True)
class Differentiated:
    """What a call of an op of ours stands for: its arguments are the original's, then gradients of its results.

    Attributes:
        target: The op that is differentiated.
        wanted: Which of its arguments a gradient is wanted for, by place.
        given: Which of its results a gradient is given for.
        keywords: The names of its last arguments, which it takes by name only.
    """

    target: torch._ops.OpOverload
    wanted: tuple[int, ...]
    given: tuple[int, ...]
    keywords: tuple[str, ...] = ()


_known: dict[torch._ops.OpOverload, Differentiated] = {}
_ops: dict[Differentiated, torch._ops.OpOverload] = {}


def differentiated(op: Any) -> Differentiated | None:
    """What an op of ours stands for; None for every other op."""
    return _known.get(op)


def gradient_op(
    target: torch._ops.OpOverload, wanted: tuple[int, ...], given: tuple[int, ...]
) -> torch._ops.OpOverload | None:
    """The op that finds an op's gradients; None where running it once more would not be the same again.

    Args:
        target: The op.
        wanted: Which of its arguments a gradient is wanted for, by place in its schema: tensors, no lists of them.
        given: Which of its results a gradient is given for.
    """
    target = differentiable_twin(target)
    schema = target._schema
    takes = [str(parameter.type) for parameter in schema.arguments]
    if schema.is_mutable or draws(target) or not all(takes[place] in _TENSORS for place in wanted):
        return None
    if any(parameter.alias_info for parameter in schema.arguments):
        return None
    keywords = tuple(parameter.name for parameter in schema.arguments if parameter.kwarg_only)
    which = Differentiated(target, wanted, given, keywords)
    if which not in _ops:
        _ops[which] = _defined(which)
        _known[_ops[which]] = which
    return _ops[which]


def differentiable_twin(target: torch._ops.OpOverload) -> torch._ops.OpOverload:
    """The op that torch would have called, had it been told that gradients are wanted; mostly the op itself."""
    return _TWINS.get(target, target)


def is_twin(target: Any) -> bool:
    """Whether an op is called in place of another one where gradients are wanted."""
    return target in _TWINS.values()


_TWINS = {aten._embedding_bag_forward_only.default: aten._embedding_bag.default}
_TENSORS = ("Tensor", "Optional[Tensor]")


def _defined(which: Differentiated) -> torch._ops.OpOverload:
    schema = which.target._schema
    takes = str(schema).rpartition(" -> ")[0].partition("(")[2].removesuffix(")")
    takes = takes.replace(", *,", ",")
    takes = re.sub(r"=[^,\[]*(\[[^\]]*\])?", "", takes)  # no defaults: gradients come behind, which have none
    parameters = ", ".join([takes, *(f"Tensor d_result_{place}" for place in which.given)])
    returns = ", ".join(["Tensor"] * len(which.wanted))
    name = f"{schema.name.replace('::', '_')}_{schema.overload_name or 'default'}_{len(_ops)}"

    def run(*args: Any) -> Any:
        n_arguments = len(schema.arguments)
        gradients = _gradients(which, args[:n_arguments], args[n_arguments:])
        return gradients if len(gradients) > 1 else gradients[0]

    def alike(*args: Any) -> Any:
        made = tuple(torch.empty_like(args[place]) for place in which.wanted)
        return made if len(made) > 1 else made[0]

    op = torch.library.custom_op(
        f"{_NAMESPACE}::{name}", run, mutates_args=(), schema=f"({parameters}) -> ({returns})"
    )
    op.register_fake(alike)
    overload: torch._ops.OpOverload = getattr(getattr(torch.ops, _NAMESPACE), name).default
    return overload


def _gradients(which: Differentiated, args: Sequence[Any], grads: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    with torch.enable_grad():
        given = [
            arg.detach().requires_grad_(place in which.wanted) if isinstance(arg, torch.Tensor) else arg
            for place, arg in enumerate(args)
        ]
        n_positional = len(given) - len(which.keywords)
        by_name = dict(zip(which.keywords, given[n_positional:], strict=True))
        made = which.target(*given[:n_positional], **by_name)
    results = list(made) if isinstance(made, list | tuple) else [made]
    return torch.autograd.grad(
        [results[place] for place in which.given],
        [given[place] for place in which.wanted],
        grads,
        materialize_grads=True,
    )
