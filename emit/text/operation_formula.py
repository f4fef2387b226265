"""What a kernel computes, in the user's operations: ``activated = relu(batch_norm(conv2) + features)``.

Coarser than the formula of the body's values: an operation that stayed whole up to lowering is one call here, whatever
it is made of, and the vectors that a module holds for it are left out.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from longhand.capture.graph import PADDED_FOR_SPEED
from longhand.emit.module.view_calls import literal_text
from longhand.emit.names.buffer_names import BufferWords
from longhand.emit.names.operation_names import SILENT, aten_name, derivative_word, op_word, provenance_of
from longhand.emit.names.unit_names import KernelNames
from longhand.emit.text.expression import Operator, Precedence, Text, infix
from longhand.emit.text.numbers import number_operand
from longhand.emit.text.rotations import rotated_half
from longhand.lower.ir import Store
from longhand.schedule.plan import KernelPlan

_LONGEST = 96

_INFIX: Mapping[str, Operator] = {
    "add": infix("+", Precedence.SUM),
    "sub": infix("-", Precedence.SUM),
    "mul": infix("*", Precedence.PRODUCT),
    "div": infix("/", Precedence.PRODUCT),
    "pow": Operator("{0}**{1}", Precedence.UNARY, (Precedence.ATOM, Precedence.ATOM)),
    "neg": Operator("-{0}", Precedence.UNARY, (Precedence.UNARY,)),
}
# Views that only change how many dimensions there are, or the type: nothing that a formula would say.
_UNSAID_TEXT = """
    view _unsafe_view reshape _reshape_alias expand unsqueeze squeeze alias detach clone contiguous _to_copy to
    lift_fresh_copy lift_fresh flatten unflatten
