"""A kernel's formula cut into equations, where it is too long for a line.

What has a line of its own in the kernel is an equation of its own: ``masked = scores + where(col <= row, 0.0, -inf)``,
then ``probs = softmax(masked)``. What is put together of pieces is ``cat(x, y)``, of halves ``rotate_half(x)``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from longhand.capture.graph import Role
from longhand.emit.text.axis_orders import slices_taken
from longhand.emit.text.expression import Precedence, Text, call, infix, literal_text
from longhand.emit.text.reference_ops import Join, TorchFunction, find_joins, operator_of
from longhand.emit.text.textbook import (
    FIRST,
    HALF,
    SECOND,
    Said,
    half_read,
    is_part_of_norm,
    plain_choice,
    through_normalized,
    told_apart,
)
from longhand.emit.text.title_lines import LONGEST_LINE, Equation
from longhand.emit.text.value_formula import LONGEST_FORMULA, Formula, says_only_the_operation
from longhand.lower.ir import Load, Pointwise, PointwiseOp, Reduce, Scalar, Store
from longhand.schedule.named_plan import BufferNamer, KernelNames, aten_name
from longhand.schedule.plan import Factor, KernelPlan, ScalarRef, conditions_of, limit_along

_LONGEST_OF_NORM = 150  # of the equation that a norm's derivative is: two lines
_SHORT = 16  # what stays inside an equation, whatever it is called in the kernel
_PRODUCT = infix("*", Precedence.PRODUCT)
Condition = tuple[int, bool]  # a value's position, and whether it is true


def equations_of(plan: KernelPlan, names: KernelNames, words: BufferNamer) -> list[Equation]:
    """All results and what they are made of, in the order of computing; empty where there is no formula for one.

    What has no word of its own (``product``) and is read once stands where it is read, if that is still a line.
    """
    inside: frozenset[int] = frozenset()
    in_steps = _InSteps(plan, names, words, inside)
    if not in_steps.written():
        return []
    refused: set[int] = set()
    # Where a norm's means are given, what is left is short in lines of its own.
    reduces = any(isinstance(value, Reduce) for value in plan.body)
    while waiting := [one for one in in_steps.inlinable() if one not in refused]:
        other = _InSteps(plan, names, words, inside | {waiting[0]})
        most = _LONGEST_OF_NORM if reduces and in_steps.is_part_of_norm(waiting[0]) else LONGEST_LINE
        if other.written() and _longest(other) <= max(most, _longest(in_steps)):
            inside, in_steps = inside | {waiting[0]}, other
        else:
            refused.add(waiting[0])
    return _forward_first(in_steps.equations)


def _forward_first(equations: list[Equation]) -> list[Equation]:
    """What the forward pass computes, then the gradients, each in the order of computing."""
    words = [one.word for one in equations]
    if len({*words}) < len(words):
        return equations
    return sorted(equations, key=lambda one: one.is_of_gradient)


def _longest(formulas: _InSteps) -> int:
    """How long the longest equation is."""
    return max(len(str(one)) for one in formulas.equations)


def _is_whole(store: Store) -> bool:
    """Whether a result is written where the kernel is, and nothing is there before."""
    return store.mask is None and not store.is_at_positions and not store.adds


class _OfPieces(Formula):
    """Says what is put together of pieces: ``cat(x, y)``, and of halves ``rotate_half(x)``."""

    longest = 2 * LONGEST_FORMULA

    def __init__(self, plan: KernelPlan, names: KernelNames, words: BufferNamer) -> None:
        super().__init__(plan, names, words)
        self._steps: dict[int, str] = {}
        self._n_reads: Counter[int] = Counter()
        self._joins, self._pieces = find_joins(plan, names, words)
        # What is so wherever the piece that is written is read.
        self._holding: frozenset[Condition] = frozenset()
        self._said = Said()
        self._is_rotated = False  # in a row whose halves change places: which one is read goes unsaid

    def _joined(self, join: Join) -> Text | None:
        """``cat(x, y)``; ``rotate_half(x)`` where that is what is joined, and ``-rotate_half(x)`` in its gradient."""
        rotated = self._rotated(join.pieces) if len(join.pieces) == 2 else None
        if rotated is not None:
            return rotated
        pieces = [made.text for piece in join.pieces if (made := self._value(piece)) is not None]
        return Text(f"cat({', '.join(pieces)})") if len(pieces) == len(join.pieces) else None

    def _of_pieces(self, position: int) -> Text | None:
        """``cat(2 * x, y)`` for a cat of which `find_joins` knows too little for a reference."""
        pieces = list(self._pieces_below(position))
        if len(pieces) < 2:
            return None
        rotated = self._rotated_pieces(pieces) if len(pieces) == 2 else None
        if rotated is not None:
            return rotated
        texts = [self._while_holding(conditions, piece) for piece, conditions in pieces]
        known = [text for text in texts if text is not None]
        if len(known) < len(texts):
            return None
        node = self.words.nodes[getattr(self.plan.body[position], "origin", "")]
        parts = slices_taken(self.plan, self.names, node, [conditions for _, conditions in pieces[:-1]])
        cut = (f"{one.within(Precedence.ATOM)}{part}" for one, part in zip(known, parts, strict=False))
        return Text(f"cat({', '.join(cut if parts else (one.text for one in known))})")

    def _while_holding(self, conditions: frozenset[Condition], position: int) -> Text | None:
        """A value where it is known what is so."""
        around, self._holding = self._holding, self._holding | conditions
        made = self._value(position)
        self._holding = around
        return made

    def _rotated_pieces(self, pieces: Sequence[tuple[int, frozenset[Condition]]]) -> Text | None:
        """``rotate_half(x)`` for the halves of a formula in the other order, the first one negated."""
        n_reads = self._n_reads.copy()
        (first, of_first), (second, of_second) = pieces
        around, self._holding = self._holding, self._holding | of_first
        while (kept := self._kept(first)) is not None:
            first = kept
        self._holding = around
        value = self.plan.body[first]
        if isinstance(value, Pointwise) and value.op is PointwiseOp.NEG and first not in self._steps:
            one = self._half_of(SECOND, lambda: self._while_holding(of_first, value.args[0]))
            other = self._half_of(FIRST, lambda: self._while_holding(of_second, second))
            if one is not None and one == other:
                self._said.rotates = True
                return Text(f"rotate_half({one})")
        self._n_reads = n_reads
        return None

    def _half_of(self, half: str, make: Callable[[], Text | None]) -> str | None:
        """What a text says of whole rows that reads that half of each and nothing else; None if it is no such text."""
        around = self._said, self._is_rotated
        self._said, self._is_rotated = Said(), True
        made, said = make(), self._said
        self._said, self._is_rotated = around
        is_half = made is not None and said.halves == {half} and not said.names_half
        return made.text if made is not None and is_half else None

    def _pieces_below(self, position: int) -> Iterator[tuple[int, frozenset[Condition]]]:
        """The pieces of a cat, each with what holds where it is picked; nothing where `position` is none."""
        value = self.plan.body[position]
        node = self.words.nodes.get(getattr(value, "origin", ""))
        if node is None or aten_name(node) not in ("cat", "concat"):
            return
        origin, before = getattr(value, "origin", ""), frozenset[Condition]()
        while isinstance(value, Pointwise) and value.op is PointwiseOp.WHERE and value.origin == origin:
            if limit_along(self.plan, value.args[0], PointwiseOp.LT) is None:
                return
            yield value.args[1], before | {(value.args[0], True)}
            before |= {(value.args[0], False)}
            position = value.args[2]
            value = self.plan.body[position]
        if before:
            yield position, before

    def _is_whole_piece(self, load: Load) -> bool:
        """Whether the mask of a load says nothing but that its piece is being read."""
        return load.mask is not None and self._holds(load.mask)

    def _kept(self, position: int) -> int | None:
        """What a ``where`` chooses wherever the piece that is written is read."""
        value = self.plan.body[position]
        is_choice = isinstance(value, Pointwise) and value.op is PointwiseOp.WHERE
        return value.args[1] if is_choice and self._holds(value.args[0]) else None  # type: ignore[union-attr]

    def _holds(self, mask: int) -> bool:
        conditions = set()
        for condition in conditions_of(self.plan, mask):
            value = self.plan.body[condition]
            is_not = isinstance(value, Pointwise) and value.op is PointwiseOp.LOGICAL_NOT
            conditions.add((value.args[0], False) if is_not else (condition, True))  # type: ignore[union-attr]
        return conditions <= self._holding

    def _rotated(self, pieces: Sequence[int]) -> Text | None:
        """The halves of one value in the other order, one of them negated."""
        signs, wholes = [], []
        for place, half in zip(pieces, (SECOND, FIRST), strict=True):
            value = self.plan.body[place]
            is_negated = isinstance(value, Pointwise) and value.op is PointwiseOp.NEG
            inner = value.args[0] if is_negated else place  # type: ignore[union-attr]
            whole = self._half_of(half, functools.partial(super()._value, inner))
            if whole is None:
                return None
            signs.append(is_negated)
            wholes.append(whole)
        if wholes[0] != wholes[1] or signs[0] == signs[1]:
            return None
        self._said.rotates = True
        text = f"rotate_half({wholes[0]})"
        return Text(text) if signs[0] else Text(f"-{text}", Precedence.UNARY)

    def _shown(self, part: str) -> str:
        """The part of a row that is read, where it is said; the halves of a row that changes them are not."""
        if part not in (SECOND, FIRST):
            return part
        self._said.halves.add(part)
        return "" if self._is_rotated else part

    def _factor(self, factor: Factor) -> str:
        text = super()._factor(factor)
        self._said.names_half |= isinstance(factor, ScalarRef) and text == HALF
        return text

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


class _InSteps(_OfPieces):
    """What has a name in the kernel and is more than a few characters is a step.

    Attributes:
        equations: The steps and the results, each after those that it is made of.
    """

    def __init__(
        self, plan: KernelPlan, names: KernelNames, words: BufferNamer, inside: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(plan, names, words)
        self.equations: list[Equation] = []
        self._inside = inside  # what stands where it is read
        stores = [value for value in plan.body if isinstance(value, Store)]
        written = Counter(one.buffer for one in stores)
        # The last of those of one value stands: it is the first that is written.
        self._results = {
            one.value: one if written[one.buffer] == 1 and _is_whole(one) else None for one in stores[::-1]
        }
        self._means = {
            position: pair
            for position, value in enumerate(plan.body)
            if isinstance(value, Pointwise) and (pair := through_normalized(value, plan.body)) is not None
            if pair[1] in names.values or self._results.get(pair[1]) is not None
        }
        self._normalized = {normalized for _, normalized in self._means.values()}
        self._being_said: set[int] = set()  # results

    def inlinable(self) -> list[int]:
        """Steps whose word says no more than their operation, that are read once; the first computed first."""
        return [
            position
            for position, word in self._steps.items()
            if self._n_reads[position] == 1
            and position not in self._normalized
            and (
                says_only_the_operation(word)
                or self.is_part_of_norm(position)
                or word in self.names.pointers.values()
            )
        ]

    def is_part_of_norm(self, position: int) -> bool:
        """Whether a step has no other use than in the line that says a norm's derivative."""
        return is_part_of_norm(self.plan.body[position], self._steps.get(position, ""))

    def _is_made(self, word: str, text: str, sign: str = "=", of: Store | None = None) -> None:
        is_of_gradient = of is not None and of.value in self.gradients
        axes = self.axes.get(of.buffer, "") if of is not None else ""
        self.equations.append(Equation(word, text, True, sign, is_of_gradient, axes))

    def _is_said(self, store: Store) -> bool:
        return self._results.get(store.value) is store and store.value in self.stored

    def _value(self, position: int) -> Text | None:
        if position in self._steps:
            self._n_reads[position] += 1
            return Text(self._steps[position])
        result = self._results.get(position)
        if result is not None and position not in self.stored and position not in self._being_said:
            return self._result_before(position, result)
        kept = self._kept(position)
        if kept is not None:
            return self._value(kept)
        join = self._joins.get(position)
        around, self._said = self._said, Said()
        made = self._joined(join) if join is not None and join.fill is None else self._of_pieces(position)
        if position in self._means:
            made = self._mean_through(self._means[position])
        made = made or super()._value(position)
        if made is not None and isinstance(self.plan.body[position], Scalar):
            self._said.names_half |= made.text == HALF
        said, self._said = self._said, around
        text = self._step_of(position, made, said)
        if text is made:
            self._said.add(said)
        return text

    def _result_before(self, position: int, store: Store) -> Text | None:
        """A result that another one is made of: its formula comes before that one's."""
        self._being_said.add(position)
        made = self._value(position)
        if made is None or len(made.text) > self.longest:
            return None
        word = self._free(self.names.pointers[store.buffer], position)
        self._is_made(word, made.text, of=store)
        self.stored[position] = word
        return Text(word)

    def _free(self, word: str, position: int) -> str:
        """The word, or the kernel's own one for the value where an equation is called so already."""
        is_taken = any(one.word == word for one in self.equations)
        return self.names.values.get(position, word) if is_taken else word

    def _longest_inside(self, word: str) -> int:
        """How long what is called so may be that still stands where it is read."""
        is_said = any(one.word == word for one in self.equations)
        is_taken = is_said or (word in self.names.pointers.values() and word != Role.RSTD)
        return LONGEST_FORMULA // 2 if is_taken else _SHORT

    def _step_of(self, position: int, made: Text | None, said: Said) -> Text | None:
        """The word of a value that is a step from here on; else what was made of it."""
        word = self.names.values.get(position)
        value = self.plan.body[position]
        is_step = isinstance(value, Pointwise | Reduce) and position not in {*self._results, *self._inside}
        if made is None or word is None or not is_step:
            return made
        if len(made.text) <= self._longest_inside(word) and position not in self._normalized:
            return made
        is_short = len(made.text) <= LONGEST_FORMULA // 2
        if said.halves or (said.rotates and is_short and word not in self.names.pointers.values()):
            return made
        if isinstance(value, Pointwise) and plain_choice(value, self.plan.body) is not None:
            return made
        self._steps[position] = word
        self._n_reads[position] += 1
        is_of_gradient = position in self.gradients
        self.equations.append(Equation(word, made.text, False, is_of_gradient=is_of_gradient))
        return Text(word)

    def _mean_through(self, pair: tuple[int, int]) -> Text | None:
        """``mean(d_normalized * normalized)``."""
        factors = [made for one in pair if (made := self._value(one)) is not None]
        return call("mean").apply([_PRODUCT.apply(factors)]) if len(factors) == 2 else None

    def _pointwise(self, value: Pointwise) -> Text | None:
        """What a `where` chooses is said as it is where that is chosen: no mask of a load says it again."""
        plain = self._in_plain_math(value) if value.op is PointwiseOp.WHERE else super()._pointwise(value)
        if plain is not None or value.op is not PointwiseOp.WHERE:
            return plain
        condition, chosen, other = value.args
        told = (
            self._value(condition),
            self._while_holding(frozenset({(condition, True)}), chosen),
            self._while_holding(frozenset({(condition, False)}), other),
        )
        texts = [text for text in told if text is not None]
        if len(texts) < len(told) or any(len(text.text) > self.longest for text in texts):
            return None
        operator = operator_of(value.op, len(texts))
        return (operator.as_math if isinstance(operator, TorchFunction) else operator).apply(texts)

    def _load(self, position: int, value: Load) -> Text | None:
        """An element that is read under a mask: a piece of what is joined, or what a `where` says."""
        plain = super()._load(position, dataclasses.replace(value, mask=None))
        if value.mask is None or plain is None or value.index.values:
            return plain
        if self._is_padding(value):
            around = "" if value.other == 0 else f", {literal_text(value.other)}"
            return Text(f"pad({plain.text}{around})")
        if self._is_whole_piece(value):
            half = half_read(self.plan, self.names, position)
            is_named = not self._is_rotated and self.names.values.get(position, value.name) != value.name
            if half and not is_named:
                return Text(f"{plain.text}{self._shown(half)}")
            return told_apart(self.plan, self.names, position, plain, self._order(value))
        piece = self._pieces.get(position)
        if piece is not None:
            return plain if piece.slice is None else Text(f"{plain.text}{self._shown(f'[{piece.slice}]')}")
        mask = self._value(value.mask)
        read = told_apart(self.plan, self.names, position, plain, self._order(value))
        return None if mask is None else Text(f"where({mask.text}, {read.text}, {literal_text(value.other)})")
