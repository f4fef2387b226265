"""Derivatives of linear layers, cross entropy and embeddings: what surrounds the large products of a model.

A language model's head is the largest product there is, and the gradient of its logits the largest tensor. So
it is computed in the forward pass, where the logits are at hand, but for the factor that the backward pass brings: a
number, which commutes with the products that follow and is multiplied with their small results instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture.autograd.marks import Mark, has_mark, set_mark
from longhand.capture.autograd.rules import Rewritten, Setting, called, derivative_rule
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter
from longhand.capture.roles import Role

aten = torch.ops.aten
Pairs = list[tuple[Proxy, Proxy | None]]

# Their range holds (softmax - one_hot) / count before a loss scale is multiplied with it.
_WIDE = (torch.bfloat16, torch.float32, torch.float64)


@derivative_rule(aten.linear.default)
def _linear(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, setting: Setting
) -> Rewritten | None:
    """d x = d y @ W, d W = d y^T @ x over all rows, d b = the rows' sum."""
    x, weight, bias = given["input"], given["weight"], given["bias"]
    call = rewriter.call
    n_out, n_in = weight.fake.shape
    args = (x, weight) if bias is None else (x, weight, bias)
    out = rewriter.keep(aten.linear.default, args, {}, eager)

    def as_rows(value: Proxy, n_cols: int) -> Proxy:
        flat: Proxy = value if value.fake.ndim == 2 else call(aten.reshape.default, (value, [-1, n_cols]), {})
        return flat

    def pullback(grads: Sequence[Proxy | None]) -> Pairs:
        d_out = grads[0]
        assert d_out is not None
        of_bias: Pairs = []
        if bias is not None:
            of_bias.append((bias, call(aten.sum.dim_IntList, (as_rows(d_out, n_out), [0]), {})))
        d_out, factor = _unscaled(rewriter, d_out) if bias is None else (d_out, None)
        rows, x_rows = as_rows(d_out, n_out), as_rows(x, n_in)
        d_x = call(aten.mm.default, (rows, weight), {})
        d_weight = call(aten.mm.default, (call(aten.transpose.int, (rows, 0, 1), {}), x_rows), {})
        if factor is not None:
            for product in (d_x, d_weight):
                set_mark(product.node, Mark.UNSCALED)
            d_x = call(aten.mul.Tensor, (d_x, factor), {})
            d_weight = call(aten.mul.Tensor, (d_weight, factor), {})
        if x.fake.ndim != 2:
            d_x = call(aten.reshape.default, (d_x, list(x.fake.shape)), {})
        return [(x, d_x), (weight, d_weight), *of_bias]

    return Rewritten((out,), pullback)


def _unscaled(rewriter: Rewriter, gradient: Proxy) -> tuple[Proxy, Proxy | None]:
    """(value, factor) of a gradient that is, seen through reshapes, a value times a number from the backward pass."""
    node = gradient.node
    while node.target is aten.reshape.default and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    factor = node.args[1] if node.target is aten.mul.Tensor else None
    if not isinstance(factor, fx.Node) or not has_mark(factor, Mark.FACTOR):
        return gradient, None
    value = node.args[0]
    assert isinstance(value, fx.Node)
    plain = rewriter.fresh(value, value.meta["val"])
    if node is not gradient.node:
        plain = rewriter.call(aten.reshape.default, (plain, list(gradient.fake.shape)), {})
    return plain, rewriter.fresh(factor, factor.meta["val"])


