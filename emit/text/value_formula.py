"""What a kernel computes, as formulas of its body's values: ``weights = exp(scores) / sum(exp(scores))``.

Where that is too long for a line, emit/text/equations cuts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from longhand.capture.graph import Role
from longhand.emit.text.axis_orders import axis_order_call
from longhand.emit.text.expression import (
    Operator,
    Precedence,
    Text,
    call,
    infix,
    literal_text,
    number_operand,
)
from longhand.emit.text.reference_calls import CALLS, OperationCall, values_of
from longhand.emit.text.reference_ops import TorchFunction, operator_of
from longhand.emit.text.textbook import (
    Primed,
    clamp_of,
    find_functions,
    find_primed,
    gradients_in,
    mean_of,
    plain_choice,
    rectified,
    softmax_gradient,
    variance_of,
    wrapped_place,
)
from longhand.lower.ir import (
    PRIMITIVES,
    REDUCTIONS,
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    Scalar,
    Store,
)
from longhand.schedule.named_plan import (
    BufferNamer,
    KernelNames,
    aten_name,
    axes_said,
    dims_read,
    op_word,
    order_read,
    places_of,
)
from longhand.schedule.plan import (
    Factor,
    KernelPlan,
    ParameterRef,
    Product,
    ScalarRef,
    SizeOf,
)

LONGEST_FORMULA = 88  # of a result's formula
_REMAINDER = infix("%", Precedence.PRODUCT)
_PRODUCT = infix("*", Precedence.PRODUCT)
_QUOTIENT = infix("//", Precedence.PRODUCT)


class _Sum(Operator):
    """``a + b``, which is ``a - b`` where b has a minus of its own."""

    def apply(self, arguments: list[Text]) -> Text:
        """The sum of any number of terms."""
        first, *rest = (one.within(self.operands[bool(place)]) for place, one in enumerate(arguments))
        terms = (f" - {one[1:]}" if one.startswith("-") else f" + {one}" for one in rest)
        return Text(f"{first}{''.join(terms)}", self.precedence)


# What rounds to 16 bits, by the type that memory would have.
_ROUNDED = {torch.float16: call("half"), torch.bfloat16: call("bfloat16")}
_SUM = _Sum("", Precedence.SUM, (Precedence.SUM, Precedence.PRODUCT))
# What it compares with belongs to the formula; a norm's weight does not.
_OF_TWO = frozenset({"cross_entropy"})


def value_formulas(plan: KernelPlan, names: KernelNames, words: BufferNamer) -> list[str]:
    """All results, each a formula of what the kernel reads; none where one is too long or has none."""
    return Formula(plan, names, words).written()


def called(function: str, names: KernelNames) -> str:
    """A function's word, told from a tensor that has the same: ``F.layer_norm(x + layer_norm)``."""
    is_taken = function in names.pointers.values()
    return f"F.{function}" if is_taken and hasattr(torch.nn.functional, function) else function


def reduces(plan: KernelPlan) -> bool:
    """Whether a kernel is of rows, or of columns, in whatever order these are."""
    return any(isinstance(value, Reduce) for value in plan.body)


def _side_by_side(pieces: Sequence[str]) -> str:
    """What is stored into one tensor: as it is, or its parts in the order in which they are stored."""
    return pieces[0] if len(pieces) == 1 else f"cat({', '.join(pieces)})"


