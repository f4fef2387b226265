"""What launch() returns after the user's results: the record of all that the backward pass reads of the call.

Each tensor is named where it was made, the layers' records are fields that are lists, and weights stand where the
module has them: ``saved = NetSaved(x=x, hidden=hidden, blocks=saved_blocks)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from longhand.emit.module.layer_columns import column_of
from longhand.emit.text.python_code import CallCode, Code, KeywordCode, NameCode
from longhand.schedule.named_plan import Reached

Source = int | str  # a result of the forward graph by its place, or a placeholder of it


@dataclasses.dataclass(frozen=True)
class SavedOfEach:
    """Records of several layers, or of several calls of a function, where no function makes them.

    Attributes:
        word: The field that is the list of them.
        name: The class of one.
        fields: Its fields.
        sources: For each field: that of all of them, first to last.
    """

    word: str
    name: str
    fields: tuple[str, ...]
    sources: tuple[tuple[Source, ...], ...]


@dataclasses.dataclass(frozen=True)
class SavedOfCall:
    """The record of a call.

    Attributes:
        name: Its class.
        fields: (field, what it is) of single tensors.
        layers: (field, the list that launch() has, or what of it the layers read) for records that layers make.
        of_each: Lists of further records.
        of_calls: (field, variable) of records that calls made.
        made_by_calls: The classes of all records that calls make.
    """

    name: str
    fields: tuple[tuple[str, Source], ...]
    layers: tuple[tuple[str, str], ...]
    of_each: tuple[SavedOfEach, ...]
    of_calls: tuple[tuple[str, str], ...] = ()
    made_by_calls: frozenset[str] = frozenset()

    @property
    def sources(self) -> frozenset[Source]:
        """All that is named in launch() for it."""
        columns = (source for one in self.of_each for column in one.sources for source in column)
        return frozenset((*(source for _, source in self.fields), *columns))


def write_saved(
    saved: SavedOfCall,
    texts: Mapping[Source, str],
    lengths: Mapping[str, int],
    n_modules: Callable[[Reached], int],
) -> Code:
    """The call that makes it.

    Args:
        saved: What it is.
        texts: How launch() reaches what is saved.
        lengths: Of the lists that launch() has.
        n_modules: The number of modules in a list of the model's.
    """
    given = [KeywordCode(word, NameCode(texts[source])) for word, source in saved.fields]
    given += [KeywordCode(word, NameCode(variable)) for word, variable in (*saved.of_calls, *saved.layers)]
    for one in saved.of_each:
        columns: Sequence[KeywordCode] = [
            KeywordCode(field, NameCode(column_of([texts[source] for source in sources], lengths, n_modules)))
            for field, sources in zip(one.fields, one.sources, strict=True)
        ]
        made = CallCode("one_for_each", (NameCode(one.name), *columns))
        given.append(KeywordCode(one.word, made))
    return CallCode(saved.name, tuple(given))