@derivative_rule(aten.cross_entropy_loss.default)
def _cross_entropy(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, setting: Setting
) -> Rewritten | None:
    """d logits = (softmax(logits) - one_hot(target)) * d loss / count."""
    logits, target = given["self"], given["target"]
    ignored, reduction = int(given["ignore_index"]), int(given["reduction"])
    is_plain = (
        given["weight"] is None
        and not given["label_smoothing"]
        and logits.fake.ndim == 2
        and not target.fake.dtype.is_floating_point
    )
    if not is_plain:
        return None
    call = rewriter.call
    args = (logits, target, None, reduction, ignored)
    loss = rewriter.keep(aten.cross_entropy_loss.default, args, {}, eager)

    def pullback(grads: Sequence[Proxy | None]) -> Pairs:
        d_loss = grads[0]
        if d_loss is None:
            return []

        def per_row(value: Proxy) -> Proxy:
            column: Proxy = call(aten.unsqueeze.default, (value, 1), {})
            return column

        def n_counted() -> Proxy:
            counts = called(Role.COUNTS, call(aten.ne.Scalar, (target, ignored), {}))
            return called(Role.N_COUNTED, call(aten.sum.default, (counts,), {}))

        # Compared once more, not kept: who reads this has the targets at hand.
        is_ignored = per_row(called(Role.IS_IGNORED, call(aten.eq.Scalar, (target, ignored), {})))
        probability = called(Role.PROBABILITY, call(aten.softmax.int, (logits, 1), {}))
        classes = call(
            aten.arange.default, (logits.fake.shape[1],), {"device": logits.fake.device, "dtype": torch.int64}
        )
        is_target = called(Role.IS_TARGET, call(aten.eq.Tensor, (classes, per_row(target)), {}))
        less_one = call(aten.sub.Tensor, (probability, 1.0), {})
        excess = called(Role.EXCESS, call(aten.where.self, (is_target, less_one, probability), {}))
        if reduction == 0 or logits.fake.dtype not in _WIDE:
            scale = d_loss
            if reduction == 1:
                scale = call(aten.div.Tensor, (d_loss, n_counted()), {})
            scale = per_row(scale) if reduction == 0 else scale
            scale = call(aten.where.ScalarSelf, (is_ignored, 0.0, scale), {})
            return [(logits, call(aten.mul.Tensor, (excess, scale), {}))]
        if reduction == 1:
            excess = call(aten.div.Tensor, (excess, n_counted()), {})
        unscaled = call(aten.where.ScalarSelf, (is_ignored, 0.0, excess), {})
        set_mark(unscaled.node, Mark.UNSCALED)
        set_mark(d_loss.node, Mark.FACTOR)
        return [(logits, call(aten.mul.Tensor, (unscaled, d_loss), {}))]

    return Rewritten((loss,), pullback)


@derivative_rule(aten.embedding.default)
def _embedding(
    rewriter: Rewriter, given: dict[str, Any], eager: torch.Tensor, setting: Setting
) -> Rewritten | None:
    """Looked up by 0, 1, 2, ... it is the table's first rows."""
    table, indices = given["weight"], given["indices"]
    n_rows = table.fake.shape[0]
    if not _counts_up(indices.node) or given["padding_idx"] >= 0 or given["scale_grad_by_freq"]:
        return None
    n_read = indices.fake.shape[0]
    if not isinstance(n_read, int) or not isinstance(n_rows, int) or n_read > n_rows:
        return None
    call = rewriter.call
    rows = call(aten.clone.default, (call(aten.slice.Tensor, (table, 0, 0, n_read), {}),), {})

    def pullback(grads: Sequence[Proxy | None]) -> Pairs:
        d_rows = grads[0]
        if d_rows is not None and n_read < n_rows:
            d_rows = call(aten.constant_pad_nd.default, (d_rows, [0, 0, 0, n_rows - n_read], 0.0), {})
        return [(table, d_rows)]

    return Rewritten((rows,), pullback)


def _counts_up(node: fx.Node) -> bool:
    """Whether a value is ``arange(n)``."""
    given = node.args
    if node.target is aten.arange.start_step:
        return bool(given[0] == 0) and (len(given) < 3 or bool(given[2] == 1))
    return node.target is aten.arange.default or (node.target is aten.arange.start and bool(given[0] == 0))


def added_up(rewriter: Rewriter, source: fx.Node, total: Proxy, summand: Proxy) -> Proxy:
    """A gradient with another one added; a product of a weight that is used several times as part of its call.

    A loop over time uses its weights in each step, and its backward pass makes a gradient of the weight's size in each:
    ``torch.addmm(total, d_gates.T, state)`` adds one to what is there, and no two of them have to lie in memory. Only
    to a sum of products, of what the call is given: what other gradients are added to, and what is done with the sums,
    is one kernel.

    Args:
        rewriter: Of the graph that they are in.
        source: Whose gradient it is.
        total: What is added up already.
        summand: What comes to it.
    """
    node, (ours, theirs) = summand.node, (summand.fake, total.fake)
    is_product = node.target is aten.mm.default and total.node.target in (aten.mm.default, aten.addmm.default)
    is_alike = (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    summands = [summand]
    if is_product and is_alike and source.op == "placeholder" and not node.users:
        factors: Any = node.args
        summands = [rewriter.fresh(factor, factor.meta["val"]) for factor in factors]
    op = aten.add.Tensor if len(summands) == 1 else aten.addmm.default
    added: Proxy = rewriter.call(op, (total, *summands), {})
    return added
