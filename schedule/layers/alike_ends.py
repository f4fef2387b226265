"""The end of the last layer, made alike: the norm behind a list of layers is the kernel that stands between them.

Between two layers one kernel adds what the one leaves and normalizes the sum for the other, storing both. Behind the
last layer nothing reads the sum, so that fusion stores the normalized values alone: another kernel, and a layer that
is written apart. One more store makes all layers one function, which is given the norm that comes next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.lower.ir import (
    Buffer,
    Index,
    Load,
    Nest,
    Step,
    Store,
    Value,
    arguments,
)
from longhand.schedule.bodies import make_index, rewrite, stores
from longhand.schedule.dependencies import effects
from longhand.schedule.layers.outside import positions_in_lists

_NOT_COMPARED = frozenset({"name", "origin", "buffer", "arg", "args"})


@dataclasses.dataclass(frozen=True)
class AlikeEnds:
    """Steps of which the last layer's end is as those before it.

    Attributes:
        steps: In order.
        spared: What the norm behind the last layer leaves where it lies: the layer behind the others reads it again.
    """

    steps: tuple[Step, ...]
    spared: frozenset[str]


def end_alike(steps: Sequence[Step], buffers: Mapping[str, Buffer], weights: Mapping[str, str]) -> AlikeEnds:
    """The steps; what follows a list of layers also stores what stands between two of them stores.

    Args:
        steps: In order.
        buffers: By name.
        weights: The path of each weight, by buffer.
    """
    made = list(steps)
    spared: set[str] = set()
    read = [[weights[name] for name in effects(step).reads if name in weights] for step in steps]
    stored = frozenset(name for step in steps for name in effects(step).writes)
    for owner, positions in positions_in_lists(path for paths in read for path in paths).items():
        places = _ends(read, owner, positions) if owner and len(positions) > 1 else None
        if places is not None:
            between, end = (made[place] for place in places)
            if isinstance(between, Nest) and isinstance(end, Nest):
                twins = _PartOfNest(between, end, buffers, stored)
                if (whole := twins.with_stores()) is not None:
                    made[places[1]] = whole
                    later = {name for step in steps[places[0] + 1 :] for name in effects(step).reads}
                    spared |= {twins.names[name] for name in effects(between).reads if name in later}
    return AlikeEnds(tuple(made), frozenset(spared))


def _ends(read: Sequence[Sequence[str]], owner: str, positions: Sequence[int]) -> tuple[int, int] | None:
    """(what begins the last layer, what comes behind it), by the weights that steps read; None if that is not told."""
    of_list, of_last = f"{owner}.", f"{owner}.{positions[-1]}."
    in_last = [place for place, paths in enumerate(read) if any(path.startswith(of_last) for path in paths)]
    if not in_last:  # a list of weights, not of layers
        return None
    behind = in_last[-1]
    if all(path.startswith(of_list) for path in read[behind]):
        behind = next((place for place in range(behind + 1, len(read)) if read[place]), behind)
    is_behind = any(not path.startswith(of_list) for path in read[behind])
    return (in_last[0], behind) if is_behind and in_last[0] < behind else None


class _PartOfNest:
    """Two nests of which one may be the other without some of its stores.

    Attributes:
        names: By buffer of the whole: the part's in its place.

    Args:
        whole: What stands between two layers.
        part: What stands behind the last.
        buffers: By name.
        stored: What nests store.
    """

    def __init__(
        self, whole: Nest, part: Nest, buffers: Mapping[str, Buffer], stored: frozenset[str]
    ) -> None:
        self._whole, self._part = whole, part
        self._buffers, self._stored = buffers, stored
        self._axes = {axis.name: other.name for axis, other in zip(whole.axes, part.axes, strict=False)}
        self._places = range(len(whole.body))
        self._values: dict[int, int] = {}
        self.names: dict[str, str] = {}

    def with_stores(self) -> Nest | None:
        """The part with all stores of the whole; None if it is no part of it."""
        axes = [axis.size for axis in self._whole.axes]
        if axes != [axis.size for axis in self._part.axes]:
            return None
        for place, store in stores(self._part):
            if not any(self._is_twin(twin, place) for twin, _ in self._stores_like(store)):
                return None
        if set(self._values.values()) != set(range(len(self._part.body))):
            return None
        extra = [place for place, _ in stores(self._whole) if place not in self._values]
        named = [self._named(self._whole.body[place]) for place in extra]
        if not all(named) or len(set(self.names.values())) != len(self.names):
            return None
        return Nest(self._part.axes, tuple(map(self._moved, range(len(self._whole.body)))))

    def _stores_like(self, store: Store) -> list[tuple[int, Store]]:
        """The stores of the whole that are not another one's twins and store in the same places."""
        return [
            (place, other)
            for place, other in stores(self._whole)
            if place not in self._values and self._of_part(other.index) == store.index
        ]

    def _is_twin(self, place: int, other: int) -> bool:
        """Whether a value of the whole is one of the part; notes what is, only if all of it is."""
        values, names = dict(self._values), dict(self.names)
        if self._match(place, other):
            return True
        self._values, self.names = values, names
        return False

    def _match(self, place: int, other: int) -> bool:
        if place in self._values:
            return self._values[place] == other
        if other in self._values.values():
            return False
        one, two = self._whole.body[place], self._part.body[other]
        if type(one) is not type(two) or self._plain(one) != self._plain(two, is_part=True):
            return False
        if isinstance(one, Load | Store) and isinstance(two, Load | Store):
            alike = self.names.setdefault(one.buffer, two.buffer) == two.buffer
            if not alike or not _are_alike(self._buffers[one.buffer], self._buffers[two.buffer]):
                return False
        self._values[place] = other
        given, taken = arguments(one), arguments(two)
        return len(given) == len(taken) and all(map(self._match, given, taken))

    def _plain(self, value: Value, *, is_part: bool = False) -> tuple[object, ...]:
        """What a value does, without what it is called and which values it does it to."""
        told: list[object] = []
        for field in dataclasses.fields(value):
            part = getattr(value, field.name)
            if field.name in _NOT_COMPARED or (field.name == "value" and isinstance(value, Store)):
                continue
            if isinstance(part, Index):
                index = part if is_part else self._of_part(part)
                part = (index.offset, index.axes, [coefficient for _, coefficient in index.values])
            elif field.name == "axes" and not is_part:
                part = self._axes_of(part)
            elif field.name == "mask":
                part = part is None
            told.append(repr(part))
        return tuple(told)

    def _of_part(self, index: Index) -> Index:
        """An index of the whole with the part's axes."""
        return make_index(index.offset, ((self._axes[axis], c) for axis, c in index.axes), index.values)

    def _named(self, store: Value) -> bool:
        """Finds the part's buffer for a store that it lacks: that of the node which the value is."""
        assert isinstance(store, Store)
        place = self._values.get(store.value)
        name = self._part.body[place].origin if place is not None else ""
        free = name in self._buffers and name not in self._stored
        if not free or not _are_alike(self._buffers[store.buffer], self._buffers[name]):
            return False
        return self.names.setdefault(store.buffer, name) == name

    def _moved(self, place: int) -> Value:
        """A value of the whole as one of the part."""
        value = rewrite(self._whole.body[place], self._places, self._of_part, self._axes_of)
        other = self._values.get(place)
        twin = self._part.body[other] if other is not None else None
        if isinstance(value, Store):
            name = self.names[value.buffer]
            origin = twin.origin if twin is not None else name
            return dataclasses.replace(value, buffer=name, origin=origin)
        assert twin is not None
        if isinstance(value, Load):
            name = self.names[value.buffer]
            return dataclasses.replace(value, buffer=name, name=twin.name, origin=twin.origin)
        return dataclasses.replace(value, name=twin.name, origin=twin.origin)

    def _axes_of(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self._axes.__getitem__, axes))


def _are_alike(one: Buffer, other: Buffer) -> bool:
    """Whether two buffers lie in memory alike."""
    memory = [(buffer.dtype, buffer.shape, buffer.stride) for buffer in (one, other)]
    return memory[0] == memory[1]
