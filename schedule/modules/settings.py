"""Settings: numbers that no tensor tells, which a file names once, at its top: ``EPS = 1e-5``, ``HEAD_DIM = 64``.

A word that stands for one number wherever a file uses it is such a name; one that has several stays with those.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set

from longhand.schedule.layers.model_steps import plain_steps
from longhand.schedule.names.unit_names import UnitNames
from longhand.schedule.plan import Launch, UnitPlan


def constant_name(word: str) -> str:
    """What a word is called where it is a constant of the file: ``HEAD_DIM``."""
    return word.upper()


def numbers_of_kernels(plan: UnitPlan, names: UnitNames) -> dict[str, float]:
    """By word: a number that all kernels with such an argument are given.

    Args:
        plan: Of a pass.
        names: Its words.
    """
    found: dict[str, set[float]] = {}
    for step in (plain for one in names.steps for plain in plain_steps(one)):
        if isinstance(step, Launch):
            words = names.kernels[step.kernel].scalars
            for scalar, value in zip(plan.kernels[step.kernel].scalars, step.scalars, strict=True):
                if isinstance(value, float):
                    found.setdefault(words[scalar.position], set()).add(value)
    taken = {
        *names.buffers.values(),
        *(word for one in names.layers.values() for word in one.variables.values()),
    }
    return {
        word: next(iter(values))
        for word, values in found.items()
        if len(values) == 1 and all(map(math.isfinite, values)) and constant_name(word) not in taken
    }


def sizes_of_file(stated: Iterable[Mapping[str, int | str]], taken: Set[str]) -> dict[str, int]:
    """By word: the one size that functions of a file have for it.

    Args:
        stated: For each function the sizes that no tensor tells; those that its module holds are text.
        taken: Names that no constant may have.
    """
    found: dict[str, set[int | str]] = {}
    for sizes in stated:
        for word, size in sizes.items():
            found.setdefault(str(word), set()).add(size)
    return {
        word: size
        for word, sizes in found.items()
        for size in sizes
        if len(sizes) == 1 and isinstance(size, int) and constant_name(word) not in (word, *taken)
    }
