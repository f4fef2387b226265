"""The rule for rrelu in training: its derivative reads the slopes that the call drew, which a trace would lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from longhand.capture.autograd.rules import Rewritten, Setting, derivative_rule
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter

aten = torch.ops.aten


@derivative_rule(aten.rrelu_with_noise_functional.default)
def _rrelu(rewriter: Rewriter, given: dict[str, Any], eager: Any, setting: Setting) -> Rewritten:
    """torch's formula names the noise that the call is given, where its kernel has written by then; here it has not."""
    x, bounds = given["self"], (given["lower"], given["upper"], given["training"])
    out, noise = rewriter.keep(aten.rrelu_with_noise_functional.default, tuple(given.values()), {}, eager)

    def pullback(grads: Sequence[Proxy | None]) -> list[tuple[Proxy, Proxy | None]]:
        if grads[0] is None:
            return [(x, None)]
        return [
            (
                x,
                rewriter.call(
                    aten.rrelu_with_noise_backward.default, (grads[0], x, noise, *bounds, False), {}
                ),
            )
        ]

    return Rewritten((out, noise), pullback)
