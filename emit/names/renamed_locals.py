"""Locals that the user renamed: what was named after them keeps its word, and kernels keep their quotes.

The lock of the last version holds every statement of a function that was quoted. Where the function's statements are
the same now up to the names of its variables, its values keep the words they had: only the quotes in model.py change.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from longhand.capture.graph import CapturedGraph, Provenance

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\s+|.")
_SEPARATOR = "    "  # between function and statement in the lock


@dataclasses.dataclass(frozen=True)
class RenamedLocals:
    """What statements and locals were when they were first quoted.

    Attributes:
        statements: By function and statement of today, where they differ: the statement of then.
        locals: By function, the local of then by that of today.
    """

    statements: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    locals: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)

    def statement(self, qualname: str, statement: str) -> str:
        """The statement as it was first quoted."""
        return self.statements.get((qualname, statement), statement)

    def local(self, qualname: str, local: str) -> str:
        """The local as it was first called."""
        return self.locals.get(qualname, {}).get(local, local)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "statements": sorted([name, now, then] for (name, now), then in self.statements.items()),
            "locals": sorted(
                [name, now, then] for name, pairs in self.locals.items() for now, then in pairs.items()
            ),
        }


NOTHING_RENAMED = RenamedLocals()


def find_renamed(lock: Mapping[str, Any], graph: CapturedGraph) -> RenamedLocals:
    """What was renamed since the unit was first generated.

    Args:
        lock: Of the unit's last version.
        graph: What was captured now.
    """
    known: dict[tuple[str, str], str] = {}
    locals_: dict[str, dict[str, str]] = {}
    earlier = lock.get("renamed", {})
    for name, now, then in earlier.get("statements", ()):
        known[name, now] = then
    for name, now, then in earlier.get("locals", ()):
        locals_.setdefault(name, {})[now] = then
    before, today = _of_lock(lock.get("quotes", {})), _of_graph(graph)
    statements: dict[tuple[str, str], str] = {}
    found: dict[str, dict[str, str]] = {}
    for name, lines in today.items():
        old_names = dict(locals_.get(name, {}))
        pairs = _renamed(before.get(name, []), lines)
        then = before[name] if pairs is not None else lines
        if pairs:
            old_names |= {now: old_names.get(old, old) for now, old in pairs.items()}
        words = {token for line in lines for token in _TOKEN.findall(line)}
        old_names = {now: old for now, old in old_names.items() if now in words and old not in words}
        if len(set(old_names.values())) == len(old_names):
            found[name] = old_names
            for now, old in zip(lines, then, strict=True):
                first = known.get((name, old), old)
                if first != now:
                    statements[name, now] = first
    return RenamedLocals(statements, {name: names for name, names in found.items() if names})


def _of_lock(quotes: Mapping[str, str]) -> dict[str, list[str]]:
    """The statements of each function, in the order of their lines."""
    placed: dict[str, list[tuple[int, str]]] = {}
    for quote, place in quotes.items():
        name, _, statement = quote.partition(_SEPARATOR)
        line = place.rpartition(":")[2]
        placed.setdefault(name, []).append((int(line) if line.isdigit() else 0, statement))
    return {name: [statement for _, statement in sorted(found)] for name, found in placed.items()}


def _of_graph(graph: CapturedGraph) -> dict[str, list[str]]:
    quotes: dict[str, str] = {}
    for node in graph.graph.nodes:
        origin: Provenance = node.meta.get("provenance", Provenance())
        if origin.statement and origin.file:
            quotes.setdefault(f"{origin.qualname}{_SEPARATOR}{origin.statement}", f":{origin.line}")
    return _of_lock(quotes)


def _renamed(before: Iterable[str], now: Iterable[str]) -> dict[str, str] | None:
    """The names of then by those of now, if the statements are the same up to the names of variables."""
    old, new = ([_TOKEN.findall(line) for line in lines] for lines in (before, now))
    if [len(line) for line in old] != [len(line) for line in new]:
        return None
    forth: dict[str, str] = {}
    back: dict[str, str] = {}
    for old_line, new_line in zip(old, new, strict=True):
        for place, (one, other) in enumerate(zip(old_line, new_line, strict=True)):
            is_name = other.isidentifier() and one.isidentifier()
            is_attribute = place > 0 and new_line[place - 1] == "."
            if not is_name or is_attribute:
                if one != other:
                    return None
            elif forth.setdefault(other, one) != one or back.setdefault(one, other) != other:
                return None
    return {name: then for name, then in forth.items() if name != then}
