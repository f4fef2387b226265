"""How the first lines of a kernel's file are laid out: what does not fit into one line has a line for each formula.

One result is said first, then ``where`` and what it is made of. Several stand in the order in which they are computed.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable

from longhand.schedule.names.words import listed

_MOST_NAMED = 4  # results in a first line; of more the first ones are
_INDENT = "    "
LONGEST_LINE = 88  # of an equation that another one is put into: it still takes one line
MOST_EQUATIONS = 9
FACE_WIDTH = 107  # of a Python file's first line, whose quotes stand before it


@dataclasses.dataclass(frozen=True)
class Equation:
    """``rstd = rsqrt(variance + eps)``.

    Attributes:
        word: What stands on the left.
        text: What stands on the right.
        is_result: Whether the kernel writes it; else it is on the way to one.
    """

    word: str
    text: str
    is_result: bool

    def __str__(self) -> str:
        """As it is read."""
        return f"{self.word} = {self.text}"


def laid_out(equations: list[Equation], how: str) -> str:
    """The title of several formulas, a line for each after the first.

    Args:
        equations: In the order in which they are computed.
        how: ``, row by row``; empty where nothing is to be said.
    """
    results = [one for one in equations if one.is_result]
    if len(results) == 1:
        steps = [str(one) for one in reversed(equations) if not one.is_result]
        return "\n".join([f"{results[0]}{how}, where", *steps])
    words = [one.word for one in results]
    shown = (
        listed(words) if len(words) <= _MOST_NAMED else f"{words[0]}, {words[1]} and {len(words) - 2} more"
    )
    return "\n".join([f"{shown}{how}:", *map(str, equations)])


def in_one_line(title: str) -> str:
    """The title for a table: ``norm = weight * x * rstd, where rstd = rsqrt(mean(x**2) + eps)``."""
    first, *equations = title.split("\n")
    said = [] if first.endswith(":") else [first]  # whose results are among the equations
    return f"{' '.join([*said, '; '.join(equations)])}." if equations else first


def head_lines(kernel: str, title: str, width: int, escaped: Callable[[str], str]) -> list[str]:
    """The lines that a file begins with.

    Args:
        kernel: The kernel's name.
        title: What `title_of` made.
        width: Of a line.
        escaped: What makes a text safe inside the comment or the docstring.
    """
    first, *equations = title.split("\n")
    lines = textwrap.wrap(escaped(f"{kernel}: {first}"), width, break_long_words=False)
    for equation in equations:
        lines += textwrap.wrap(
            _INDENT + escaped(equation), width, subsequent_indent=2 * _INDENT, break_long_words=False
        )
    return lines
