"""The record that a shared function makes of what only the backward pass reads, in place of a result for each.

x, saved_layer2_1 = basic_block(self.layer2[1], x)

In training a block keeps its inner values for its derivative. What a caller hands on is returned as it is; all else
that the function keeps goes by its name in the function, which is the same for all blocks.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator

from longhand.schedule.names.words import first_free, further_names, identifier


@dataclasses.dataclass(frozen=True)
class CallRecord:
    """The record of one call.

    Attributes:
        variable: What holds it where the function is called.
        path: The module that the function is called for.
        class_name: Its class.
        fields: Its fields.
        buffers: For each field the buffer that it is in this call.
    """

    variable: str
    path: str
    class_name: str
    fields: tuple[str, ...]
    buffers: tuple[str, ...]


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
    more = (f"{class_name}{'Call' * count}Saved" for count in itertools.count(1))
    return first_free(itertools.chain([f"{class_name}Saved"], told, more), taken)


def variable_of_record(path: str, taken: Collection[str]) -> str:
    """``saved_layer2_1``, of the call for that module."""
    return first_free(_words(identifier(path)), taken)


def _camel(word: str) -> str:
    return "".join(f"{part[:1].upper()}{part[1:]}" for part in word.split("_"))


def _words(word: str) -> Iterator[str]:
    yield from (f"saved_{word}", f"{word}_saved")
    yield from further_names(f"{word}_saved")
