"""The rule for what brings a derivative of the user's: its backward pass is the user's own, call by call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from longhand.capture.autograd.rules import Rewritten, Setting, derivative_rule
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.own_derivatives import derivative_named, given_op

aten = torch.ops.aten


@derivative_rule(given_op, takes_complex=True)
def _own_derivative(rewriter: Rewriter, given: dict[str, Any], eager: Any, setting: Setting) -> Rewritten:
    """The results get nodes of their own: a gradient belongs to a node, and forward may return what it is given."""
    arguments, kept = given["arguments"], given["kept"]
    pairs = zip(given["results"], eager, strict=True)
    results = [
        rewriter.fresh(rewriter.emit(aten.clone.default, (one,), value=value), value) for one, value in pairs
    ]

    def pullback(grads: Sequence[Proxy | None]) -> list[tuple[Proxy, Proxy | None]]:
        gradients = rewriter.inline(derivative_named(given["derivative"]), [*kept, *grads])
        every = zip(arguments, gradients, strict=True)
        return [(argument, gradient) for argument, gradient in every if argument.node in setting.wanted]

    return Rewritten(tuple(results), pullback)
