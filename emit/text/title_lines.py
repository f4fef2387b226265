"""How the first lines of a kernel's file are laid out: what does not fit into one line has a line for each formula.

One result is said first, then ``where`` and what it is made of, in the order of computing, as several results are.
"""

from __future__ import annotations

import dataclasses

from longhand.schedule.names.words import listed

_MOST_NAMED = 4  # results in a first line; of more the first ones are
LONGEST_LINE = 88  # of an equation that another one is put into: it still takes one line
MOST_EQUATIONS = 12


@dataclasses.dataclass(frozen=True)
class Equation:
    """``rstd = rsqrt(variance + eps)``.

    Attributes:
        word: What stands on the left.
        text: What stands on the right.
        is_result: Whether the kernel writes it; else it is on the way to one.
        sign: What stands between: ``+=`` where it is added to what is there.
    """

    word: str
    text: str
    is_result: bool
    sign: str = "="

    def __str__(self) -> str:
        """As it is read."""
        return f"{self.word} {self.sign} {self.text}"


def laid_out(equations: list[Equation], how: str, room: int | None = None) -> str:
    """The title of several formulas, a line for each after the first.

    Args:
        equations: In the order in which they are computed.
        how: ``, row by row``; empty where nothing is to be said.
        room: How long the first line may be; one that would be longer does not say how.
    """
    results = [one for one in equations if one.is_result]
    if len(results) == 1:
        steps = [str(one) for one in equations if not one.is_result]
        how = how if room is None or len(f"{results[0]}{how}, where") <= room else ""
        return "\n".join([f"{results[0]}{how}, where", *steps])
    words = [one.word for one in results]
    shown = (
        listed(words) if len(words) <= _MOST_NAMED else f"{words[0]}, {words[1]} and {len(words) - 2} more"
    )
    return "\n".join([f"{shown}{how}:", *map(str, equations)])
