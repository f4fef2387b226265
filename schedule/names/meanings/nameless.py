"""A value of a kernel that wants a name, and what a rule for names is told of it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping

from longhand.lower.ir import Load, Store, Value, arguments
from longhand.schedule.names.shared.callers import SharedNames
from longhand.schedule.names.words import element_names, plural
from longhand.schedule.plan import KernelPlan

_SINGULAR_ENDINGS = ("ss", "us", "is", "as", "os")  # bias, axis


@dataclasses.dataclass(frozen=True)
class Nameless:
    """A value that wants a name, and what is known around it.

    Attributes:
        position: Where it stands in the body.
        plan: The kernel.
        words: What its callers call alike.
        pointers: The words of the kernel's pointers, by key.
        names: The names that earlier values have, by position.
        loads_have_lines: Whether every load gets a line; else a value is one element of what a tensor's word says.
        local: The user's variable for it; empty where there is none.
    """

    position: int
    plan: KernelPlan
    words: SharedNames
    pointers: Mapping[str, str]
    names: Mapping[int, str]
    loads_have_lines: bool
    local: str = ""

    @property
    def value(self) -> Value:
        """The value itself."""
        return self.plan.body[self.position]

    @property
    def operands(self) -> dict[int, str]:
        """The words of its arguments, by position, of those that have one."""
        return {a: word for a in arguments(self.value) if (word := self.operand(a))}

    @property
    def named(self) -> list[str]:
        """The words of its arguments, in order."""
        return [word for a in arguments(self.value) if (word := self.operand(a))]

    @property
    def stored(self) -> str | None:
        """The word of the result that it is."""
        users = (v for v in self.plan.body if isinstance(v, Store) and v.value == self.position)
        return next((self.pointers[v.buffer] for v in users if v.buffer in self.pointers), None)

    def operand(self, position: int) -> str | None:
        """The word of an argument: its name, or for a load that is written in place its pointer's."""
        value = self.plan.body[position]
        if position in self.names:
            return self.names[position]
        return one_of(self.pointers[value.buffer]) if isinstance(value, Load) else None

    @property
    def place(self) -> str:
        """The word of the module that it belongs to: ``input_layernorm``; empty where there is none."""
        parts = self.words.provenance(getattr(self.value, "origin", "")).module.split(".")
        return next((part for part in reversed(parts) if part and not part.isdigit()), "")

    def once_more(self, word: str) -> Iterator[str]:
        """Words for what would have one that stands for something else: one element of it in C++, else a new one."""
        newer = f"next_{word}" if word.startswith("new_") else f"new_{word}"
        yield from [newer] if self.loads_have_lines else itertools.islice(element_names(word), 5)


NamingRule = Callable[[Nameless], Iterator[str]]


def one_of(word: str) -> str:
    """``scores`` is ``score``; a word that is no plural stays."""
    is_plural = len(word) > 3 and plural(word[:-1]) == word and not word.endswith(_SINGULAR_ENDINGS)
    return word[:-1] if is_plural else word
