"""The words inside a kernel for the values of its body that get a line of their own."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping

import torch

from longhand.capture.graph import GradientPart, Role
from longhand.lower.ir import (
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    Scalar,
    Store,
    Value,
    arguments,
)
from longhand.schedule.names.meanings.kernel_values import without_half_clamps
from longhand.schedule.names.meanings.nameless import Nameless, one_of
from longhand.schedule.names.meanings.places import ends_operation, patterns_of_place
from longhand.schedule.names.operation_names import noun_of
from longhand.schedule.names.result_names import STATISTIC_WORDS
from longhand.schedule.names.shared.callers import SharedNames
from longhand.schedule.names.value_rules import words_by_rule
from longhand.schedule.names.words import (
    Scope,
    element_names,
    further_names,
    ordinals,
    without_counter,
)
from longhand.schedule.plan import Access, KernelPlan

_LONGEST = 72  # characters of an expression without a name
_DEEPEST = 4
_LONGEST_SUM = 320  # of terms that have names each, on several lines
_SIDES = frozenset({Role.LEFT, Role.RIGHT})
_OF_DERIVATIVES = frozenset({Role.D_NORMALIZED, Role.THROUGH_MEAN, Role.THROUGH_RSTD, Role.THROUGH_LENGTH})
_INITIALS = 2  # letters: ``x1`` says less of a half than that it is the first


@dataclasses.dataclass(frozen=True)
class ValueNamer:
    """Names the values of one kernel.

    Attributes:
        plan: The kernel.
        words: What its callers call alike.
        pointers: The words of the kernel's pointers, by key.
        scope: Names given out in the kernel so far.
        loads_have_lines: Whether every load gets a line (Triton), or only one that is used twice (C++ reads in place).
        parts: The user's words for parts of tensors that are loaded, by position.
    """

    plan: KernelPlan
    words: SharedNames
    pointers: Mapping[str, str]
    scope: Scope
    loads_have_lines: bool
    parts: Mapping[int, str] = dataclasses.field(default_factory=dict)

    def name_values(self) -> dict[int, str]:
        """The names of the values that get lines of their own, by position."""
        body = self.plan.body
        uses = Counter(argument for value in body for argument in set(arguments(value)))
        locals_of = self._locals()
        names: dict[int, str] = {}
        length: dict[int, int] = {}
        depth: dict[int, int] = {}
        for position, value in enumerate(body):
            if isinstance(value, Store):
                continue
            if self._wants_line(position, value, uses, locals_of):
                names[position] = self._name(position, names, locals_of)
            self._measure(position, value, names, length, depth)
            if position not in names and self._is_too_long(position, value, names, length, depth):
                for argument in self._to_name(value, names, length, depth):
                    names[argument] = self._name(argument, names, locals_of)
                    length[argument], depth[argument] = len(names[argument]), 0
                self._measure(position, value, names, length, depth)
        return dict(sorted(names.items()))

    def _locals(self) -> dict[int, str]:
        """For the value that is an origin's result: the user's local for it."""
        last: dict[str, int] = {}
        for position, value in enumerate(self.plan.body):
            if isinstance(value, Pointwise | Reduce) and value.origin and not self._is_condition(value):
                last[value.origin] = position
        local_of = {}
        for origin, position in last.items():
            where = self.words.provenance(origin)
            local = self.words.summand(origin) if where.part is GradientPart.SUMMAND else where.local
            if local and not self._is_of_another(local, position):
                local_of[position] = local
        return local_of

    def _is_of_another(self, word: str, position: int) -> bool:
        """Whether a word stands for a tensor that a value is not stored to."""
        stored = {v.buffer for v in self.plan.body if isinstance(v, Store) and v.value == position}
        return any(other == word and of not in stored for of, other in self.pointers.items())

    def _is_condition(self, value: Pointwise | Reduce) -> bool:
        """Whether a value only says where an operation's result comes from."""
        node = self.words.nodes.get(value.origin)
        made = node.meta.get("val") if node is not None else None
        return value.dtype is torch.bool and isinstance(made, torch.Tensor) and made.dtype is not torch.bool

    def _wants_line(self, position: int, value: Value, uses: Counter[int], locals_of: dict[int, str]) -> bool:
        body = self.plan.body
        if isinstance(value, Constant | Scalar | AxisSize):
            return False
        if isinstance(value, IndexExpression):
            return uses[position] > 1 and bool(value.index.offset or len(value.index.axes) > 1)
        if isinstance(value, Reduce):
            return True
        if isinstance(value, Load):
            # Two elements of one tensor are told apart by their words.
            is_of_several = self._is_read_elsewhere(value)
            return self.loads_have_lines or uses[position] > 1 or value.mask is not None or is_of_several
        if uses[position] > 1 or self._is_place(position):
            return True
        users = (user for user in body if position in arguments(user))
        only_stored = all(isinstance(user, Store) and user.mask != position for user in users)
        word = locals_of.get(position) or value.name
        # A word that stands for something else already would have to give way to a worse one.
        if only_stored or word is None or self._is_of_another(word, position):
            return False
        return self.scope.is_free(word)

    def _is_place(self, position: int) -> bool:
        """Whether a value says where a tensor is read or written; C++ points at the row there, ahead of its loop."""
        accesses = (value for value in self.plan.body if isinstance(value, Load | Store))
        return any(position == place for value in accesses for place, _ in value.index.values)

    def _measure(
        self,
        position: int,
        value: Value,
        names: Mapping[int, str],
        length: dict[int, int],
        depth: dict[int, int],
    ) -> None:
        """How long and how deep the text of a value is where it is used."""
        if position in names:
            length[position], depth[position] = len(names[position]), 0
            return
        inner = arguments(value)
        depth[position] = 1 + max((depth[argument] for argument in inner), default=-1)
        total = sum(length[argument] for argument in inner)
        match value:
            case Pointwise(op=op):
                is_infix = op in (PointwiseOp.ADD, PointwiseOp.SUB, PointwiseOp.MUL, PointwiseOp.DIV)
                total += 4 if is_infix else len(op.value) + 6 + 2 * len(inner)
            case Load(buffer=buffer):
                total += len(self.pointers.get(buffer, buffer)) + 10
            case Constant(value=number):
                total += len(repr(number)) + 1
            case Scalar(name=name):
                total += len(name or "scalar")
            case _:
                total += 8
        length[position] = total

    def _is_too_long(
        self,
        position: int,
        value: Value,
        names: Mapping[int, str],
        length: Mapping[int, int],
        depth: Mapping[int, int],
    ) -> bool:
        if not isinstance(value, Pointwise) or (
            length[position] <= _LONGEST_SUM and self._adds_names(position, names)
        ):
            return False
        return length[position] > _LONGEST or depth[position] > _DEEPEST

    def _adds_names(self, position: int, names: Mapping[int, str]) -> bool:
        """Whether a value only adds up what has names: nobody has a word for a part of such a sum."""
        value = self.plan.body[position]
        if not isinstance(value, Pointwise) or value.op is not PointwiseOp.ADD:
            return False
        return all(side in names or self._adds_names(side, names) for side in value.args)

    def _to_name(
        self, value: Value, names: Mapping[int, str], length: Mapping[int, int], depth: Mapping[int, int]
    ) -> list[int]:
        """The arguments to put on lines of their own so that the value becomes short: the longest ones."""
        body = self.plan.body
        inner = [
            a
            for a in without_half_clamps(value, body, names)
            if a not in names and isinstance(body[a], Pointwise | Load)
        ]
        if not inner:
            return []
        longest = max(inner, key=lambda a: (depth[a], length[a], a))
        rest = [a for a in inner if a != longest and length[a] > _LONGEST // 2]
        return [*dict.fromkeys(self._end_below(a, value, names, depth) for a in (longest, *rest))]

    def _end_below(
        self, position: int, user: Value, names: Mapping[int, str], depth: Mapping[int, int]
    ) -> int:
        """What an operation is given, in place of a step in the middle of it, whose value nobody has a word for."""
        body, operation = self.plan.body, self._operation(user)
        at = position
        while isinstance(body[at], Pointwise) and self._operation(body[at]) == operation:
            inner = [a for a in arguments(body[at]) if a not in names and isinstance(body[a], Pointwise)]
            if not inner:
                return position
            at = max(inner, key=lambda a: (depth[a], a))
        return at

    def _operation(self, value: Value) -> str:
        """What a value is a step of: the operation that is differentiated, or the one that is done."""
        origin = getattr(value, "origin", "")
        return self.words.provenance(origin).differentiates or origin

    def _name(self, position: int, names: Mapping[int, str], locals_of: Mapping[int, str]) -> str:
        words = self._candidates(position, names, locals_of)
        if isinstance(self.plan.body[position], Load):
            return self.scope.pick(words)
        # A word stands in a kernel for what is stored under it, even where a block has no variable of it yet.
        return self.scope.pick(word for word in words if not self._is_of_another(word, position))

    def _candidates(
        self, position: int, names: Mapping[int, str], locals_of: Mapping[int, str]
    ) -> Iterator[str]:
        value = self.plan.body[position]
        if isinstance(value, Load):
            yield from self._load_words(value, self.parts.get(position))
            return
        local = locals_of.get(position)
        one = Nameless(
            position, self.plan, self.words, self.pointers, names, self.loads_have_lines, local or ""
        )
        stored = one.stored
        if stored and self._is_updated(stored):
            yield f"new_{stored}"
        role = getattr(value, "name", None)
        if role in _OF_DERIVATIVES and not stored:  # the formula's own word: the user has none for what it is
            yield role
        for word in (local, stored):
            if word and not self.loads_have_lines:  # C++: one element of what the word stands for
                yield one_of(word)
            if word:
                yield word
        if role and role != local and not self._is_of_another(role, position):
            yield role
            if role == stored:
                yield from one.once_more(role)
        gradient = self.words.gradient(value.origin) if ends_operation(position, self.plan.body) else None
        is_told = not stored or self.loads_have_lines
        if gradient and is_told and not self._is_of_another(gradient, position):
            yield gradient
        if role and role != local and (role in STATISTIC_WORDS or not self._is_of_another(role, position)):
            yield from (f"{word}_{role}" for word in self._places(value))
        yield from words_by_rule(one)
        if local:
            yield from one.once_more(local)
        origin = getattr(value, "origin", "")
        hint = without_counter(origin).strip("_") if origin else ""
        yield from (f"{word}_{noun_of(value)}" for word in self._places(value))
        word = role if role and not self._is_of_another(role, position) else noun_of(value)
        if hint:
            yield f"{hint}_{word}"
        yield from ordinals(word)

    def _is_updated(self, word: str) -> bool:
        """Whether the kernel reads and writes a tensor: then a value for it is its new one."""
        both = (pointer.name for pointer in self.plan.pointers if pointer.access is Access.READ_WRITE)
        return word in {self.pointers.get(name) for name in both}

    def _places(self, value: Value) -> Iterator[str]:
        """Words that tell which of several modules of a kind a value belongs to: ``shortcut``."""
        parts = self.words.provenance(getattr(value, "origin", "")).module.split(".")
        for part in reversed(parts):
            if part and not part.isdigit():
                yield part

    def _load_words(self, value: Load, part: str | None) -> Iterator[str]:
        pointer = self.pointers.get(value.buffer, without_counter(value.buffer))
        part = None if part in self.pointers.values() else part
        if part and len(part) > _INITIALS:
            yield part if self.loads_have_lines else one_of(part)
        is_side = value.name in _SIDES and not self._is_read_elsewhere(value)
        if value.name and not is_side and (value.index.values or value.mask is not None):
            yield value.name
        if part:
            yield part if self.loads_have_lines else one_of(part)
        is_one = not self.loads_have_lines or self._is_one(value)
        for pattern in patterns_of_place(value, self.plan):
            yield pattern.format(one_of(pointer) if is_one else pointer)
        if is_one:
            yield one_of(pointer)
        yield pointer
        if value.name and pointer.endswith(value.name):
            yield value.name
        local = self.words.provenance(value.origin).local if value.origin else None
        if local and value.index.values:  # what is looked up is what the operation makes
            yield local
        is_only = not (value.index.axes or value.index.values)
        further = further_names(pointer) if self.loads_have_lines else element_names(pointer, is_only=is_only)
        yield from itertools.islice(further, 10)

    def _is_read_elsewhere(self, value: Load) -> bool:
        """Whether the kernel reads the same tensor at another place, too."""
        loads = (other for other in self.plan.body if isinstance(other, Load))
        return any(other.buffer == value.buffer and other.index != value.index for other in loads)

    def _is_one(self, value: Load) -> bool:
        """Whether a program loads one element, not a block of them."""
        return self.plan.schedule.is_row_by_row and not {a.name for a in self.plan.cols} & {
            axis for axis, _ in value.index.axes
        }
