"""The one scope of a Triton kernel file, in which every name is given once.

naming.py has given words to parameters, axes and values. What printing adds to them (the base that addresses share, a
mask, an accumulator) takes its name from here, so that it can be nobody else's.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from longhand.emit.names.unit_names import KernelNames
from longhand.emit.names.words import RESERVED_IN_KERNEL, Scope
from longhand.emit.text.named_constants import NamedConstant, named_constants
from longhand.schedule.plan import KernelPlan

# Constants that the templates and the printers of kernels write by these names.
CONSTEXPRS = frozenset({"ALIGNMENT", "BLOCK", "COLS", "ELEMENTS", "LOWEST", "ROWS", "SPLITS", "TILE"})
# Reserved, so that no value takes them, because printing asks for them.
_OF_PRINTING = frozenset({"acc", "at", "new_max", "row_start", "running_max", "running_sum"})


class FileScope:
    """Gives out names.

    Args:
        plan: The kernel.
        names: The words that it has already.

    Attributes:
        constants: The numbers that stand under a name at the top of the file, by position in the body.
    """

    def __init__(self, plan: KernelPlan, names: KernelNames) -> None:
        self._scope = Scope((RESERVED_IN_KERNEL - _OF_PRINTING) | CONSTEXPRS)
        self._given: dict[Hashable, str] = {}
        words = frozenset(_words(plan, names))
        self.constants: dict[int, NamedConstant] = named_constants(
            plan.body, words | CONSTEXPRS, names.constants
        )
        for word in (*words, *(constant.name for constant in self.constants.values())):
            self._scope.take(word)

    def name(self, purpose: Hashable, *candidates: str) -> str:
        """The name of something that printing adds: the one it has, or the first candidate that is free.

        Args:
            purpose: What it is for; who asks for the same gets the same. What loops set anew, each for itself, is one
                purpose.
            candidates: Names, best first.
        """
        if purpose not in self._given:
            self._given[purpose] = self._scope.pick(candidates)
        return self._given[purpose]


def _words(plan: KernelPlan, names: KernelNames) -> Iterator[str]:
    """What naming.py has given out, and the tunables."""
    yield names.kernel
    for word in (*names.pointers.values(), *names.lists.values()):
        yield word
        yield f"{word}_ptr"
    for axis in names.axes.values():
        yield axis.index
        yield axis.size
    yield from names.ints.values()
    yield from names.scalars.values()
    yield from names.values.values()
    yield from (tunable.name for tunable in plan.tunables)