class Formula:
    """Writes values of a body as formulas of what the kernel reads."""

    longest: int = LONGEST_FORMULA

    def __init__(self, plan: KernelPlan, names: KernelNames, words: BufferNamer) -> None:
        self.plan = plan
        self.names = names
        self.words = words
        self.groups = find_groups(plan, names, words) | _batch_norms(plan, names, words)
        self.gradients = gradients_in(plan, words)
        self.primed = find_primed(plan, words, self.gradients)
        self.functions = find_functions(plan, words)
        self.axes = axes_said(plan, names)
        self.stored: dict[int, str] = {}

    def written(self) -> list[str]:
        """All results; none where there is no formula for them."""
        made: dict[str, list[str]] = {}
        placed: list[str] = []
        n_stores = Counter(value.buffer for value in self.plan.body if isinstance(value, Store))
        for value in self.plan.body:
            if not isinstance(value, Store):
                continue
            if self._is_said(value):
                made[self.names.pointers[value.buffer]] = [self.stored[value.value]]
                continue
            where = self._where(value)
            text = None if where is None else self._value(value.value)
            if text is None or len(text.text) > self.longest:
                return []
            word = self.names.pointers[value.buffer]
            if self._is_said(value):
                made[word] = [text.text]
                continue
            if value.is_at_positions:
                place = self._place(value)
                if place is None:
                    return []
                sign = "+=" if value.adds else "="
                placed.append(f"{word}{place} {sign} {text.text}{where}")
                self._is_made(f"{word}{place}", f"{text.text}{where}", sign, value)
                continue
            made.setdefault(word, []).append(text.text)
            if n_stores[value.buffer] > len(made[word]):
                continue  # a part of it: the others come
            self._is_made(word, _side_by_side(made[word]), of=value)
            if n_stores[value.buffer] == 1:
                self.stored.setdefault(value.value, word)
        axes = {self.names.pointers[name]: said for name, said in self.axes.items()}
        whole = (f"{word}{axes.get(word, '')} = {_side_by_side(pieces)}" for word, pieces in made.items())
        return [*whole, *placed]

    def _where(self, store: Store) -> str | None:
        """`` where tokens != PADDING``: which values are added to data's places; None where a part is left as it is."""
        if store.mask is None:
            return ""
        mask = self._value(store.mask) if store.is_at_positions and store.adds else None
        return None if mask is None else f" where {mask.text}"

    def _is_said(self, store: Store) -> bool:
        """Whether a result's formula came before its turn."""
        return False

    def _is_made(self, word: str, text: str, sign: str = "=", of: Store | None = None) -> None:
        """Is told each result, in order."""

    def _place(self, store: Store) -> str | None:
        """``[index]``: where a value is added that data place; empty where they place none."""
        places = [self._value(place) for place, _ in store.index.values]
        known = [place.text for place in places if place is not None]
        if len(known) < len(places):
            return None
        return f"[{', '.join(known)}]" if known else ""

    def _value(self, position: int) -> Text | None:
        if position in self.stored:
            return Text(self.stored[position])
        group = self.groups.get(position)
        value = self.plan.body[position]
        if position in self.primed:
            return self._with_prime(self.primed[position])
        if group is None and position in self.functions:
            function, x = self.functions[position]
            given_x = self._value(x)
            return None if given_x is None else Text(f"{self._called(function)}({given_x.text})")
        if group is not None:
            node = self.words.nodes[getattr(value, "origin", "")]
            given = group.inputs if op_word(node).word in _OF_TWO else group.inputs[:1]
            inner = [made for one in given if (made := self._value(one)) is not None]
            if len(inner) < len(given):
                return None
            if group.memory:
                return Text(f"{self.names.pointers[group.memory[0]]}[{inner[0].text}]")
            return Text(f"{self._called(op_word(node).word)}({', '.join(made.text for made in inner)})")
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
            case AxisSize():
                return Text("n")
            case IndexExpression():
                return self._position(position)
            case Reduce(op=op):
                arg = self._value(value.arg)
                return None if arg is None else Text(f"{op.value}({arg.text})")
            case Pointwise():
                return self._pointwise(value)
        return None

    def _called(self, function: str) -> str:
        return called(function, self.names)

    def _with_prime(self, derivative: Primed) -> Text | None:
        """``d_out * gelu'(x)``."""
        given, x = self._value(derivative.gradient), self._value(derivative.x)
        if given is None or x is None:
            return None
        return _PRODUCT.apply([given, Text(f"{derivative.function}'({x.text})")])

    def _pointwise(self, value: Pointwise) -> Text | None:
        plain = self._in_plain_math(value)
        if plain is not None:
            return plain
        texts: list[Text] = []
        for (
            argument
        ) in value.args:  # one after the other: below the first that is too long nothing is looked at
            text = self._value(argument)
            if text is None or len(text.text) > self.longest:
                return None
            texts.append(text)
        if value.op is PointwiseOp.CAST:
            rounded = _ROUNDED.get(value.narrow) if value.narrow is not None else None
            return texts[0] if rounded is None else rounded.apply(texts)
        if value.op is PointwiseOp.MUL and value.args[0] == value.args[1]:
            return Operator("{0}**2", Precedence.UNARY, (Precedence.ATOM,)).apply(texts)
        if value.op is PointwiseOp.POW:
            return Operator("{0}**{1}", Precedence.UNARY, (Precedence.ATOM, Precedence.ATOM)).apply(texts)
        if value.op is PointwiseOp.ADD:
            return _SUM.apply(texts)
        if value.op is PointwiseOp.FLOOR_DIV or self._is_floor(value):
            return _QUOTIENT.apply(texts)
        operator = operator_of(value.op, len(texts))
        return (operator.as_math if isinstance(operator, TorchFunction) else operator).apply(texts)

    def _is_floor(self, value: Pointwise) -> bool:
        """Whether a division that rounds to zero is of the user's that round down, of numbers that are not negative."""
        node = self.words.nodes.get(value.origin) if value.op is PointwiseOp.TRUNC_DIV else None
        return node is not None and (
            aten_name(node) == "floor_divide" or node.kwargs.get("rounding_mode") == "floor"
        )

    def _in_plain_math(self, value: Pointwise) -> Text | None:
        """What people write otherwise: ``mean(x)``, ``relu(x)``, ``col % half``, ``table[i]``."""
        body = self.plan.body
        if value.op is PointwiseOp.WHERE and (same := plain_choice(value, body)) is not None:
            return self._value(same)
        if value.op is PointwiseOp.WHERE and (pair := wrapped_place(value, body)) is not None:
            sides = [made for one in pair if (made := self._value(one)) is not None]
            return _REMAINDER.apply(sides) if len(sides) == 2 else None
        if value.op is PointwiseOp.SUB and (pair := softmax_gradient(value, body)) is not None:
            p, d = (self._value(one) for one in pair)
            if p is None or d is None:
                return None
            inner = f"{d.within(Precedence.SUM)} - sum({_PRODUCT.apply([d, p]).text})"
            return Text(f"{p.within(Precedence.PRODUCT)} * ({inner})", Precedence.PRODUCT)
        if value.op is PointwiseOp.DIV and (x := variance_of(value, body)) is not None:
            made = self._value(x)
            return None if made is None else Text(f"var({made.text})")
        if value.op is PointwiseOp.DIV and (x := mean_of(value, body)) is not None:
            made = self._value(x)
            return None if made is None else Text(f"mean({made.text})")
        if value.op is PointwiseOp.MINIMUM and (bounds := clamp_of(value, body)) is not None:
            given = [text for one in bounds if (text := self._value(one)) is not None]
            is_said = len(given) == len(bounds)
            return Text(f"clamp({', '.join(text.text for text in given)})") if is_said else None
        if value.op is PointwiseOp.MAXIMUM and (one := rectified(value, body)) is not None:
            made = self._value(one)
            return None if made is None else Text(f"relu({made.text})")
        return None

    def _load(self, position: int, value: Load) -> Text | None:
        if value.mask is not None:
            return None
        word = self.names.pointers[value.buffer]
        if value.index.values:
            places = [self._value(place) for place in places_of(value)]
            known = [place.text for place in places if place is not None]
            return Text(f"{word}[{', '.join(known)}]") if len(known) == len(places) else None
        return Text(self._element(position, word) + self._order(value))

    def _order(self, load: Load) -> str:
        """``.t()``, of what is read with its axes in another order than that of the results, element by element."""
        pointer = next(one for one in self.plan.pointers if one.name == load.buffer)
        if load.buffer in self.axes:
            return self.axes[load.buffer]
        dims, wanted = dims_read(self.plan, pointer), order_read(self.plan, pointer)
        is_moved = dims and wanted != dims and not reduces(self.plan)
        return axis_order_call(dims, wanted) if is_moved else ""

    def _element(self, position: int, word: str) -> str:
        """What is read of a tensor: of one that is read at several places the word for what stands there."""
        buffer = self.plan.body[position].buffer  # type: ignore[union-attr]
        reading = [one for one in self.plan.body if isinstance(one, Load) and one.buffer == buffer]
        is_plain = all(one.mask is None for one in reading)
        return self.names.values.get(position, word) if len(reading) > 1 and is_plain else word

    def _position(self, position: int) -> Text | None:
        """``col``, ``2 * row + 1``: where an element is, in the words of the axes."""
        address = self.plan.addresses[position]
        if address.values:
            return None
        terms = [self._product(product, self.names.axes[axis].index) for axis, product in address.axes]
        terms += [self._product(product) for product in address.offset]
        if len(terms) > 1:
            return _SUM.apply(terms)
        (one,) = terms or (Text("0", Precedence.SUM),)
        return one if one.precedence is Precedence.ATOM else Text(one.text, Precedence.SUM)

    def _product(self, product: Product, *others: str) -> Text:
        factors = [*(self._factor(factor) for factor in product), *others]
        is_word = len(factors) == 1 and not (product and isinstance(product[0], int))
        return Text(" * ".join(factors) or "1", Precedence.ATOM if is_word else Precedence.PRODUCT)

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


