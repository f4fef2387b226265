"""What a kernel computes, as a formula for the first line of its file: ``weights = exp(scores) / sum(exp(scores))``."""

from __future__ import annotations

from collections.abc import Mapping

from longhand.emit.buffer_words import BufferWords
from longhand.emit.expression import Operator, Precedence, Text
from longhand.emit.names import KernelNames
from longhand.emit.op_words import aten_name, op_word
from longhand.emit.reference_calls import Group, find_groups
from longhand.emit.reference_ops import operation
from longhand.emit.view_calls import literal_text
from longhand.emit.words import listed
from longhand.lower.ir import Constant, Extent, Load, Pointwise, PointwiseOp, Reduce, ReduceOp, Scalar, Store
from longhand.schedule.plan import KernelPlan, SizeOf, Style

_LONGEST = 88
_WIDEST = 102  # of a file's first line: the kernel's name and the title
_REDUCED = {ReduceOp.PROD: "prod", ReduceOp.ARGMAX: "argmax", ReduceOp.ARGMIN: "argmin"}


def title_of(plan: KernelPlan, names: KernelNames, words: BufferWords) -> str:
    """One line: the results as formulas, or where these are long the operations in words."""
    formula = _Formula(plan, names, words).text()
    how = _walk(plan)
    if formula and len(formula) + len(how) <= _WIDEST - len(names.kernel):
        return f"{formula}{how}."
    nodes = [words.nodes[name] for name in plan.origins if name in words.nodes]
    ops = list(
        dict.fromkeys(op_word(node).word.replace("_", " ") for node in nodes if not op_word(node).silent)
    )
    if len(ops) > 5:
        ops = [*ops[:4], "more"]
    results = list(
        dict.fromkeys(names.pointers[value.buffer] for value in plan.body if isinstance(value, Store))
    )
    return f"{listed(results)} by {listed(ops) or 'copying'} in one pass{how}."


def _walk(plan: KernelPlan) -> str:
    if plan.style in (Style.ROWS_LOOPED, Style.ROWS_PERSISTENT, Style.ROWS_SPLIT):
        return ", row by row"
    if plan.style is Style.COLUMNS:
        return ", column by column"
    return ", in square tiles" if plan.style is Style.TRANSPOSED else ""


class _Formula:
    def __init__(self, plan: KernelPlan, names: KernelNames, words: BufferWords) -> None:
        self.plan = plan
        self.names = names
        self.words = words
        self.groups: Mapping[int, Group] = find_groups(plan, names, words)
        self.stored: dict[int, str] = {}

    def text(self) -> str:
        """All results; empty where there is no formula for them."""
        parts: list[str] = []
        for position, value in enumerate(self.plan.body):
            if not isinstance(value, Store):
                continue
            if value.mask is not None or value.value in self.stored:
                return ""
            text = self._value(value.value)
            if text is None or sum(map(len, parts)) + len(text.text) > _LONGEST:
                return ""
            parts.append(f"{self.names.pointers[value.buffer]} = {text.text}")
            self.stored[value.value] = self.names.pointers[value.buffer]
            del position
        return ", ".join(parts)

    def _value(self, position: int) -> Text | None:
        if position in self.stored:
            return Text(self.stored[position])
        group = self.groups.get(position)
        value = self.plan.body[position]
        if group is not None:
            inner = self._value(group.inputs[0])
            node = self.words.nodes[getattr(value, "origin", "")]
            return None if inner is None else Text(f"{aten_name(node).strip('_')}({inner.text})")
        match value:
            case Load():
                return self._load(position, value)
            case Constant(value=number):
                text = literal_text(number)
                return Text(text, Precedence.UNARY if text.startswith("-") else Precedence.ATOM)
            case Scalar():
                word = self.names.scalars.get(position) or value.name
                return Text(word) if word else None
            case Extent():
                return Text("n")
            case Reduce(op=op):
                arg = self._value(value.arg)
                return None if arg is None else Text(f"{_REDUCED.get(op, op.value)}({arg.text})")
            case Pointwise():
                return self._pointwise(value)
        return None

    def _pointwise(self, value: Pointwise) -> Text | None:
        given = [self._value(argument) for argument in value.args]
        texts = [text for text in given if text is not None]
        if len(texts) != len(given) or any(len(text.text) > _LONGEST for text in texts):
            return None
        if value.op is PointwiseOp.CAST:
            return texts[0]
        if value.op is PointwiseOp.MUL and value.args[0] == value.args[1]:
            return Operator("{0}**2", Precedence.UNARY, (Precedence.ATOM,)).apply(texts)
        types = [self.plan.body[argument].dtype for argument in value.args]  # type: ignore[union-attr]
        made = operation(value, texts, types, [False] * len(texts))
        return Text(made.text.replace("torch.", ""), made.precedence)

    def _load(self, position: int, value: Load) -> Text | None:
        if value.mask is not None or value.index.values:
            return None
        word = self.names.pointers[value.buffer]
        address = dict(self.plan.addresses[position].axes)
        rows, cols = self.plan.rows, self.plan.cols
        if self.plan.style is Style.TRANSPOSED and rows and cols and address.get(rows[-1].name) == ():
            return Text(
                f"{word}.t()" if any(isinstance(f, SizeOf) for f in address.get(cols[-1].name, ())) else word
            )
        return Text(word)
