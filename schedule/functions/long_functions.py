"""A function of backward.py that is too long to be read at once, and the parts of it that are functions themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from longhand.schedule.layers.model_steps import ModelStep


@dataclasses.dataclass(frozen=True)
class LongFunction:
    """A function of backward.py.

    Attributes:
        steps: What it does.
        variables: The variable of each buffer, and of each view that has a name.
        path: Of the module whose derivative it is; empty for the model.
        kept: What it hands on, gradients of weights left out.
        gradients: By buffer: the paths of the weights below the module that it returns it for.
        saved: Buffers that are fields of the record.
        weights: Those that are reached by the module: the path of each in the model.
        drops_fields: Whether it drops what the record holds itself; a layer's goes with the record.
        fixed: Places of steps that are no part's: they are given numbers that differ from layer to layer.
        before: The module before its own that it is given, and in whose derivative it ends; empty where there is none.
        of_before: By buffer: what it returns the gradient of a weight of that as: ``previous norm.weight``.
    """

    steps: Sequence[ModelStep]
    variables: Mapping[str, str]
    path: str
    kept: frozenset[str]
    gradients: Mapping[str, tuple[str, ...]]
    saved: frozenset[str]
    weights: Mapping[str, str]
    drops_fields: bool
    fixed: frozenset[int] = frozenset()
    before: str = ""
    of_before: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def fields(self) -> frozenset[str]:
        """What no variable holds."""
        return self.saved | self.weights.keys()


@dataclasses.dataclass(frozen=True)
class ModuleDerivative:
    """A part of such a function that is a function itself.

    Attributes:
        path: The module's.
        root: The module that it is given, and by whose paths it returns gradients: its own, or the one that holds it
            and another whose derivative it is, too.
        also: That other one; empty where there is none.
        without: The module inside whose derivative its caller makes; empty where there is none.
        class_name: Its class.
        start: The first step.
        stop: The one after the last.
        given: What it takes: what it differentiates first, then what else is held.
        results: What it makes that is read elsewhere.
        gradients: The gradients of weights that nothing else reads.
        does: What its calls do, whatever the sizes: equal for modules that may be one function.
        made: All that it makes, and what it takes from lists of the record.
        takes_lists: Whether it does.
        released: What the caller drops after it.
        emptied: What it drops of the record itself.
        parts: What it is divided into.
        is_of_several: Whether others of its function do the same, whatever the sizes.
        is_among_others: Whether parts of other functions do.
        told: What it is given of the record one by one: what is another one's may be called otherwise there.
        waits: Whether its caller may drop what it does of the record, as that of all others that do the same.
    """

    path: str
    root: str
    also: str
    without: str
    class_name: str
    start: int
    stop: int
    given: tuple[str, ...]
    results: tuple[str, ...]
    gradients: tuple[str, ...]
    does: tuple[object, ...]
    made: frozenset[str]
    takes_lists: bool
    released: tuple[str, ...]
    emptied: tuple[str, ...]
    parts: tuple[ModuleDerivative, ...] = ()
    is_of_several: bool = False
    is_among_others: bool = False
    told: tuple[str, ...] = ()
    waits: bool = True

    @property
    def all_parts(self) -> Iterator[ModuleDerivative]:
        """It, and all that it is divided into."""
        yield self
        for part in self.parts:
            yield from part.all_parts
