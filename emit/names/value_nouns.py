"""What an operation of a kernel makes, as a thing: ``product``, ``sum``."""

from __future__ import annotations

from longhand.lower.ir import PRIMITIVES, REDUCTIONS, Pointwise, Reduce, Value


def noun_of(value: Value) -> str:
    """What an operation makes, as a thing: ``product``."""
    if isinstance(value, Pointwise):
        return PRIMITIVES[value.op].noun or value.op.value
    if isinstance(value, Reduce):
        return REDUCTIONS[value.op].noun or value.op.value
    return "value"
