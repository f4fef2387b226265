"""The words of a function that several modules share: those of the user's function, not of the first one's caller.

``key_states = self.k_proj(current_states)`` tells what the projection reads; a local of one module's name loses that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Paragraphs = Sequence[tuple[Sequence[str], Sequence[str]]]  # (quotes, lines)


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
    lines = [*told, *(line for _, own in paragraphs for line in own)]
    found: dict[str, str] = {}
    for word in parameters:
        wanted = _told_by_call(word, module, lines, quotes)
        is_free = wanted not in ("", word, module, *parameters, *found.values())
        if is_free and _may_be_called(word, wanted, lines):
            found[word] = wanted
    return found


def without_owner(path: str, parameters: Sequence[str], lines: Sequence[str]) -> dict[str, str]:
    """Shorter words for variables that begin with the name of the one module that the text was printed for."""
    owner = path.rpartition(".")[2]
    text = "\n".join(lines)
    names = dict.fromkeys(re.findall(rf"\b{re.escape(owner)}_(\w+)\b", text)) if owner.isidentifier() else {}
    return {
        f"{owner}_{rest}": rest
        for rest in names
        if rest.isidentifier() and rest not in parameters and not re.search(rf"(?<!\.)\b{rest}\b", text)
    }


def renamed(words: dict[str, str], text: str) -> str:
    """A text with other words for variables."""
    for old, new in words.items():
        text = re.sub(rf"(?<![.\w]){old}\b(?!=[^=])", new, text)
    return text


def _told_by_call(word: str, module: str, lines: Sequence[str], quotes: str) -> str:
    """The argument of the user's call of the module's part that reads the parameter."""
    for line in lines:
        call = re.search(rf"\({word}, {module}\.([\w.\[\]]+)\.weight\b", line)
        if call is not None:
            part = re.escape(call[1])
            said = re.search(rf"\bself\.{part}\((\w+)\)", quotes)
            return said[1] if said is not None and said[1].isidentifier() else ""
    return ""


def _may_be_called(word: str, wanted: str, lines: Sequence[str]) -> bool:
    """Whether a word means nothing else while a parameter is read."""
    bound = [n for n, line in enumerate(lines) if wanted in _targets(line)]
    read = [n for n, line in enumerate(lines) if re.search(rf"(?<![.\w]){word}\b", _value(line))]
    first = bound[0] if bound else len(lines)
    early = [_value(line) for line in lines[: first + 1]]
    is_unread = not any(re.search(rf"(?<![.\w]){wanted}\b(?!=)", text) for text in early)
    return is_unread and all(n <= first for n in read) and not any(word in _targets(line) for line in lines)


def _targets(line: str) -> list[str]:
    head, equals, _ = line.partition(" = ")
    return head.split(", ") if equals and re.fullmatch(r"[\w, ]+", head) else []


def _value(line: str) -> str:
    return line.partition(" = ")[2] if _targets(line) else line
