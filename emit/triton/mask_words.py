"""The words for masks of loads and stores, and which of them read well without one, where they are used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from longhand.emit.text.expression import Text
from longhand.lower.ir import Load, Pointwise, PointwiseOp, Store, Value, arguments
from longhand.schedule.named_plan import KernelNames

_CONJUNCTIONS = frozenset({PointwiseOp.LOGICAL_AND, PointwiseOp.BITWISE_AND})
_NEGATIONS = frozenset({PointwiseOp.LOGICAL_NOT, PointwiseOp.BITWISE_NOT})


class PrintedBody(Protocol):
    """What prints the values of a body in one function."""

    body: tuple[Value, ...]
    names: KernelNames

    def expression(self, position: int, top: bool = True) -> Text:
        """A value as text."""

    def bounds(self, domain: Iterable[str]) -> Text | None:
        """The mask that keeps a value of a domain in range."""

    def varying(self, position: int) -> set[str]:
        """The axes along which an address varies."""


def mask_words(block: PrintedBody, position: int, value: Load | Store) -> list[str]:
    """``first_half_in_range``, by what the condition says; ``reads_x`` where that has no word."""
    whose = block.names.values.get(position, block.names.pointers[value.buffer])
    verb = "reads" if isinstance(value, Load) else "writes"
    condition = block.names.values.get(value.mask) if value.mask is not None else None
    bounds = block.bounds(block.varying(position))
    if bounds is None or condition is None or not condition.startswith("in_"):
        return [f"{verb}_{whose}"]
    return [f"{condition.removeprefix('in_')}_{bounds.text}", f"{verb}_{whose}"]


def reads_well(block: PrintedBody, condition: int, is_bounded: bool) -> bool:
    """Whether a mask is of no more than two names, so that it reads well where it is used: ``in_range & ~is_first``.

    Args:
        block: What prints it.
        condition: What a load or store asks for.
        is_bounded: Whether the mask that keeps lanes in range stands before it.
    """
    both = block.body[condition]
    if is_bounded:
        return _is_name(block, condition) or _is_name_negated(block, condition)
    if isinstance(both, Pointwise) and both.op in _CONJUNCTIONS and not _is_name(block, condition):
        one, other = both.args
        return _is_name(block, one) and (_is_name(block, other) or _is_name_negated(block, other))
    return _is_name(block, condition)


def _is_name(block: PrintedBody, position: int) -> bool:
    return block.expression(position, top=False).text.isidentifier()


def _is_name_negated(block: PrintedBody, position: int) -> bool:
    value = block.body[position]
    is_negation = isinstance(value, Pointwise) and value.op in _NEGATIONS
    return is_negation and not _is_name(block, position) and _is_name(block, arguments(value)[0])
