"""How the first lines of a kernel's file are laid out: what does not fit into one line has a line for each formula.

One result is said first, then ``where`` and what it is made of, in the order of computing, as several results are.
"""

from __future__ import annotations

import dataclasses

from longhand.lower.ir import Load, Store
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.names.words import listed
from longhand.schedule.plan import Access, KernelPlan

_MOST_NAMED = 4  # results in a first line; of more, how many there are, or what the kernel is
_MOST_MADE = 8  # of which at least the names are said, where no formula finds room
_MOST_GIVEN = 4  # tensors that something is said to be made from; of more, three and how many others
LONGEST_LINE = 88  # of an equation that another one is put into: it still takes one line
MOST_EQUATIONS = 7
_MOST_LINES = 15  # of a docstring
_WIDTH = 102  # of one of its lines


@dataclasses.dataclass(frozen=True)
class Equation:
    """``rstd = rsqrt(variance + eps)``.

    Attributes:
        word: What stands on the left.
        text: What stands on the right.
        is_result: Whether the kernel writes it; else it is on the way to one.
        sign: What stands between: ``+=`` where it is added to what is there.
        is_of_gradient: Whether a gradient decides it: else it is the forward pass's.
        axes: ``[batch, row]`` behind the word, where the order of axes must be said.
    """

    word: str
    text: str
    is_result: bool
    sign: str = "="
    is_of_gradient: bool = False
    axes: str = ""

    def __str__(self) -> str:
        """As it is read."""
        return f"{self.word}{self.axes} {self.sign} {self.text}"


def laid_out(equations: list[Equation], how: str, room: int | None = None, what: str = "") -> str:
    """The title of several formulas, a line for each after the first.

    Args:
        equations: In the order in which they are computed.
        how: ``, row by row``; empty where nothing is to be said.
        room: How long the first line may be; one that would be longer does not say how.
        what: What the kernel is where gradients decide its results: it says more than that there are very many.
    """
    results = [one for one in equations if one.is_result]
    if len(results) == 1:
        steps = [str(one) for one in equations if not one.is_result]
        how = how if room is None or len(f"{results[0]}{how}, where") <= room else ""
        return "\n".join([f"{results[0]}{how}, where", *steps])
    words = [one.word for one in results]
    is_backward = any(one.is_of_gradient and one.is_result for one in equations)
    if len(words) <= _MOST_NAMED or (room is not None and len(f"{listed(words)}{how}:") <= room):
        shown = listed(words)
    elif what and is_backward:
        shown = what
    else:
        shown = f"{len(words)} results"
    return "\n".join([f"{shown}{how}:", *map(str, equations)])


def are_said(equations: list[Equation], names: KernelNames) -> bool:
    """Whether more formulas than a reader likes to see find room: of many results none would say how one is made."""
    quotes = sum(1 + len(f"{quote.qualname}    {quote.shown}") // _WIDTH for quote in names.quotes)
    lines = sum(1 + len(str(one)) // _WIDTH for one in equations)
    around = 6  # the first line, what is read and written in two, a note, and a line before and behind the statements
    n_results = sum(one.is_result for one in equations)
    return 2 * n_results > len(equations) and lines + quotes + around <= _MOST_LINES


def in_words(plan: KernelPlan, names: KernelNames, what: str = "") -> str:
    """``features from conv2 and residual``, where a formula would be too long to read.

    Args:
        plan: The kernel.
        names: Its words.
        what: What the kernel is in words: said instead of very many results.
    """
    bodies = [value for value in plan.body if isinstance(value, Load | Store)]
    written = dict.fromkeys(names.pointers[v.buffer] for v in bodies if isinstance(v, Store))
    if what and len(written) > _MOST_NAMED:
        return what
    given = _given(plan, names)
    source = f" from {given}" if given else ""
    results = listed(written) if len(written) <= _MOST_MADE else f"{len(written)} results"
    return f"{what}{': ' * bool(what)}{results}{source}"


def _given(plan: KernelPlan, names: KernelNames) -> str:
    """``x, y and z``, ``x, y, z and 4 others``: what a kernel reads, first what it reads the most of."""
    loads = [(position, value) for position, value in enumerate(plan.body) if isinstance(value, Load)]
    loads.sort(key=lambda load: -len(plan.addresses[load[0]].axes))
    read = list(dict.fromkeys(names.pointers[value.buffer] for _, value in loads))
    if len(read) > _MOST_GIVEN:
        others = len(read) - _MOST_GIVEN + 1
        read[_MOST_GIVEN - 1 :] = [f"{others} others"]
    return listed(read)


def update_in_words(plan: KernelPlan, names: KernelNames) -> str:
    """``exp_avg, param and exp_avg_sq from these and grad, for all tensors of the lists``"""
    many = [pointer for pointer in plan.pointers if pointer.many]
    written = [names.pointers[pointer.name] for pointer in many if pointer.access is not Access.READ]
    read = [names.pointers[pointer.name] for pointer in many if pointer.access is Access.READ]
    given = ["these"] if any(pointer.access is Access.READ_WRITE for pointer in many) else []
    source = f" from {listed([*given, *read])}" if [*given, *read] else ""
    return f"{listed(written)}{source}, for all tensors of the lists"
