"""The words of a function that several modules share: those of the user's function, not of the first one's caller.

``key_states = self.k_proj(current_states)`` tells what the projection reads; a local of one module's name loses that.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from longhand.emit.layers.alike_texts import edited
from longhand.schedule.names.words import OWN_WORDS, RESERVED_IN_MODULE, is_identifier

Paragraphs = Sequence[tuple[Sequence[str], Sequence[str]]]  # (quotes, lines)
_REMARK = "# "


class _Text:
    """Where the lines of a function name what."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.tree = ast.parse("\n".join(lines))
        self.names = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name)]

    def read(self, word: str) -> list[int]:
        """The rows in which a variable is read."""
        return [node.lineno for node in self.names if node.id == word and not isinstance(node.ctx, ast.Store)]

    def bound(self, word: str) -> list[int]:
        """The rows in which it is bound."""
        return [node.lineno for node in self.names if node.id == word and isinstance(node.ctx, ast.Store)]

    def may_be_called(self, word: str, wanted: str) -> bool:
        """Whether another word means nothing else while a parameter is read."""
        first = min(self.bound(wanted), default=len(self.names) + 1)
        is_unread = all(row > first for row in self.read(wanted))
        return is_unread and all(row <= first for row in self.read(word)) and not self.bound(word)


def users_words(
    parameters: Sequence[str], module: str, told: Sequence[str], paragraphs: Paragraphs
) -> dict[str, str]:
    """What the user's statements call parameters, where that can stand for them in the whole function.

    Args:
        parameters: Their words so far.
        module: What the function calls the module that it is given.
        told: Lines that bind sizes.
        paragraphs: Of the function.
    """
    quotes = " ".join(text.strip() for quoted, _ in paragraphs for text in quoted)
    text = _Text([*told, *(line for _, own in paragraphs for line in own)])
    found: dict[str, str] = {}
    for word in parameters:
        wanted = _told_by_call(word, module, text, quotes)
        is_free = wanted not in ("", word, module, *parameters, *found.values())
        if is_free and text.may_be_called(word, wanted):
            found[word] = wanted
    return found


def without_owner(path: str, lines: Sequence[str]) -> dict[str, str]:
    """Shorter words for variables that begin with the name of the one module that the text was printed for."""
    head = f"{path.rpartition('.')[2]}_"
    names = dict.fromkeys(node.id for node in _Text(lines).names)
    short = {name: name.removeprefix(head) for name in names if name.startswith(head)}
    taken = names.keys() | OWN_WORDS | RESERVED_IN_MODULE
    return {name: word for name, word in short.items() if is_identifier(word) and word not in taken}


def renamed(words: Mapping[str, str], lines: Sequence[str]) -> list[str]:
    """Lines with other words for variables, in their remarks, too."""
    named = [(node, words[node.id], "") for node in _Text(lines).names if node.id in words]
    found = []
    for line in edited(lines, named):
        code, mark, remark = line.partition(_REMARK)
        told = " ".join(words.get(one, one) for one in remark.split(" "))
        found.append(f"{code}{mark}{told}")
    return found


def _told_by_call(word: str, module: str, text: _Text, quotes: str) -> str:
    """The argument of the user's call of the module's part that reads the parameter."""
    for node in ast.walk(text.tree):
        match node:
            case ast.Call(args=[ast.Name(id=given), ast.Attribute(value=part, attr="weight"), *_]):
                told = ast.unparse(part)
                if given == word and told.startswith(f"{module}."):
                    call = f"self.{told.removeprefix(f'{module}.')}("
                    argument = quotes.partition(call)[2].partition(")")[0]
                    return argument if argument.isidentifier() else ""
    return ""
