"""How much of a module's derivative some steps are, and of whose else: a docstring says no more, and no less.

Steps are told by the operations that they do. An operation of a module that another step does, and these do not, is
missing; one that stands in another module is that one's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

import torch

from longhand.capture.graph import Provenance
from longhand.lower.ir import Extern
from longhand.schedule.functions.long_functions import ModuleDerivative
from longhand.schedule.layers.model_steps import ModelStep, plain_steps
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.operation_names import op_word
from longhand.schedule.plan import Launch, PlanStep, Repeat, UnitStep, flat_steps

_MOST_OTHERS = 2  # classes that are told


@dataclasses.dataclass(frozen=True)
class DonePart:
    """What a function for a part of a derivative does of it.

    Attributes:
        is_whole: Whether nothing of it is done elsewhere.
        is_also_whole: The same of the other module whose derivative it is, too.
        others: The classes of the modules, none of these two and in none of them, of whose derivatives it is a part.
    """

    is_whole: bool
    is_also_whole: bool
    others: tuple[str, ...]

    def with_another(self, other: DonePart) -> DonePart:
        """What is so in two places."""
        return DonePart(
            self.is_whole and other.is_whole,
            self.is_also_whole and other.is_also_whole,
            tuple(dict.fromkeys((*self.others, *other.others)))[:_MOST_OTHERS],
        )


class DoneSteps:
    """What all steps of a pass do of the user's modules.

    Args:
        steps: They.
        words: The captured graph's.
        is_backward: Whether only derivatives count: what a backward pass computes again is nobody's.
    """

    def __init__(
        self, steps: Iterable[ModelStep | UnitStep], words: BufferNamer, *, is_backward: bool
    ) -> None:
        self._words, self._is_backward = words, is_backward
        self._all = self._done(steps)

    def is_whole(self, path: str, steps: Iterable[ModelStep], without: str = "") -> bool:
        """Whether some steps do all that is done of a module, but for one in it."""
        elsewhere = self._all - self._done(steps)
        left_out = (without,) if without else ()
        return not any(self._is_in(name, (path,), left_out) for name in elsewhere)

    def part(self, part: ModuleDerivative, steps: Sequence[ModelStep]) -> DonePart:
        """What some steps do.

        Args:
            part: Whose derivative they are said to be.
            steps: They.
        """
        own = tuple(path for path in (part.path, part.also) if path)
        beyond = [name for name in self._done(steps) if not self._is_in(name, own)] if part.path else []
        places = [self._words.provenance(name) for name in sorted(beyond, key=[*self._words.nodes].index)]
        return DonePart(
            self.is_whole(part.path, steps, part.without),
            not part.also or self.is_whole(part.also, steps),
            tuple(dict.fromkeys(map(_class_around, places)))[:_MOST_OTHERS],
        )

    def _done(self, steps: Iterable[ModelStep | UnitStep]) -> frozenset[str]:
        """The operations of some steps that count."""
        plain = (
            one for step in steps for one in ((step,) if isinstance(step, Repeat) else plain_steps(step))
        )
        return frozenset(name for one in flat_steps(plain) for name in _origins(one) if self._counts(name))

    def _counts(self, name: str) -> bool:
        """Whether an operation does anything: no sum of gradients does, no mask, and no other view of a tensor."""
        node, origin = self._words.nodes.get(name), self._words.provenance(name)
        if node is None or bool(origin.differentiates) != self._is_backward or op_word(node).silent:
            return False
        is_mask = isinstance(value := node.meta.get("val"), torch.Tensor) and value.dtype is torch.bool
        is_sum = bool(origin.differentiates) and not origin.differentiated and op_word(node).word == "add"
        return not is_mask and not is_sum

    def _is_in(self, name: str, paths: Collection[str], left_out: Collection[str] = ()) -> bool:
        """Whether an operation stands in one of some modules, and in none of others."""
        around = {path for path, _ in self._words.provenance(name).around}
        return not around.isdisjoint(paths) and around.isdisjoint(left_out)


def _class_around(place: Provenance) -> str:
    """The class of the user's that an operation stands in; empty where there is none below the model."""
    classes = [kind for path, kind in place.around if path and not hasattr(torch.nn, kind)]
    return classes[-1] if classes else ""


def _origins(step: PlanStep) -> tuple[str, ...]:
    match step:
        case Launch():
            return tuple(name for name in step.origins if name)
        case Extern():
            return (step.origin,) if step.origin else ()
    return ()
