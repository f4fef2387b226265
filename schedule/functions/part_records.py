"""Which record the function for a part of a derivative is given: that of the whole call, or of one block alone.

``basic_block_backward(model.layer2[1], saved.layer2_1, x, d_out)`` reads ``saved.conv1_out``, as it does for any other
block. What it reads of other records, the block's argument say, it is given one by one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from longhand.schedule.functions.derivative_memory import MemoryOfSteps
from longhand.schedule.functions.long_functions import ModuleDerivative
from longhand.schedule.layers.saved_layers import SAVED
from longhand.schedule.names.reached import Reached

_MOST_BESIDE = 5  # tensors that are given one by one
_FEWEST_INSIDE = 2  # of the record


@dataclasses.dataclass(frozen=True)
class FieldsOfPart:
    """What a part reads of what the forward pass kept.

    Attributes:
        record: How its caller reaches the record that it is given.
        inside: What it reads of that.
        beside: What it is given one by one.
        emptied: What it drops of the record itself.
        released: What its caller drops after it.
    """

    record: str
    inside: tuple[str, ...]
    beside: tuple[str, ...]
    emptied: tuple[str, ...]
    released: tuple[str, ...]


def fields_of_part(
    part: ModuleDerivative, fields: list[str], variables: Mapping[str, str], memory: MemoryOfSteps
) -> FieldsOfPart:
    """What it is.

    Args:
        part: It.
        fields: What it reads of all records.
        variables: Of its caller.
        memory: Of the steps around it.
    """
    holders = {name: holder_of(variables[name]) for name in fields}
    plain = tuple(name for name in fields if not holders[name])  # its caller is given it one by one, too
    told = part.told or plain
    others = tuple(name for name in fields if name not in told)
    dropped = tuple(name for name in part.emptied if name not in plain)  # what holds a plain one drops it
    whole = FieldsOfPart(SAVED, others, told, dropped, part.released)
    records = {holder for holder in holders.values() if holder not in ("", SAVED)}
    record = min(records, key=len, default="")
    records -= {holder for holder in records if _is_in(holder, record)}
    if records or not record or part.takes_lists or (part.told and part.is_among_others):
        return whole
    inside = tuple(name for name in fields if _is_in(holders[name], record))
    beside = tuple(name for name in fields if not _is_in(holders[name], record))
    if len(inside) < _FEWEST_INSIDE or len(beside) > _MOST_BESIDE:
        return whole
    # Where the caller drops all of it the function is one for blocks that drop something, and for others.
    below = {name for one in part.all_parts if one is not part for name in one.emptied}
    choices = (
        tuple(name for name in dropped if name in beside or (part.waits and name not in below)),
        tuple(name for name in dropped if name in beside),
    )
    later = next((some for some in choices if memory.may_hold(some, part.start, part.stop)), None)
    if later is None:
        return whole
    memory.hold(later, part.start, part.stop)
    emptied = tuple(name for name in dropped if name not in later)
    return FieldsOfPart(record, inside, beside, emptied, (*part.released, *later))


def as_own(variables: dict[str, str], fields: FieldsOfPart) -> None:
    """Inside the part the record that it is given is ``saved``, whichever it is."""
    for name in fields.inside:
        one = variables[name]
        if isinstance(one, Reached):
            holder = SAVED + holder_of(one).removeprefix(fields.record)
            variables[name] = Reached.field_of(holder, str(one.steps[-1]).removeprefix("."))


def _is_in(holder: str, record: str) -> bool:
    """Whether it is a record, or one that is a field in it."""
    return f"{holder}.".startswith(f"{record}.")


def holder_of(variable: str) -> str:
    """The record that a tensor is a field of: ``saved``, or ``saved.layer2_1``; empty where a variable holds it."""
    return str(variable.steps[0]) if isinstance(variable, Reached) and variable.is_field else ""
