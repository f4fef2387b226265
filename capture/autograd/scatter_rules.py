"""The rule for a slice that is replaced in a complex tensor: torch has the derivative of real ones only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from longhand.capture.autograd.rules import Rewritten, Setting, derivative_rule
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter

aten = torch.ops.aten


@derivative_rule(aten.slice_scatter.default, takes_complex=True)
def _replaced_slice(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, setting: Setting
) -> Rewritten | None:
    x, part = given["self"], given["src"]
    if not x.fake.is_complex() or x.fake.dtype is not part.fake.dtype:
        return None
    place = (given["dim"], given["start"], given["end"], given["step"])
    made = rewriter.keep(aten.slice_scatter.default, (x, part, *place), {}, eager)

    def pullback(grads: Sequence[Proxy | None]) -> list[tuple[Proxy, Proxy | None]]:
        grad = grads[0]
        if grad is None:
            return []
        zeros = rewriter.call(aten.zeros_like.default, (part,), {})
        outside = rewriter.call(aten.slice_scatter.default, (grad, zeros, *place), {})
        pairs = [(x, outside), (part, rewriter.call(aten.slice.Tensor, (grad, *place), {}))]
        return [(source, gradient) for source, gradient in pairs if source.node in setting.wanted]

    return Rewritten((made,), pullback)
