"""Text that strangers wrote, as it may stand in a unit's files: one function for each language, for all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the commands that import no torch show text, too
    from longhand.schedule.named_plan import Quote

_FURTHER_IN = " " * 8  # where a long statement goes on
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


def quote_lines(quotes: tuple[Quote, ...], width: int) -> list[str]:
    """``Attention.forward    q = self.W_q(x); k = self.W_k(x)``: as many statements on a line as fit.

    ``again: `` stands before one that a backward pass computes once more, ``again, for `` where that is a part of it,
    and ``for backward.py: `` where a forward pass only makes what its derivative reads.
    """
    lines: list[str] = []
    said, is_over = "", False
    for quote in quotes:
        head = f"{_for_what(quote)}{python_comment(quote.qualname)}    "
        text = python_comment(quote.shown)
        is_same = bool(lines) and head == said and not is_over
        if is_same and len(lines[-1]) + 2 + len(text) <= width:
            lines[-1] += f"; {text}"
        else:
            lines.append(f"{head}{text}")
            is_over = text.startswith("return ")  # the user's own statement
        said = head
    return _wrapped(lines, width)


def most_telling(
    quotes: Sequence[Quote], width: int, n_lines: int, in_backward: bool = False
) -> tuple[Quote, ...]:
    """All of some statements where that many lines hold them, else how each function ends, else that of the result."""
    ends = {one.qualname: one for one in (reversed(quotes) if in_backward else quotes)}
    of_functions = tuple(one for one in quotes if one in ends.values())
    for some in (tuple(quotes), of_functions):
        if len(some) < 2 or len(quote_lines(some, width)) <= n_lines:
            return some
    return tuple(quotes[:1] if in_backward else quotes[-1:])


def _for_what(quote: Quote) -> str:
    if quote.is_again:
        return "again, for " if quote.is_part else "again: "
    return "for backward.py: " if quote.is_ahead else ""


def _wrapped(lines: list[str], width: int) -> list[str]:
    """Long statements go on in a second line, further in."""
    return [piece for line in lines for piece in _pieces(line, width)]


def _pieces(line: str, width: int) -> Iterator[str]:
    """A line in parts, broken between the outermost brackets where that is possible: before ``.transpose(1, 2)``."""
    indent = ""
    while len(indent) + len(line) > width:
        place = _break(line, width - len(indent))
        if place is None:
            break
        yield f"{indent}{line[:place].rstrip()}"
        line, indent = line[place:].lstrip(), _FURTHER_IN
    yield f"{indent}{line}"


def _break(line: str, width: int) -> int | None:
    """Where a line is broken: the last of the least nested places in its second half."""
    depth, best = 0, None
    head, gap, _ = line.partition("    ")
    start = len(f"{head}{gap}") if gap else 0  # behind the function's name
    for place, letter in enumerate(line[: width + 1]):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        is_call = letter == "." and line[place - 1 : place] in (")", "]")
        if place > start and (letter == " " or is_call):
            cost = (place < width // 2, max(depth, 0))
            if best is None or cost <= best[0]:
                best = cost, place
    if best is not None:
        return best[1]
    later = line.find(" ", width)
    return later if later >= 0 else None
