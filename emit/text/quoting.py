"""Text that strangers wrote, as it may stand in a unit's files: one function for each language, for all of it."""

from __future__ import annotations

import re

_LAST_BACKSLASH = re.compile(r"\\(?=\s|$)")


def visible(text: str) -> str:
    """One line of text in which every character shows: what is no plain character or space is escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escape(one) for one in text)


def visible_line(text: str) -> str:
    """The same with its tabs: a line of a file, as a terminal may show it without obeying it."""
    return "\t".join(map(visible, text.split("\t")))


def python_string(text: str) -> str:
    """A string literal of Python, on one line."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{visible(quoted)}"'


def python_comment(text: str) -> str:
    """What may stand behind ``# ``."""
    return visible(text)


def python_docstring(text: str) -> str:
    r"""What may stand between triple quotes that are not raw: no ``\U`` of the user's begins an escape there."""
    escaped = visible(text).replace("\\", "\\\\").replace('"""', r"\"\"\"")
    return f'{escaped[:-1]}\\"' if escaped.endswith('"') and not escaped.endswith('\\"') else escaped


def cpp_comment(text: str) -> str:
    """What may stand behind ``// ``, wherever it is wrapped: a backslash that ends a line would go on with the next."""
    text = visible(text).replace("??/", "? ?/").replace("/*", "/ *").replace("*/", "* /")
    return _LAST_BACKSLASH.sub(r"\\x5c", text)


def markdown(text: str) -> str:
    """Plain text between a table's bars, no tag and no link."""
    return re.sub(r"([\\`|<\[])", r"\\\1", visible(text))


def markdown_code(text: str) -> str:
    """What may stand between backticks in a table."""
    return visible(text).replace("`", "'").replace("|", "\\|")


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
