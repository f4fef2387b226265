"""What a ``where`` chooses, as a thing: ``rotated``, ``wrapped_index``, ``masked_scores``, ``additive_mask``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from longhand.lower.ir import Constant, Extent, Pointwise, PointwiseOp, Position, Scalar, Value, arguments

_HIDES = -1e4  # what is added to a score that shall not count is below


def choice_words(value: Pointwise, body: Sequence[Value], operands: Mapping[int, str]) -> Iterator[str]:
    """Words for a ``where``, best first.

    Args:
        value: The choice.
        body: The kernel's values.
        operands: The words of its arguments that have one, by position.
    """
    condition, chosen, other = value.args
    constants = {at: one.value for at in (chosen, other) if isinstance(one := body[at], Constant)}
    if _wraps(value, body):
        yield f"wrapped_{operands[other]}" if other in operands else "wrapped"
    if len(constants) == 2:
        if value.dtype is not torch.bool and min(constants.values()) < _HIDES:
            yield "additive_mask"
    elif constants:
        (number,) = constants.values()
        kept = other if chosen in constants else chosen
        if number == 0 or number < _HIDES:
            yield f"masked_{operands[kept]}" if kept in operands else "masked"
    elif _is_negated(body[chosen]) != _is_negated(body[other]) and _is_of_places(condition, body):
        yield "rotated"


def _wraps(value: Pointwise, body: Sequence[Value]) -> bool:
    """``where(index < 0, index + size, index)``: an index that may count from the end."""
    condition, chosen, other = (body[at] for at in value.args)
    return (
        isinstance(condition, Pointwise)
        and condition.op is PointwiseOp.LT
        and condition.args[0] == value.args[2]
        and isinstance(chosen, Pointwise)
        and chosen.op is PointwiseOp.ADD
        and value.args[2] in chosen.args
        and not other.dtype.is_floating_point  # type: ignore[union-attr]
    )


def _is_negated(value: Value) -> bool:
    return isinstance(value, Pointwise) and value.op is PointwiseOp.NEG


def _is_of_places(position: int, body: Sequence[Value]) -> bool:
    """Whether a value follows from where an element is, and from no tensor."""
    value = body[position]
    if isinstance(value, Pointwise):
        return all(_is_of_places(argument, body) for argument in arguments(value))
    return isinstance(value, Constant | Scalar | Extent | Position)
