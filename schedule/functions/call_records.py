"""The call of a shared function, and the record that it makes of what only the backward pass reads.

x, saved_layer2_1 = basic_block(self.layer2[1], x)

In training a block keeps its inner values for its derivative. What a caller hands on is returned as it is; all else
that the function keeps goes by its name in the function, which is the same for all blocks.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from longhand.schedule.functions.alike_numbers import Number
from longhand.schedule.layers.model_steps import ModelStep
from longhand.schedule.names.module_names import class_of_place, ordinal_classes
from longhand.schedule.names.reached import Reached
from longhand.schedule.names.words import first_free, further_names, identifier, singular
from longhand.schedule.plan import Launch

_SAVED = "saved_"  # how the variable of a record begins


@dataclasses.dataclass(frozen=True)
class CallRecord:
    """The record of one call.

    Attributes:
        variable: What holds it where the function is called.
        path: The module that the function is called for.
        class_name: Its class.
        fields: Its fields.
        buffers: For each field the buffer that it is in this call.
        root: The layer in whose method the function is called, or the module in whose function, which keeps what the
            record holds in its own; empty where it is launch().
        records: (field, the record) of calls inside of the function.
    """

    variable: str
    path: str
    class_name: str
    fields: tuple[str, ...]
    buffers: tuple[str, ...]
    root: str = ""
    records: tuple[tuple[str, CallRecord], ...] = ()

    @property
    def field(self) -> str:
        """What it is called in a record that holds it: ``layer2_1``."""
        return self.variable.removeprefix(_SAVED)

    def reached(self, variable: str) -> dict[str, str]:
        """By buffer: how a function reaches what the record holds that it has in a variable."""
        pairs = zip(self.fields, self.buffers, strict=True)
        own: dict[str, str] = {buffer: Reached.field_of(variable, field) for field, buffer in pairs}
        for field, one in self.records:
            own |= one.reached(Reached.field_of(variable, field))
        return own

    @property
    def all_buffers(self) -> frozenset[str]:
        """What it holds, and what the records in it do."""
        return frozenset(self.buffers).union(*(one.all_buffers for _, one in self.records))


@dataclasses.dataclass(frozen=True)
class SharedCall:
    """Steps that are a call of a function that does the same for others.

    Attributes:
        n_steps: How many they are.
        name: The function.
        path: The module that it is given.
        tensors: The buffers that it is given.
        numbers: (parameter, what it is given for it).
        results: What it makes that is read elsewhere.
        released: What is dropped after it.
        made: All that it makes.
        channels: By parameter: which of the tensors tells its number, by how many channels it has.
        taken_from: The list whose last entry holds the rest of what it is given; empty where there is none.
        first: What it is given before that: a module, and the record that it reads.
        collected: The variable for the gradients of weights that it returns last; empty where there are none.
        emptied: What it drops of that record.
        record: What it keeps for a backward pass; None where that is nothing, or among the results.
        inner: The records of calls inside of it, which are fields of its own.
        is_launch: Whether it launches kernels of one module and does nothing else.
    """

    n_steps: int
    name: str
    path: str
    tensors: tuple[str, ...]
    numbers: tuple[tuple[str, Number], ...]
    results: tuple[str, ...]
    released: tuple[str, ...]
    made: frozenset[str]
    channels: Mapping[str, int] = dataclasses.field(default_factory=dict)
    taken_from: str = ""
    first: tuple[str, ...] = ()
    collected: str = ""
    emptied: tuple[str, ...] = ()
    record: CallRecord | None = None
    inner: tuple[CallRecord, ...] = ()
    is_launch: bool = False

    def last_launch(self, until: Sequence[ModelStep]) -> Launch | None:
        """What it does, if it is launches of one module; else None. `until`: what ends with its last step."""
        inside = until[-self.n_steps :] if self.is_launch else ()
        return next((step for step in reversed(inside) if isinstance(step, Launch)), None)

    @property
    def bound_last(self) -> tuple[str, ...]:
        """The variable of what it returns last, if it does: of gradients, or of a record."""
        recorded = (self.record.variable,) if self.record is not None else ()
        return (self.collected,) if self.collected else recorded


def with_own_records(
    calls: Mapping[int, SharedCall], path: str, taken: Collection[str]
) -> dict[int, SharedCall]:
    """Calls inside the function of a module, whose records have words there that tell nothing of where it stands.

    Args:
        calls: By the place of the first step of each.
        path: The module's.
        taken: Words that they may not have.
    """
    used = {*taken} - {call.record.variable for call in calls.values() if call.record is not None}
    own = dict(calls)
    for place, call in calls.items():
        if call.record is not None:
            word = variable_of_record(call.record.path.removeprefix(f"{path}."), used)
            used.add(word)
            own[place] = dataclasses.replace(call, record=dataclasses.replace(call.record, variable=word))
    return own


def records_inside(calls: Collection[SharedCall], path: str) -> tuple[CallRecord, ...]:
    """The records of calls that are made in the function of a module.

    Args:
        calls: They.
        path: The module's.
    """
    records = (one for call in calls for one in (*call.inner, call.record) if one is not None)
    return tuple(dataclasses.replace(one, root=path) for one in records)


def fields_reached(records: Iterable[CallRecord]) -> dict[str, str]:
    """By buffer: how a function reaches what is in records that calls in it made."""
    return {name: one for record in records for name, one in record.reached(record.variable).items()}


def class_of_record(class_name: str, path: str, taken: Collection[str]) -> str:
    """``BasicBlockSaved``, of what the functions of the user's class keep; ``Layer4BasicBlockSaved`` of another one.

    Args:
        class_name: The user's.
        path: Of the first module that keeps it.
        taken: Words that it may not be.
    """
    owners = [one for one in path.split(".") if not one.isdigit()]
    heads = (identifier("_".join(owners[start:])) for start in range(len(owners) - 1, -1, -1))
    told = (
        f"{head if head.startswith(class_name) else f'{head}{class_name}'}Saved"
        for head in map(_camel, heads)
    )
    placed = [f"{class_of_place(path)}{class_name}Saved"]
    more = (f"{word}{class_name}Saved" for word in ordinal_classes())
    return first_free(itertools.chain([f"{class_name}Saved"], told, placed, more), taken)


def variable_of_record(path: str, taken: Collection[str], beside: Collection[str] = ()) -> str:
    """``saved_layer2_1``, of the call for that module; ``saved_block_0`` of encoder.blocks.0, if that tells which.

    Args:
        path: The module's.
        taken: Words that it may not be.
        beside: The paths of all modules.
    """
    word = _from_its_list(path)
    is_told = not any(_from_its_list(other) == word for other in beside if other != path)
    return first_free(itertools.chain(_words(word) if is_told else (), _words(identifier(path))), taken)


def _from_its_list(path: str) -> str:
    """``stage_1_block_0`` of encoder.stages.1.blocks.0; all of a path that begins with a list, or has none."""
    parts = path.split(".")
    lists = [at for at, after in enumerate(parts[1:]) if after.isdigit() and not parts[at].isdigit()]
    if not lists or parts[0].isdigit():
        return identifier(path)
    following = (*parts[1:], "")
    words = [singular(one) if after.isdigit() else one for one, after in zip(parts, following, strict=True)]
    return identifier("_".join(words[lists[0] :]))


def _camel(word: str) -> str:
    return "".join(f"{part[:1].upper()}{part[1:]}" for part in word.split("_"))


def _words(word: str) -> Iterator[str]:
    yield from (f"{_SAVED}{word}", f"{word}_saved")
    yield from further_names(f"{word}_saved")
