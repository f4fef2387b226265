"""Paragraphs of model.py: what runs, under the user's own statements that it came from."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable

from longhand.emit.names import Quote
from longhand.emit.quoting import python_comment

WIDEST = 98
_MOST_QUOTES = 3


@dataclasses.dataclass
class Paragraph:
    """Statements that came from the same words of the user's.

    Attributes:
        quotes: What the user wrote.
        lines: What runs.
    """

    quotes: tuple[Quote, ...]
    lines: list[str]


def fewest(quotes: Iterable[Quote]) -> tuple[Quote, ...]:
    """Each quote once, and not too many."""
    found = tuple(dict.fromkeys(quotes))
    return found if len(found) <= _MOST_QUOTES else (*found[: _MOST_QUOTES - 1], found[-1])


def joined_quotes(paragraphs: list[Paragraph]) -> list[Paragraph]:
    """Neighbouring one-line paragraphs of one function become one, their statements on one line."""
    joined: list[Paragraph] = []
    for paragraph in paragraphs:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.quotes
            and paragraph.quotes
            and len(paragraph.lines) == 1
            and all(
                "kernels." not in line and not line.startswith("#")
                for line in [*last.lines, *paragraph.lines]
            )
            and len({quote.qualname for quote in (*last.quotes, *paragraph.quotes)}) == 1
            and len(quote_lines((*last.quotes, *paragraph.quotes), WIDEST)) == 1
        ):
            last.quotes = tuple(dict.fromkeys((*last.quotes, *paragraph.quotes)))
            last.lines += paragraph.lines
        else:
            joined.append(paragraph)
    return joined


def quote_lines(quotes: tuple[Quote, ...], width: int) -> list[str]:
    """``Attention.forward    q = self.W_q(x); k = self.W_k(x)``: as many statements on a line as fit."""
    lines: list[str] = []
    for quote in quotes:
        head = f"{python_comment(quote.qualname)}    "
        text = python_comment(quote.statement)
        is_over = lines and lines[-1].startswith(f"{head}return ")
        if lines and not is_over and lines[-1].startswith(head) and len(lines[-1]) + 2 + len(text) <= width:
            lines[-1] += f"; {text}"
        else:
            lines.append(f"{head}{text}")
    return _wrapped(lines, width)


def _wrapped(lines: list[str], width: int) -> list[str]:
    """Long statements go on in a second line, further in."""
    return [
        piece
        for line in lines
        for piece in textwrap.wrap(
            line, width, subsequent_indent=" " * 8, drop_whitespace=True, break_long_words=False
        )
    ]
