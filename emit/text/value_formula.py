"""What a kernel computes, as formulas of its body's values: ``weights = exp(scores) / sum(exp(scores))``.

Where that is too long for a line, what has a line of its own in the kernel is said apart, in the order of reading:
``probs = softmax(masked), with masked = scores + where(col <= row, 0.0, -inf)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from longhand.emit.text.expression import Operator, Precedence, Text, literal_text, number_operand
from longhand.emit.text.reference_calls import OperationCall, find_groups
from longhand.emit.text.reference_ops import Join, find_joins, operation
from longhand.lower.ir import (
    Constant,
    Extent,
    Load,
    Pointwise,
    PointwiseOp,
    Position,
    Reduce,
    Scalar,
    Store,
)
from longhand.schedule.named_plan import BufferWords, KernelNames, aten_name, op_word
from longhand.schedule.plan import (
    Factor,
    KernelPlan,
    ParameterRef,
    Product,
    ScalarRef,
    SizeOf,
    conditions_of,
    limit_along,
)

_LONGEST = 88  # of a result's formula
_SHORT = 16  # what stays inside a formula in steps, whatever it is called in the kernel
# What it compares with belongs to the formula; a norm's weight does not.
_OF_TWO = frozenset({"cross_entropy"})


def value_formula(plan: KernelPlan, names: KernelNames, words: BufferWords) -> str:
    """All results, each a formula of what the kernel reads; empty where one is too long or has none."""
    return _Formula(plan, names, words).text()


def formula_in_steps(plan: KernelPlan, names: KernelNames, words: BufferWords) -> str:
    """All results, with what they are made of said apart; empty where there is no formula for one."""
    writer = _InSteps(plan, names, words)
    results = writer.text()
    steps = [f"{word} = {text}" for word, text in reversed(writer.steps.values())]
    return f"{results}, with {'; '.join(steps)}" if results and steps else results


class _Formula:
    longest: int = _LONGEST

    def __init__(self, plan: KernelPlan, names: KernelNames, words: BufferWords) -> None:
        self.plan = plan
        self.names = names
        self.words = words
        self.groups: Mapping[int, OperationCall] = find_groups(plan, names, words)
        self.stored: dict[int, str] = {}

    def text(self) -> str:
        """All results; empty where there is no formula for them."""
        parts: list[str] = []
        for value in self.plan.body:
            if not isinstance(value, Store):
                continue
            if value.mask is not None or value.value in self.stored:
                return ""
            text = self._value(value.value)
            if text is None or len(text.text) > self.longest:
                return ""
            parts.append(f"{self.names.pointers[value.buffer]} = {text.text.replace(' + -', ' - ')}")
            self.stored[value.value] = self.names.pointers[value.buffer]
        return "; ".join(parts)

    def _value(self, position: int) -> Text | None:
        if position in self.stored:
            return Text(self.stored[position])
        group = self.groups.get(position)
        value = self.plan.body[position]
        if group is not None:
            node = self.words.nodes[getattr(value, "origin", "")]
            given = group.inputs if op_word(node).word in _OF_TWO else group.inputs[:1]
            inner = [made for one in given if (made := self._value(one)) is not None]
            if len(inner) < len(given):
                return None
            if group.memory:
                return Text(f"{self.names.pointers[group.memory[0]]}[{inner[0].text}]")
            return Text(f"{op_word(node).word}({', '.join(made.text for made in inner)})")
        match value:
            case Load():
                return self._load(position, value)
            case Constant() if position in self.names.constants:
                return Text(self.names.constants[position])
            case Constant(value=number):
                return number_operand(literal_text(number))
            case Scalar():
                word = self.names.scalars.get(position) or value.name
                return Text(word) if word else None
            case Extent():
                return Text("n")
            case Position():
                return self._position(position)
            case Reduce(op=op):
                arg = self._value(value.arg)
                return None if arg is None else Text(f"{op.value}({arg.text})")
            case Pointwise():
                return self._pointwise(value)
        return None

    def _pointwise(self, value: Pointwise) -> Text | None:
        given = [self._value(argument) for argument in value.args]
        texts = [text for text in given if text is not None]
        if len(texts) != len(given) or any(len(text.text) > self.longest for text in texts):
            return None
        if value.op is PointwiseOp.CAST:
            return texts[0]
        if value.op is PointwiseOp.MUL and value.args[0] == value.args[1]:
            return Operator("{0}**2", Precedence.UNARY, (Precedence.ATOM,)).apply(texts)
        if value.op is PointwiseOp.POW:
            return Operator("{0}**{1}", Precedence.UNARY, (Precedence.ATOM, Precedence.ATOM)).apply(texts)
        types = [self.plan.body[argument].dtype for argument in value.args]  # type: ignore[union-attr]
        made = operation(value, texts, types, [False] * len(texts))
        return Text(made.text.replace("torch.", ""), made.precedence)

    def _load(self, position: int, value: Load) -> Text | None:
        if value.mask is not None:
            return None
        word = self.names.pointers[value.buffer]
        if value.index.values:
            places = [self._value(place) for place, _ in value.index.values]
            known = [place.text for place in places if place is not None]
            return Text(f"{word}[{', '.join(known)}]") if len(known) == len(places) else None
        address = dict(self.plan.addresses[position].axes)
        rows, cols = self.plan.rows, self.plan.cols
        if self.plan.schedule.is_tiled and rows and cols and address.get(rows[-1].name) == ():
            return Text(
                f"{word}.t()" if any(isinstance(f, SizeOf) for f in address.get(cols[-1].name, ())) else word
            )
        return Text(word)

    def _position(self, position: int) -> Text | None:
        """``col``, ``2 * row + 1``: where an element is, in the words of the axes."""
        address = self.plan.addresses[position]
        if address.values:
            return None
        terms = [self._product(product, self.names.axes[axis].index) for axis, product in address.axes]
        terms += [self._product(product) for product in address.offset]
        text = " + ".join(terms) or "0"
        return Text(text, Precedence.ATOM if text.isidentifier() else Precedence.SUM)

    def _product(self, product: Product, *others: str) -> str:
        return " * ".join([*(self._factor(factor) for factor in product), *others]) or "1"

    def _factor(self, factor: Factor) -> str:
        match factor:
            case SizeOf(axis=axis):
                return self.names.axes[axis].size
            case ParameterRef(name=name):
                return self.names.ints[name]
            case ScalarRef(position=place):
                return self.names.scalars[place]
            case _:
                return str(factor)


class _InSteps(_Formula):
    """What has a name in the kernel and is more than a few characters is a step."""

    longest = 2 * _LONGEST

    def __init__(self, plan: KernelPlan, names: KernelNames, words: BufferWords) -> None:
        super().__init__(plan, names, words)
        self.steps: dict[int, tuple[str, str]] = {}
        self._joins, self._pieces = find_joins(plan, names, words)
        self._results = {value.value for value in plan.body if isinstance(value, Store)}

    def _value(self, position: int) -> Text | None:
        if position in self.steps:
            return Text(self.steps[position][0])
        join = self._joins.get(position)
        made = self._joined(join) if join is not None and join.fill is None else super()._value(position)
        word = self.names.values.get(position)
        is_step = isinstance(self.plan.body[position], Pointwise | Reduce) and position not in self._results
        if made is None or word is None or not is_step or len(made.text) <= _SHORT:
            return made
        if "rotate_half(" in made.text and join is not None:
            return made
        self.steps[position] = (word, made.text)
        return Text(word)

    def _joined(self, join: Join) -> Text | None:
        """``cat(x, y)``; ``rotate_half(x)`` where that is what is joined, and ``-rotate_half(x)`` in its gradient."""
        rotated = self._rotated(*join.pieces) if len(join.pieces) == 2 else None
        if rotated is not None:
            return rotated
        pieces = [made.text for piece in join.pieces if (made := self._value(piece)) is not None]
        return Text(f"cat({', '.join(pieces)})") if len(pieces) == len(join.pieces) else None

    def _rotated(self, first: int, second: int) -> Text | None:
        """The halves of one value in the other order, one of them negated."""
        signs, wholes = [], []
        for place, half in ((first, "[half:]"), (second, "[:half]")):
            value = self.plan.body[place]
            is_negated = isinstance(value, Pointwise) and value.op is PointwiseOp.NEG
            made = super()._value(value.args[0] if is_negated else place)  # type: ignore[union-attr]
            if made is None or half not in made.text:
                return None
            signs.append(is_negated)
            wholes.append(made.text.replace(half, ""))
        if wholes[0] != wholes[1] or "half" in wholes[0] or signs[0] == signs[1]:
            return None
        text = f"rotate_half({wholes[0]})"
        return Text(text) if signs[0] else Text(f"-{text}", Precedence.UNARY)

    def _load(self, position: int, value: Load) -> Text | None:
        """An element that is read under a mask: a piece of what is joined, or what a `where` says."""
        plain = super()._load(position, dataclasses.replace(value, mask=None))
        if value.mask is None or plain is None or value.index.values:
            return plain
        if self._is_padding(value):
            around = "" if value.other == 0 else f", {literal_text(value.other)}"
            return Text(f"pad({plain.text}{around})")
        piece = self._pieces.get(position)
        if piece is not None:
            return plain if piece.slice is None else Text(f"{plain.text}[{piece.slice}]")
        mask = self._value(value.mask)
        return (
            None if mask is None else Text(f"where({mask.text}, {plain.text}, {literal_text(value.other)})")
        )

    def _is_padding(self, load: Load) -> bool:
        """Whether it is what a pad makes: a block of positions that the tensor fills, along however many axes."""
        node = self.words.nodes.get(load.origin)
        if node is None or aten_name(node) != "constant_pad_nd" or load.mask is None:
            return False
        conditions = conditions_of(self.plan, load.mask)
        return all(
            limit_along(self.plan, condition, PointwiseOp.GE)
            or limit_along(self.plan, condition, PointwiseOp.LT)
            for condition in conditions
        )