_NOUNS = frozenset(
    word
    for table in (PRIMITIVES, REDUCTIONS)
    for op, entry in table.items()
    for word in (entry.noun or op.value,)
)


_ON_THE_WAY = frozenset(
    {Role.VARIANCE, Role.MEAN_SQUARE, Role.SUM_OF_SQUARES, "row_sum", "col_sum", "row_index"}
)


def says_only_the_operation(word: str) -> bool:
    """Whether a value's word is its operation's, with or without that of something beside it: ``weight_product``.

    So is what a statistic is made of: ``rstd = rsqrt(mean(x**2) + eps)``.
    """
    is_noun = word in _NOUNS or word in _ON_THE_WAY
    return is_noun or word.rpartition("_")[2] in ("product", "total", "difference", "ratio", "chosen")


def find_groups(plan: KernelPlan, names: KernelNames, words: BufferNamer) -> dict[int, OperationCall]:
    """For the position of each operation's result that is one torch call: that call."""
    groups: dict[int, OperationCall] = {}
    for origin in dict.fromkeys(getattr(value, "origin", "") for value in plan.body):
        node = words.nodes.get(origin)
        call = CALLS.get(aten_name(node)) if node is not None and node.op == "call_function" else None
        values = values_of(plan, node, names) if node is not None and call is not None else None
        group = call(plan, values) if call is not None and values is not None else None
        if values is not None and group is not None:
            groups[values.result] = group
    return groups


def _batch_norms(plan: KernelPlan, names: KernelNames, words: BufferNamer) -> dict[int, OperationCall]:
    """``batch_norm(x)``, which no torch function is, where the statistics are given, and the weights are met."""
    nodes = (words.nodes.get(origin) for origin in dict.fromkeys(getattr(v, "origin", "") for v in plan.body))
    norms = [node for node in nodes if node is not None and aten_name(node) == "batch_normalized"]
    found = [values for node in norms if (values := values_of(plan, node, names)) is not None]
    whole = (values for values in found if len(values.tensors) == len(values.node.all_input_nodes))
    return {values.result: OperationCall(values.tensors[:1], lambda texts: texts[0].text) for values in whole}
