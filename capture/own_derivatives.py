"""A derivative that the user wrote (torch.autograd.Function): a graph of its own, and what stands for it in others.

In a graph of torch functions it is a call of a function that eager can run, too: it gives the forward's results on,
with the user's backward as their derivative. In a graph of ATen calls it is one op, which names the backward by what
is in it. Where the joint graph is made the op is nothing, and its derivative is that graph, call by call.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

__all__ = [
    "GivenDerivative",
    "SecondDerivative",
    "derivative_named",
    "derivative_of",
    "given_op",
    "is_once_differentiable",
    "op_call",
    "result_word",
    "with_derivative",
]

_NAMESPACE = "longhand_own_derivative"
Traced = Callable[[fx.GraphModule, list[Any]], fx.GraphModule]


class SecondDerivative(enum.Enum):
    """Whether a user's backward is differentiated in turn, where eager runs it (create_graph=True)."""

    YES = "yes"
    ONCE = "once"  # once_differentiable
    UNKNOWN = "unknown"  # it asks whether gradients are recorded, and was captured while they were not


@dataclasses.dataclass(frozen=True, eq=False)
class GivenDerivative:
    """A user's backward.

    Attributes:
        name: The Function's, as the user wrote it.
        module: From the tensors that it reads, then a gradient for each result, to one for each argument (or None).
        fakes: Fake values of its placeholders.
        takes_none: Whether it is called with None, not with zeros, where there is no gradient.
        again: Whether it has a derivative itself, where eager runs it.
    """

    name: str
    module: fx.GraphModule
    fakes: tuple[torch.Tensor, ...]
    takes_none: bool = False
    again: SecondDerivative = SecondDerivative.YES


class _Applied(torch.autograd.Function):
    """The derivative in eager: the results, as tensors of their own, and the user's backward behind them."""

    @staticmethod
    def forward(ctx: Any, derivative: GivenDerivative, n_results: int, n_arguments: int, *given: Any) -> Any:
        ctx.derivative, ctx.n_results, ctx.n_arguments = derivative, n_results, n_arguments
        results = {id(result): result.clone() for result in given[:n_results]}
        # Of a result that backward reads, the one that is derived is kept: it has a second derivative.
        ctx.save_for_backward(*(results.get(id(one), one) for one in given[n_results + n_arguments :]))
        return tuple(results[id(result)] for result in given[:n_results])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        again = ctx.derivative.again
        if torch.is_grad_enabled() and again is SecondDerivative.UNKNOWN:
            raise RuntimeError(
                f"the backward of {ctx.derivative.name} is differentiated, which asks whether gradients are recorded "
                "or applies another Function: captured, it has no derivative"
            )
        return (_once if again is SecondDerivative.ONCE else _gradients)(ctx, *gradients)


def _gradients(ctx: Any, *gradients: Any) -> Any:
    """Those of what `_Applied` was called with."""
    derived = ctx.derivative.module(*ctx.saved_tensors, *gradients)
    return (
        None,
        None,
        None,
        *(None for _ in range(ctx.n_results)),
        *derived,
        *(None for _ in ctx.saved_tensors),
    )


_once = torch.autograd.function.once_differentiable(_gradients)


def is_once_differentiable(backward: Any) -> bool:
    """Whether a function is what torch's decorator makes."""
    return getattr(backward, "__code__", None) is _once.__code__


def with_derivative(derivative: GivenDerivative) -> Callable[..., Any]:
    """A function of (results, arguments, what the backward reads) that gives the results, derived as the user says."""

    def with_own_derivative(results: Sequence[Any], arguments: Sequence[Any], kept: Sequence[Any]) -> Any:
        return _Applied.apply(derivative, len(results), len(arguments), *results, *arguments, *kept)

    with_own_derivative.derivative = derivative  # type: ignore[attr-defined]
    return with_own_derivative


def derivative_of(target: Any) -> GivenDerivative | None:
    """The derivative that a call in a graph of torch functions gives; None for every other call."""
    derivative = getattr(target, "derivative", None)
    return derivative if isinstance(derivative, GivenDerivative) else None


# In the graph of ATen calls


@torch.library.custom_op(f"{_NAMESPACE}::given", mutates_args=())
def _given(
    results: list[torch.Tensor], arguments: list[torch.Tensor], kept: list[torch.Tensor], derivative: str
) -> list[torch.Tensor]:
    return [result.clone() for result in results]


@_given.register_fake
def _(
    results: list[torch.Tensor], arguments: list[torch.Tensor], kept: list[torch.Tensor], derivative: str
) -> list[torch.Tensor]:
    return [torch.empty_strided(r.shape, r.stride(), dtype=r.dtype, device=r.device) for r in results]


given_op: torch._ops.OpOverload = getattr(torch.ops, _NAMESPACE).given.default
_known: dict[str, fx.GraphModule] = {}  # a derivative's ATen calls, by what is in them


def derivative_named(name: str) -> fx.GraphModule:
    """The user's backward as ATen calls."""
    return _known[name]


def result_word(node: fx.Node) -> str | None:
    """What to call a result that has no name, if it is one of the op's: ``gelu`` of ``GeLUFunction.apply``."""
    source = node.args[0] if node.target is operator.getitem else None
    if not isinstance(source, fx.Node) or source.target is not given_op:
        return None
    return str(source.args[3]).split()[0]


def _word(name: str) -> str:
    last = name.rpartition(".")[2]
    return (re.sub("Function$|Fn$", "", last) or last).lower()


def op_call(derivative: GivenDerivative, traced: Traced) -> Callable[..., Any]:
    """What makes the op's call, in a trace, of the call in the graph of torch functions.

    Args:
        derivative: The derivative.
        traced: Makes ATen calls of a graph of torch functions, given the fake values of its placeholders.
    """
    module = traced(derivative.module, list(derivative.fakes))
    text = str(module.graph) + "".join(
        f"{node.name}: {_facts(module, node)}\n" for node in module.graph.nodes if node.op != "output"
    )
    name = f"{_word(derivative.name)} {hashlib.sha256(text.encode()).hexdigest()[:24]}"
    _known.setdefault(name, module)
    return lambda results, arguments, kept: given_op(list(results), list(arguments), list(kept), name)


def _facts(module: fx.GraphModule, node: fx.Node) -> str:
    if node.op == "get_attr":
        return str(getattr(module, str(node.target)))
    value = node.meta.get("val")
    return f"{tuple(value.shape)} {value.dtype}" if isinstance(value, torch.Tensor) else str(value)
