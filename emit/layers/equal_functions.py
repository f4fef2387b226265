"""Whether two functions do the same under other names: what one calls ``d_x`` may be the other's ``d_hidden``."""

from __future__ import annotations

import dataclasses
from typing import Any

from longhand.emit.layers.layer_methods import Method
from longhand.emit.text.python_code import NameCode, PythonStatement


def as_any_names(method: Method) -> object:
    """What a function does, with a number for each of its own names: equal where nothing but these differs."""
    bound = method.bound
    statements = (*bound.told, *bound.padding, *method.statements)
    own = [*method.parameters, *bound.stated, *(word for one in statements for word in one.targets)]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(own))}
    stated = tuple((numbers[word], size) for word, size in bound.stated.items())
    return (
        tuple(numbers[word] for word in method.parameters),
        stated,
        tuple(_numbered(one, numbers) for one in statements),
    )


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
