"""The ledger: which kernel was given which words, kept in the lock so that a name once given stays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from longhand.emit.names.unit_names import AxisNames, KernelNames, Quote
from longhand.emit.names.words import KernelScope
from longhand.emit.unit.lock_schema import is_word


@dataclasses.dataclass(frozen=True)
class Ledger:
    """What the last version of a unit called things.

    Attributes:
        kernels: Names by canonical kernel key.
        statements: What its lock says of the user's statements: ``quotes``, and what was ``renamed`` since.
    """

    kernels: Mapping[str, KernelNames] = dataclasses.field(default_factory=dict)
    statements: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, sorted by the kernel's name."""
        entries = sorted(self.kernels.items(), key=lambda entry: entry[1].kernel)
        return {key: _to_json(names) for key, names in entries}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Ledger:
        """What `to_json` wrote; entries that are damaged are left out (their names are then given anew)."""
        kernels = {}
        for key, entry in data.items():
            try:
                kernels[key] = _from_json(entry)
            except (KeyError, TypeError, ValueError, AttributeError):
                continue
        return Ledger(kernels)


_ANYTHING = KernelScope(())


def is_name(word: Any) -> bool:
    """Whether a kernel's file may call something so."""
    return is_word(word) and _ANYTHING.is_free(word)


def _to_json(names: KernelNames) -> dict[str, Any]:
    lists = {"lists": [list(entry) for entry in names.lists.items()]} if names.lists else {}
    constants = {str(position): word for position, word in names.constants.items()}
    return {
        **lists,
        **({"constants": constants} if constants else {}),
        "kernel": names.kernel,
        "title": names.title,
        "quotes": [[quote.qualname, quote.statement] for quote in names.quotes],
        # Lists, for the order: a buffer that the user's code now calls otherwise keeps its word by its place.
        "pointers": [list(entry) for entry in names.pointers.items()],
        "axes": [[axis, words.index, words.size] for axis, words in names.axes.items()],
        "ints": [list(entry) for entry in names.ints.items()],
        "scalars": {str(position): word for position, word in names.scalars.items()},
        "values": {str(position): word for position, word in names.values.items()},
        "notes": list(names.notes),
    }


def _from_json(entry: Mapping[str, Any]) -> KernelNames:
    """The names of a kernel.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: It is not what `_to_json` wrote; what would be printed as a
            name is no name.
    """
    found = KernelNames(
        kernel=str(entry["kernel"]),
        title=str(entry["title"]),
        quotes=tuple(Quote(qualname, statement) for qualname, statement in entry["quotes"]),
        pointers=dict(entry["pointers"]),
        axes={axis: AxisNames(index, size) for axis, index, size in entry["axes"]},
        ints=dict(entry["ints"]),
        scalars={int(position): str(word) for position, word in entry["scalars"].items()},
        values={int(position): str(word) for position, word in entry["values"].items()},
        notes=tuple(entry["notes"]),
        lists=dict(entry.get("lists", ())),
        constants={int(position): str(word) for position, word in entry.get("constants", {}).items()},
    )
    axes = [word for names in found.axes.values() for word in (names.index, names.size)]
    tables = (found.pointers, found.ints, found.scalars, found.values, found.lists)
    words = [found.kernel, *axes, *(word for table in tables for word in table.values())]
    texts = [text for quote in found.quotes for text in (quote.qualname, quote.statement)]
    if not all(map(is_name, words)) or not all(map(is_word, found.constants.values())):
        raise ValueError(f"{found.kernel!r} has words that are no names")
    if not all(isinstance(text, str) for text in (*texts, *found.notes)):
        raise TypeError(f"{found.kernel!r} has texts that are none")
    return found
