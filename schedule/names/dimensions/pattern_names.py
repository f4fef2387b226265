"""The words of a pattern for tensors: ``rearrange(q, "b n (h d) -> b h n d", h=self.heads)``.

A reshape that a pattern makes either takes the groups on its left apart, or puts those on its right together.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence

from longhand.lower.ir import Size
from longhand.schedule.names.words import RESERVED_IN_MODULE, identifier

_FUNCTIONS = frozenset({"rearrange", "repeat", "reduce", "Rearrange", "Reduce"})
_TERM = re.compile(r"\(([^()]*)\)|(\S+)")

Words = tuple[str | None, ...]


def words_of_pattern(statement: str, sizes: Sequence[Size]) -> Words | None:
    """A word for each size of a reshape; None where no pattern tells."""
    candidates = {words for sides in _patterns(statement) for words in sides if len(words) == len(sizes)}
    return candidates.pop() if len(candidates) == 1 else None


@functools.lru_cache(maxsize=1024)
def _patterns(statement: str) -> tuple[tuple[Words, ...], ...]:
    """Of each pattern in a statement: its axes taken apart, and, if these are more, its groups put together."""
    try:
        tree = ast.parse(statement)
    except SyntaxError:
        return ()
    return tuple(
        _sides(call) for call in ast.walk(tree) if isinstance(call, ast.Call) and _is_of_pattern(call)
    )


def _is_of_pattern(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in _FUNCTIONS


def _sides(call: ast.Call) -> tuple[Words, ...]:
    texts = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    text = next((one for one in texts if "->" in one), "")
    left, _, right = text.partition("->")
    if not left or "." in text:  # an ellipsis stands for any number of dimensions
        return ()
    told = {keyword.arg: _word(keyword.value) for keyword in call.keywords}
    apart = [(axis,) for term in _terms(left, told) for axis in term]
    together = _terms(right, told)
    words = (_of_terms(apart), _of_terms(together))
    return words if len(apart) != len(together) else words[:1]


def _terms(side: str, told: dict[str | None, str | None]) -> list[tuple[str | None, ...]]:
    """The axes of each dimension, in words: those of numbers have none."""
    terms = []
    for group, single in _TERM.findall(side):
        names = group.split() if group or not single else [single]
        terms.append(tuple(None if name.isdigit() else told.get(name) or name for name in names))
    return terms


def _of_terms(terms: Sequence[tuple[str | None, ...]]) -> Words:
    """A word for each dimension that is one axis."""
    words = [identifier(term[0]) if len(term) == 1 and term[0] else None for term in terms]
    return tuple(word if word not in RESERVED_IN_MODULE else None for word in words)


def _word(value: ast.expr) -> str | None:
    """``heads`` of ``self.heads``; of a variable that is called as the axis is nothing more."""
    return (
        value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else None
    )
