"""Whether two functions do the same under other names: what one calls ``d_x`` may be the other's ``d_hidden``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from longhand.emit.layers.layer_methods import Method
from longhand.emit.text.python_code import NameCode, PythonStatement, SeveralCode

Drops = Mapping[object, tuple[int, ...]]  # by number of a name: behind which statements it is dropped


def as_any_names(method: Method) -> tuple[object, Drops]:
    """What a function does, with a number for each of its own names: equal where nothing but these differs.

    Beside it: where it drops what it made. What of a record is dropped belongs to what it does.
    """
    bound = method.bound
    statements = (*bound.told, *bound.padding, *method.statements)
    own = [*method.parameters, *bound.stated, *(word for one in statements for word in one.targets)]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(own))}
    stated = tuple((numbers[word], size) for word, size in bound.stated.items())
    made = {*own} - {*method.parameters}
    kept: list[PythonStatement] = []
    drops: dict[object, tuple[int, ...]] = {}
    for one in statements:
        names = _dropped(one)
        if not names or not made.issuperset(names):
            kept.append(one)
            continue
        for name in names:
            drops[numbers[name]] = (*drops.get(numbers[name], ()), len(kept))
    does = (
        tuple(numbers[word] for word in method.parameters),
        stated,
        tuple(_numbered(one, numbers) for one in kept),
    )
    return does, drops


def _dropped(statement: PythonStatement) -> list[str]:
    """The names of ``del a, b``; none of any other statement."""
    value = statement.value
    if statement.word != "del" or not isinstance(value, SeveralCode):
        return []
    return [item.name if isinstance(item, NameCode) else "" for item in value.items]


def _numbered(part: Any, numbers: dict[str, int]) -> object:
    if isinstance(part, NameCode):
        root, *rest = _steps(part.name)
        return ("name", numbers.get(root, root), *rest)
    if isinstance(part, PythonStatement):
        targets = tuple(numbers.get(word, word) for word in part.targets)
        return (targets, _numbered(part.value, numbers), part.word, part.unpacks, part.depth)
    if isinstance(part, tuple):
        return tuple(_numbered(one, numbers) for one in part)
    if dataclasses.is_dataclass(part):
        fields = (getattr(part, one.name) for one in dataclasses.fields(part) if one.compare)
        return (type(part), *(_numbered(one, numbers) for one in fields))
    return part


def _steps(name: str) -> list[str]:
    """The variable that an expression begins with, and what is taken of it."""
    ends = [place for sign in ".[" if (place := name.find(sign)) > 0]
    end = min(ends, default=len(name))
    return [name[:end], name[end:]]
