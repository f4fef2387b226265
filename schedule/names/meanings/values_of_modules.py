"""What a module makes is not called as the module is: ``normed`` and ``o_proj_out``, not ``norm1`` and ``o_proj``.

In a function the module's own name would be read as the module, and a gradient by it as that of its parameters. Where
the user has a local of that name, it is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

from longhand.schedule.names.words import GradientWord, identifier, reworded, snake_case

_NORM = re.compile(r"norm|(^|_)(ln|bn)(_|\d|$)")


def names_of_modules(paths: Iterable[str]) -> frozenset[str]:
    """The names under which modules are held, as words.

    Args:
        paths: Of the modules.
    """
    parts = {part for path in set(paths) for part in path.split(".") if part and not part.isdigit()}
    return frozenset(word for part in parts for word in (identifier(part), snake_case(identifier(part))))


def of_value(word: str, modules: Container[str], own: Container[str]) -> Iterator[str]:
    """The words for what a module makes, where a word is the module's; else the word.

    Args:
        word: Of a value, or of a value's gradient.
        modules: The names of modules.
        own: The user's locals.
    """
    of = word.of if isinstance(word, GradientWord) else word
    if of not in modules or of in own:
        yield word
        return
    if _NORM.search(of):
        yield reworded(word, lambda _: "normed")
    yield reworded(word, lambda name: f"{name}_out")
