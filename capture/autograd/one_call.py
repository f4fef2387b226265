"""One call of the captured graph in the joint graph: its own node or its derivative's, and its gradients later on."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from longhand.capture.autograd.derivative import Derivative
from longhand.capture.autograd.eager_derivative import is_twin
from longhand.capture.autograd.randomness import is_random
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter, Rule


class OneCall:
    """The derivative of one call, its nodes emitted where they belong."""

    def __init__(self, rewriter: Rewriter, derivative: Derivative, tensors: list[Proxy]) -> None:
        self.rewriter = rewriter
        self.derivative = derivative
        graph = derivative.module.graph
        self.inputs = [node for node in graph.nodes if node.op == "placeholder"]
        self.results, self.gradients = next(node for node in graph.nodes if node.op == "output").args[0]
        self.known: dict[fx.Node, Any] = dict(zip(self.inputs, tensors, strict=False))
        self.wanted = _needed(self.gradients, {})

    def forward(self, original: Any) -> list[Any]:
        """Emits what the backward wants to know; the results are the original op's wherever they can be."""
        replaced = self._replaced()
        results: list[Any] = []
        if not replaced:
            made = original()
            results = made if isinstance(made, list) else [made]
            for node, handle in zip(self.results, results, strict=True):
                if isinstance(node, fx.Node) and isinstance(handle, Proxy) and node not in self.known:
                    self.known[node] = handle
        roots = self.gradients if not replaced else [*self.gradients, *self.results]
        needed = _needed(roots, self.known)
        for node in self.derivative.module.graph.nodes:
            is_due = node in needed and node not in self.derivative.after and node not in self.known
            if is_due and node.op == "call_function":
                self._emit(node)
            elif is_due and node.op == "get_attr":
                self.known[node] = self.rewriter._attribute(self.derivative.module, node)
        return [self.known[node] for node in self.results] if replaced else results

    def _replaced(self) -> bool:
        """Whether the results must come from the derivative's own forward.

        That is so where the backward reads a further result of the call that the op's own result is one of, or
        numbers that it draws: drawn once more they would be others. Or the op stands for one that keeps nothing.
        """
        if any(node in self.wanted and is_random(node) for node in self.derivative.module.graph.nodes):
            return True
        for node in self.results:
            if isinstance(node, fx.Node) and node.target is operator.getitem:
                source = node.args[0]
                assert isinstance(source, fx.Node)
                if is_twin(source.target):
                    return True
                others = [user for user in source.users if user is not node and user in self.wanted]
                if len(self.results) == 1 and others:
                    return True
        return False

    def backward(self, grads: list[Any]) -> list[Proxy | None]:
        """Emits the gradients of the wanted tensors."""
        known = self.known
        known.update(zip(self.inputs[self.derivative.n_tensors :], grads, strict=True))
        for node in self.derivative.module.graph.nodes:
            if node in self.wanted and node not in known and node.op == "call_function":
                self._emit(node)
        return [None if node is None else known[node] for node in self.gradients]

    def _emit(self, node: fx.Node) -> None:
        self.known[node] = self.rewriter.copy(node, self.known, True)


def _needed(roots: Sequence[Any], known: Mapping[fx.Node, Any]) -> set[fx.Node]:
    """The nodes that the roots follow from, without those known and what only these need."""
    nodes: set[fx.Node] = set()
    waiting = [node for node in roots if isinstance(node, fx.Node)]
    while waiting:
        node = waiting.pop()
        if node not in nodes and node not in known:
            nodes.add(node)
            waiting += node.all_input_nodes
    return nodes


def whole(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """As one call, with all its results."""
    return rewriter.keep(target, args, kwargs, eager)


# Ops that a traced derivative may call and that stay whole here: norms with their statistics; library calls whose
# further results torch's decompositions leave empty or wrong; backward ops that a library does best.
UNSPLIT: dict[str, Rule] = dict.fromkeys(
    [
        "native_layer_norm",
        "_fused_rms_norm",
        "native_group_norm",
        "_native_batch_norm_legit_no_training",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_backward",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_efficient_attention_backward",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_cudnn_attention_backward",
        "embedding_dense_backward",
        "_embedding_bag",
        "convolution_backward",
        "max_pool2d_with_indices_backward",
        "max_pool2d_with_indices",
        "avg_pool2d_backward",
        "avg_pool3d_backward",
        "upsample_bilinear2d_backward",
        "upsample_nearest2d_backward",
    ],
    whole,
)
