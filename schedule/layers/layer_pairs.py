"""Two layers side by side, step by step: whether the buffers of one stand where the other's do."""

from __future__ import annotations

import enum

from longhand.schedule.layers.outside import Outside, made_inside, references
from longhand.schedule.plan import PlanStep


class _BufferOrigin(enum.Enum):
    """Where a buffer comes from that neither layer makes."""

    WEIGHT = enum.auto()
    SAVED = enum.auto()
    OTHER_STEP = enum.auto()


class LayerPair:
    """Two layers side by side, step by step.

    Attributes:
        made: What each of them makes, numbered.
        paths: Their modules, once weights told them.
        own: What each alone reads of what was there before.
        given: What else is not the same for both.
    """

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self.made: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.paths: tuple[str, str] | None = None
        self.own: dict[tuple[str, str], None] = {}
        self.given: dict[tuple[str, str], None] = {}
        self._of: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def add(self, first: PlanStep, second: PlanStep) -> bool:
        """Takes two steps as equal; False if their buffers do not correspond, and then nothing is taken."""
        made = _with_made(self.made[0], first), _with_made(self.made[1], second)
        new: dict[str, str] = {}
        paths = self.paths
        own: list[tuple[str, str]] = []
        given: list[tuple[str, str]] = []
        for pair in zip(references(first), references(second), strict=True):
            name, other = pair
            if name in made[0] or other in made[1]:
                if made[0].get(name) != made[1].get(other):
                    return False
                continue
            if self._of.get(name, other) != other or self._back.get(other, name) != name:
                return False
            if new.setdefault(name, other) != other:
                return False
            if name == other:
                continue
            origin = self._origin(name)
            if origin is not self._origin(other):
                return False
            if origin is _BufferOrigin.WEIGHT:
                module_paths = _module_paths(self._outside.weights[name], self._outside.weights[other])
                if module_paths is None or module_paths != (paths or module_paths):
                    return False
                paths = module_paths
            (given if origin is _BufferOrigin.OTHER_STEP else own).append(pair)
        if len(set(new.values())) < len(new):
            return False
        self.made = made
        self.paths = paths
        self.own.update(dict.fromkeys(own))
        self.given.update(dict.fromkeys(given))
        self._of.update(new)
        self._back.update((other, name) for name, other in new.items())
        return True

    def _origin(self, name: str) -> _BufferOrigin:
        if name in self._outside.weights:
            return _BufferOrigin.WEIGHT
        return _BufferOrigin.SAVED if name in self._outside.given else _BufferOrigin.OTHER_STEP


def _with_made(known: dict[str, int], step: PlanStep) -> dict[str, int]:
    """What a layer makes, numbered, with what one more step makes."""
    new = [name for name in made_inside((step,)) if name not in known]
    return {**known, **{name: len(known) + n for n, name in enumerate(new)}} if new else known


def _module_paths(path: str, other: str) -> tuple[str, str] | None:
    """Both paths up to the one component, a number, in which they differ; None if they differ otherwise."""
    one, two = path.split("."), other.split(".")
    places = [n for n, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]]
    if len(one) != len(two) or len(places) != 1:
        return None
    end = places[0] + 1
    if not (one[end - 1].isdigit() and two[end - 1].isdigit()):
        return None
    return ".".join(one[:end]), ".".join(two[:end])
