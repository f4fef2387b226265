"""The words that the user's own statements have for sizes: ``q.view(batch, seq, self.n_heads, self.head_dim)``."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence

from longhand.emit.names.words import RESERVED_IN_MODULE, identifier
from longhand.lower.ir import Size

_RESHAPES = frozenset({"view", "reshape", "expand"})


def words_of_reshape(statement: str, sizes: Sequence[Size]) -> tuple[str | None, ...]:
    """A word for each size of a reshape; none where the statement does not tell, or tells different ones."""
    found: set[tuple[str | None, ...]] = set()
    for call in _calls(statement, _RESHAPES):
        arguments = list(call.args)
        if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple | ast.List):
            arguments = list(arguments[0].elts)
        if len(arguments) == len(sizes) and all(map(_may_be, arguments, sizes)):
            found.add(tuple(map(_word, arguments)))
    if len(found) != 1:
        return (None,) * len(sizes)
    (words,) = found
    if len(words) > 1 and words[-1] is None and "head" in (words[-2] or ""):
        words = (*words[:-1], "head_dim")  # ``view(batch, seq, n_heads, -1)``
    return words if len(set(words) - {None}) == len(words) - words.count(None) else (None,) * len(sizes)


def word_of_split(statement: str) -> str | None:
    """The word for the size of each part: ``qkv.split(dim, dim=-1)``."""
    words = {_word(call.args[0]) for call in _calls(statement, frozenset({"split"})) if call.args}
    return words.pop() if len(words) == 1 else None


@functools.lru_cache(maxsize=1024)
def _calls(statement: str, methods: frozenset[str]) -> tuple[ast.Call, ...]:
    try:
        tree = ast.parse(statement)
    except SyntaxError:  # the head of a compound statement: ``with x:``
        return ()
    return tuple(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods
    )


def _may_be(argument: ast.expr, size: Size) -> bool:
    """Whether a written size can be this one: a number must be it."""
    value = argument.operand if isinstance(argument, ast.UnaryOp) else argument
    if isinstance(argument, ast.Starred):
        return False
    return isinstance(argument, ast.UnaryOp) or not isinstance(value, ast.Constant) or value.value == size


def _word(argument: ast.expr) -> str | None:
    text = (
        argument.id
        if isinstance(argument, ast.Name)
        else argument.attr if isinstance(argument, ast.Attribute) else None
    )
    word = identifier(text.strip("_")) if text and text.strip("_") else None
    return word if word is not None and word not in RESERVED_IN_MODULE else None
