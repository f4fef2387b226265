"""How a variable that is no plain word is reached: ``d_blocks[3][0]``, ``self.blocks[3].ln_1.weight``, step by step."""

from __future__ import annotations

from typing import Self


class Reached(str):
    """The text, with the steps that it is made of, so that nobody has to take it apart.

    Attributes:
        steps: Places in lists as numbers, all else as it is written: ``("self", ".blocks", 3, ".ln_1", ".weight")``.
        is_field: Whether it is a field of a record that a variable holds: ``saved.x``.
    """

    __slots__ = ("is_field", "steps")
    steps: tuple[str | int, ...]
    is_field: bool

    def __new__(cls, *steps: str | int) -> Self:
        made = super().__new__(cls, "".join(f"[{step}]" if isinstance(step, int) else step for step in steps))
        made.steps, made.is_field = steps, False
        return made

    @classmethod
    def field_of(cls, record: str, field: str) -> Self:
        """A field of the record that a variable holds."""
        made = cls(record, f".{field}")
        made.is_field = True
        return made

    @property
    def n_before_a_list(self) -> int:
        """How many steps come before the first place in a list; all, where there is none."""
        return next((n for n, step in enumerate(self.steps) if isinstance(step, int)), len(self.steps))


def first_word(variable: str) -> str:
    """The name that a variable's text begins with: ``saved`` of ``saved.x``."""
    return str(variable.steps[0]) if isinstance(variable, Reached) else variable


def is_plain_variable(variable: str) -> bool:
    """Whether it is a word, or a field of what a word holds that is no module: ``x``, ``saved.x``."""
    if not isinstance(variable, Reached):
        return variable.isidentifier()
    return variable.is_field


def entry_of(variable: str) -> tuple[str, int] | None:
    """(list, place) of a variable that is an entry of a list: ``("qkvs", 3)``."""
    match variable.steps if isinstance(variable, Reached) else ():
        case (str(name), int(place)) if name.isidentifier():
            return name, place
    return None


def list_holding(variable: str) -> str:
    """The list that an entry stands in, whatever is taken of the entry; of anything else the variable itself."""
    if not isinstance(variable, Reached):
        return variable
    return Reached(*variable.steps[: variable.n_before_a_list])
