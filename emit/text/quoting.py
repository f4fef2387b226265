"""Text that strangers wrote, as it may stand in a unit's files: one function for each language, for all of it."""

from __future__ import annotations

import ast
import functools
import re

_LONGEST_QUOTE = (
    200  # of a longer statement a reader of a comment wants to know what it calls, not with all of what
)
_SHORT_QUOTE = 110
_LEFT_OUT = ", ..."
_LAST_BACKSLASH = re.compile(r"\\(?=\s|$)")


def visible(text: str) -> str:
    """One line of text in which every character shows: what is no plain character or space is escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escape(one) for one in text)


def visible_line(text: str) -> str:
    """The same with its tabs: a line of a file, as a terminal may show it without obeying it."""
    return "\t".join(map(visible, text.split("\t")))


@functools.lru_cache(maxsize=4096)
def shortened(statement: str) -> str:
    """A statement as it is quoted: of a very long one, calls without their last arguments, ``F.batch_norm(x, ...)``.

    It names what a person finds in the source; the lock has all of it.
    """
    while len(statement) > _LONGEST_QUOTE and statement.isascii():
        try:
            tree = ast.parse(statement)
        except SyntaxError:  # the head of a compound statement
            break
        calls = (_given(node) for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == 1)
        longest = max(
            (call for call in calls if len(call) > 2), key=lambda call: call[-1] - call[0], default=None
        )
        if longest is None or longest[-1] - longest[0] <= len(_LEFT_OUT) + 1:
            break
        *ends, stop = longest
        told = [end for end in ends[:-1] if len(statement) - (stop - end) + len(_LEFT_OUT) <= _SHORT_QUOTE]
        statement = f"{statement[: (told or ends)[-1 if told else 0]]}{_LEFT_OUT}{statement[stop:]}"
    return statement


def _given(call: ast.Call) -> list[int]:
    """Where the arguments of a call end, and then where the call does, before its bracket."""
    given = [*call.args, *call.keywords]
    return [*sorted(one.end_col_offset or 0 for one in given), (call.end_col_offset or 0) - 1]


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
