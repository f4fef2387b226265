"""The user's statements as comments: several of one function on a line, long ones on several lines."""

from __future__ import annotations

from collections.abc import Iterator

from longhand.emit.text.quoting import python_comment
from longhand.schedule.named_plan import Quote

_FURTHER_IN = " " * 8


def quote_lines(quotes: tuple[Quote, ...], width: int) -> list[str]:
    """``Attention.forward    q = self.W_q(x); k = self.W_k(x)``: as many statements on a line as fit."""
    lines: list[str] = []
    said, is_over = "", False
    for quote in quotes:
        head = f"{python_comment(quote.qualname)}    "
        text = python_comment(quote.shown)
        is_same = bool(lines) and head == said and not is_over
        if is_same and len(lines[-1]) + 2 + len(text) <= width:
            lines[-1] += f"; {text}"
        else:
            lines.append(f"{head}{text}")
            is_over = text.startswith("return ")  # the user's own statement
        said = head
    return _wrapped(lines, width)


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
