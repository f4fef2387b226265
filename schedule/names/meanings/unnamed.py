"""Words for the values that have no line in a kernel and get one in its reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from longhand.lower.ir import Load
from longhand.schedule.names.meanings.body_values import words_in_formula
from longhand.schedule.names.meanings.conditions import words_of_condition
from longhand.schedule.names.meanings.nameless import one_of
from longhand.schedule.names.meanings.pieces import words_of_rest
from longhand.schedule.names.operation_names import noun_of
from longhand.schedule.plan import KernelPlan


def words_where_unnamed(
    position: int, plan: KernelPlan, word_of: Callable[[int], str | None]
) -> Iterator[str]:
    """What a value is to its formula, what it asks, what it is an element of; at last what its operation makes.

    Args:
        position: The value.
        plan: The kernel.
        word_of: The word of a value that has one; of what is read that of the tensor.
    """
    value = plan.body[position]
    yield from words_in_formula(position, plan)
    yield from words_of_condition(value, plan.body, word_of)
    yield from words_of_rest(position, plan.body)
    if isinstance(value, Load) and (of := word_of(position)):
        yield from dict.fromkeys((one_of(of), f"{of}_i"))
    yield noun_of(value)
