"""The words of a kernel that is printed half by half: ``first_q`` and ``second_q`` for what a whole row calls ``q``."""

from __future__ import annotations

import dataclasses
from collections import Counter

from longhand.emit.names.unit_names import KernelNames
from longhand.emit.names.words import first_free, further_words
from longhand.lower.ir import Load, arguments
from longhand.schedule.plan import Halves, KernelPlan

_SIDES = ("first", "second")


def as_printed(plan: KernelPlan, names: KernelNames) -> tuple[KernelPlan, KernelNames]:
    """The kernel as its text has it, and the words for that; both as they are where rows are not walked by halves."""
    halves = plan.halves
    if halves is None:
        return plan, names
    scalars = {old: new for new, old in enumerate(halves.sources) if old in names.scalars}
    printed = dataclasses.replace(
        plan,
        axes=(*plan.axes[:-1], dataclasses.replace(plan.axes[-1], end=halves.limit)),
        body=halves.body,
        addresses=halves.addresses,
        scalars=tuple(
            dataclasses.replace(scalar, position=scalars[scalar.position])
            for scalar in plan.scalars
            if scalar.position in scalars
        ),
        padding={},
        numerics=halves.numerics,
        halves=None,
    )
    words = dataclasses.replace(
        names,
        scalars={scalars[old]: word for old, word in names.scalars.items() if old in scalars},
        values=_values(halves, names),
        constants={
            new: names.constants[old] for new, old in enumerate(halves.sources) if old in names.constants
        },
    )
    return printed, words


def _values(halves: Halves, names: KernelNames) -> dict[int, str]:
    """A word for each value that has one in the whole row, and for what both halves are made of."""
    taken = {*names.pointers.values(), *names.ints.values(), *names.scalars.values()} - set(
        names.values.values()
    )
    uses = Counter(argument for value in halves.body for argument in arguments(value))
    found: dict[int, str] = {}
    for position, (source, side) in enumerate(zip(halves.sources, halves.sides, strict=True)):
        value = halves.body[position]
        if source not in names.values and not (isinstance(value, Load) and uses[position] > 1):
            continue
        word = names.pointers[value.buffer] if isinstance(value, Load) else names.values[source]
        wanted = word if side is None else f"{_SIDES[side]}_{word}"
        used = {*taken, *found.values()} - ({word} if isinstance(value, Load) else set())
        found[position] = first_free((wanted, *_more(wanted, used)), used)
    return found


def _more(word: str, used: set[str]) -> list[str]:
    """Further words, should the plain one be taken."""
    words = further_words(word)
    return [next(words) for _ in range(len(used) + 1)]
