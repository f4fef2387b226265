"""Results that lead to other results of one graph, of whose own gradients the unit's caller asks.

A unit's results are autograd's of one call. What flows to a result from others is added up inside the unit: a hook on
it would not see that, nor would its `grad`. Whether somebody asks is known in the backward pass alone.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx
from torch.autograd.function import FunctionCtx

from longhand.capture.autograd.leading_values import leading_to_others
from longhand.errors import LonghandError

__all__ = ["ASKED", "GradientOfPartError", "leading_places", "refuse_asked", "watching"]

ASKED = "the gradient of a result that leads to another one was asked for"
_WATCHED = "longhand_watched"
_FRAMEWORKS = ("torch.", "longhand.")  # their hooks ask for a time, not for a gradient


class GradientOfPartError(LonghandError):
    """A hook or retain_grad() of the user's is on a result that leads to another one."""


def leading_places(module: fx.GraphModule) -> tuple[int, ...]:
    """The places of a graph's results that lead to others of them."""
    leaves = pytree.tree_leaves(module.graph.output_node().args[0])
    leading = set(leading_to_others([node for node in leaves if isinstance(node, fx.Node)]))
    return tuple(place for place, node in enumerate(leaves) if node in leading)


def watching(function: Callable[..., Any], places: Sequence[int]) -> Callable[..., Any]:
    """The unit's function; each call's backward pass knows the results at these places."""

    def run(*inputs: Any) -> Any:
        results = function(*inputs)
        watched = [results[place] for place in places]
        made = watched[0].grad_fn
        if isinstance(made, FunctionCtx):
            setattr(made, _WATCHED, [weakref.ref(one) for one in watched])
        return results

    return run


def refuse_asked(ctx: Any) -> None:
    """Looks whether the caller asks for the gradient of a watched result.

    Raises:
        GradientOfPartError: It does.
    """
    for reference in getattr(ctx, _WATCHED, ()):
        result: torch.Tensor | None = reference()
        if result is not None and (
            result.retains_grad or any(map(_is_users, (result._backward_hooks or {}).values()))
        ):
            raise GradientOfPartError(
                "A hook or retain_grad() is on a result of a generated unit that leads to another result of it: what "
                "comes from there is added up inside the unit.",
                hint="Do this step again: from now on its graph runs in eager.",
            )


def _is_users(hook: Any) -> bool:
    while isinstance(hook, functools.partial | types.MethodType):
        hook = hook.func if isinstance(hook, functools.partial) else hook.__func__
    module = getattr(hook, "__module__", None) or type(hook).__module__
    return not f"{module}.".startswith(_FRAMEWORKS)