"""
# What a value inside a derivative is made by.
_VERBS = {"normalized": "normalize"}
_UNSAID = frozenset(_UNSAID_TEXT.split())


def op_formula(plan: KernelPlan, names: KernelNames, words: BufferWords) -> str:
    """All results, in order; empty where some operation has no such form."""
    writer = _Writer(plan, names, words)
    parts: list[str] = []
    for value in plan.body:
        if not isinstance(value, Store):
            continue
        node = words.nodes.get(words.origins.node_of(value.buffer))
        text = writer.text(node) if node is not None and value.mask is None else None
        if node is None or text is None or len(text.text) > _LONGEST:
            return ""
        word = names.pointers[value.buffer]
        parts.append(f"{word} = {text.text}")
        if not provenance_of(node).role or provenance_of(node).gradient_of:
            writer.known[node] = Text(word)
    return "; ".join([*writer.steps, *parts])


class _Writer:
    def __init__(self, plan: KernelPlan, names: KernelNames, words: BufferWords) -> None:
        self.inside = frozenset(plan.origins)
        self.words = words
        self.taken = {*names.pointers.values()}
        self.steps: list[str] = []  # gradients on the way, which several results are computed from
        self.known: dict[fx.Node, Text] = {}
        written = {value.buffer for value in plan.body if isinstance(value, Store)}
        for pointer in plan.pointers:
            node = words.nodes.get(words.origins.source_of_layout(pointer.name))
            if node is not None and pointer.name not in written:
                self.known[node] = Text(names.pointers[pointer.name])

    def text(self, node: fx.Node) -> Text | None:
        """A value of the captured graph; None if it cannot be said."""
        if node in self.known:
            return self.known[node]
        name = aten_name(node)
        origin = provenance_of(node)
        # What is normalized may be an equal value that the layer computes again, and not this node.
        if origin.differentiated and (node.name in self.inside or origin.role in _VERBS):
            inner = self._behind_views(node)
            return self._summed(inner) if aten_name(inner) == "sum" else self._derivative(node)
        if name == "getitem" and node.args[1] == 0:
            return self.text(node.args[0])  # type: ignore[arg-type]
        if name in _UNSAID and node.args and isinstance(node.args[0], fx.Node):
            return self.text(node.args[0])
        if name in SILENT and node.args and isinstance(node.args[0], fx.Node):
            return self._seen(node, node.args[0], name)
        if node.op != "call_function" or node.name not in self.inside:
            return None
        if name in ("cat", "concat"):
            return self._joined(node)
        operator = _INFIX.get(name)
        if operator is not None:
            if node.kwargs.get("alpha", 1) != 1 or node.kwargs.get("rounding_mode") is not None:
                return None
            given = [self._argument(argument) for argument in node.args]
            texts = [text for text in given if text is not None]
            return operator.apply(texts) if len(texts) == len(given) else None
        tensors = [argument for argument in node.args if isinstance(argument, fx.Node)]
        others = [argument for argument in node.args if isinstance(argument, list | tuple)]
        if not tensors or any(isinstance(item, fx.Node) for items in others for item in items):
            return None
        main = [tensor for tensor in tensors if tensor is tensors[0] or not _is_vector(tensor)]
        texts = [text for tensor in main if (text := self.text(tensor)) is not None]
        if len(texts) < len(main):
            return None
        return Text(f"{op_word(node).word}({', '.join(text.text for text in texts)})")

    def _derivative(self, node: fx.Node) -> Text | None:
        """``d_gelu(d_hidden, widen)``: what the nodes that together differentiate one op are given, gradients first."""
        origin = provenance_of(node)
        word = _VERBS.get(origin.role) or derivative_word(origin)
        given: dict[fx.Node, None] = {}
        waiting = [node]
        while waiting:
            for argument in waiting.pop(0).all_input_nodes:
                source = self._behind_views(argument)
                where = provenance_of(source)
                is_part = where.differentiates == origin.differentiates or _is_statistic(source)
                if is_part and source.op == "call_function" and source not in self.known:
                    waiting.append(source)
                elif not _is_vector(source):
                    given[source] = None
        texts = [self._step(source) or self.text(source) for source in given]
        words = [text.text for text in texts if text is not None]
        if len(words) < len(texts):
            return None
        places = {text.text: place for place, text in enumerate(self.known.values())}
        ordered = sorted({*words}, key=lambda word: (not word.startswith("d_"), places.get(word, 0), word))
        return Text(f"{word}({', '.join(ordered)})") if ordered else None

    def _step(self, node: fx.Node) -> Text | None:
        """A gradient that another derivative goes on with, as a formula of its own: ``d_out = d_relu(d_y, y)``."""
        origin = provenance_of(node)
        if node in self.known or not origin.differentiated or not origin.gradient_of:
            return None
        word, text = next(self.words.candidates(node.name)), self._derivative(node)
        if text is None or word in self.taken:
            return None
        self.taken.add(word)
        self.steps.append(f"{word} = {text.text}")
        self.known[node] = Text(word)
        return self.known[node]

    def _summed(self, node: fx.Node) -> Text | None:
        """``sum(d_y * normalize(x))``: the gradient of a vector that a layer multiplies with, or adds."""
        whole = self._behind_views(node.all_input_nodes[0])
        is_product = (
            aten_name(whole) == "mul" and provenance_of(whole).differentiated and whole not in self.known
        )
        factors = [
            self._behind_views(factor) for factor in (whole.all_input_nodes if is_product else [whole])
        ]
        texts = [self._step(factor) or self.text(factor) for factor in factors]
        words = [text.text for text in texts if text is not None]
        return Text(f"sum({' * '.join(words)})") if len(words) == len(texts) else None

    def _behind_views(self, node: fx.Node) -> fx.Node:
        while node not in self.known and aten_name(node) in _UNSAID and isinstance(node.args[0], fx.Node):
            node = node.args[0]
        return node

    def _seen(self, node: fx.Node, source: fx.Node, name: str) -> Text | None:
        """A value through a view that moves its elements."""
        if name in ("transpose", "permute", "t"):
            whole = self.text(source)
            is_matrix = getattr(node.meta.get("val"), "ndim", 0) == 2
            return Text(f"{whole.within(Precedence.ATOM)}.t()") if whole is not None and is_matrix else whole
        # The first rows of a table, as many as there are positions.
        is_start = name == "slice" and (*node.args[2:3], None)[0] in (None, 0)
        is_whole = source.op == "placeholder" or source.meta.get(PADDED_FOR_SPEED, False)
        return self.known.get(source) if is_start and is_whole else None

    def _joined(self, node: fx.Node) -> Text | None:
        """``rotate_half(q)`` for the halves of one value in the other order, the second one negated."""
        pieces = node.args[0]
        if not isinstance(pieces, list | tuple):
            return None
        nodes = [piece for piece in pieces if isinstance(piece, fx.Node)]
        rotated = rotated_half(node)
        if rotated is not None and aten_name(nodes[0]) == "neg":
            whole = self.text(rotated)
            return None if whole is None else Text(f"rotate_half({whole.text})")
        texts = [text for piece in nodes if (text := self.text(piece)) is not None]
        return Text(f"cat({', '.join(text.text for text in texts)})") if len(texts) == len(pieces) else None

    def _argument(self, argument: Any) -> Text | None:
        if isinstance(argument, fx.Node):
            return self.text(argument)
        if isinstance(argument, int | float):
            return number_operand(literal_text(argument))
        return None


def _is_statistic(node: fx.Node) -> bool:
    """Whether a value is a norm's mean or rstd, or the norm that has them: a formula says what is normalized."""
    is_whole = isinstance(node.meta.get("val"), tuple | list)
    return is_whole or (node.target is operator.getitem and bool(node.args[1] != 0))


def _is_vector(node: fx.Node) -> bool:
    """Whether a value is a vector that the module holds: a norm's weight."""
    value = node.meta.get("val")
    return node.op == "placeholder" and isinstance(value, torch.Tensor) and value.ndim <= 1
