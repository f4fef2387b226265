"""What a captured graph relies on besides its tensors, as a reader of the unit wants it."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["facts_of", "readable"]

# ``L['self'].eps == 1e-05``, ``L['mask'] is None``: values, as Guards.equal words them.
_VALUE = re.compile(r"(?P<path>[LG]\[.+?) (?:==|is) (?P<value>None|True|False|NaN|[-+\d.'\"(].*)$")
_STRING = re.compile(r"""[bru]*(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")  # may be anybody's secret
# What a class keeps for itself: ``_multirecipe.4.first_reduced_axis``; nobody sets it.
_PRIVATE = re.compile(r"(?:^|\.)_(?!_)")


def facts_of(guards: Iterable[str]) -> tuple[str, ...]:
    """``blocks.*.ln_1, blocks.*.ln_2: eps = 1e-05``: the values that the code read from the model and its arguments.

    Takes guards as they read for people. A path's numbers become ``*`` where the value is the same for all of them.
    Strings go untold, and what a class keeps for itself.
    """
    values: dict[tuple[str, str], str] = {}
    for guard in guards:
        match = _VALUE.match(guard)
        if match is None or guard.startswith("G[") or _STRING.search(match["value"]):
            continue
        path = readable(match["path"])
        if not _PRIVATE.search(path):
            values[_split(path)] = match["value"]
    owners: dict[str, dict[str, str]] = {}
    for (owner, name), value in values.items():
        owners.setdefault(owner, {})[name] = value
    by_facts: dict[tuple[tuple[str, str], ...], dict[str, None]] = {}
    starred = _starred(owners)
    for owner, facts in owners.items():
        by_facts.setdefault(tuple(facts.items()), {})[starred.get(owner, owner)] = None
    lines = []
    for pairs, names in by_facts.items():
        told = ", ".join(f"{name} = {value}" for name, value in pairs)
        who = ", ".join(f"`{name}`" for name in names if name)
        lines.append(f"{who}: {told}" if who else told)
    return tuple(lines)


def _split(path: str) -> tuple[str, str]:
    """(owner, what of it): ``ln_1`` and ``normalized_shape[0]`` of ``ln_1.normalized_shape.0``."""
    words = path.split(".")
    n_items = 0
    while n_items < len(words) - 1 and words[-1 - n_items].isdigit():
        n_items += 1
    kept = len(words) - n_items
    items = "".join(f"[{number}]" for number in words[kept:])
    return ".".join(words[: kept - 1]), words[kept - 1] + items


def _starred(owners: dict[str, dict[str, str]]) -> dict[str, str]:
    """For each owner its path with ``*`` for numbers, if all paths of that shape have the same facts."""
    shapes: dict[str, list[str]] = {}
    for owner in owners:
        shapes.setdefault(re.sub(r"(?<=\.)\d+(?=\.|$)", "*", owner), []).append(owner)
    return {
        owner: shape
        for shape, alike in shapes.items()
        if len(alike) > 1 and all(owners[owner] == owners[alike[0]] for owner in alike)
        for owner in alike
    }


def readable(path: str) -> str:
    """``blocks.0.attn.n_heads`` of ``L['self']._modules['blocks']._modules['0']._modules['attn'].n_heads``."""
    path = re.sub(r"\._(?:modules|parameters|buffers)(?=\[)", "", path)
    path = re.sub(r"^L\['self'\]", "", path)
    path = re.sub(r"^[LG]\['(\w+)'\]", r"\1", path)
    return re.sub(r"\['?([^'\]]+)'?\]", r".\1", path).lstrip(".")
