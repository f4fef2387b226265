"""Words for what a module makes: the name under which the user holds it."""

from __future__ import annotations

from collections.abc import Iterator

from longhand.capture.graph import Provenance
from longhand.emit.names.words import identifier


def words_of_module(origin: Provenance) -> Iterator[str]:
    """The name under which the user holds the module whose call this is, if it is a layer of torch.nn's kind.

    Of a layer in a Sequential, the name of that: ``self.shortcut(x)``.
    """
    word = last_word(origin.module)
    path = without_positions(origin.module)
    if path != origin.module and path and is_call_of(origin.statement, path):
        owner = identifier(path.rpartition(".")[2])
        yield owner
        yield f"{owner}{origin.module[len(path) :].replace('.', '_')}"
    if word and (not origin.statement or not origin.qualname or is_call_of(origin.statement, origin.module)):
        yield word


def is_call_of(statement: str, module: str) -> bool:
    """Whether the statement calls the module by its attribute: ``x + self.c_proj(h)`` calls c_proj."""
    last = module.rpartition(".")[2]
    return f".{last}(" in statement


def without_positions(path: str) -> str:
    """The path of the list that a module is in, of the module itself where it is in none."""
    while path.rpartition(".")[2].isdigit():
        path = path.rpartition(".")[0]
    return path


def last_word(path: str) -> str | None:
    """The last word of a path; none for a position in a list."""
    last = path.rpartition(".")[2]
    return identifier(last) if last and not last.isdigit() else None
