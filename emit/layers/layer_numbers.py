"""Numbers that the layers of a loop differ in: arguments of their function, told beside the loop, layer by layer.

for block, scale in zip(self.layers, (0.2, 0.5, 0.65), strict=True):
    x = block(x, scale)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from longhand.emit.text.expression import number
from longhand.emit.text.python_code import CallCode, Code, InfixCode, NameCode, SeveralCode, whole_number
from longhand.schedule.named_plan import UnitNames
from longhand.schedule.plan import Launch, UnitPlan

if TYPE_CHECKING:
    from longhand.schedule.named_plan import Loop


@dataclasses.dataclass(frozen=True)
class LayerNumbers:
    """What a layer's function is given of them.

    Attributes:
        words: Its parameters, in order.
        values: For each, what each run of the loop passes.
        at: The parameter that each of the launches passes on, by the launch of the pattern and the scalar's place.
    """

    words: tuple[str, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()
    at: Mapping[tuple[Launch, int], str] = dataclasses.field(default_factory=dict)

    def head(self, target: str, source: str, beside: Mapping[str, str] = MappingProxyType({})) -> str:
        """``for block in self.h:``, with what else each layer is given beside it, then the numbers."""
        targets, sources = [target, *beside, *self.words], [source, *beside.values()]
        sources += [f"({', '.join(map(number, values))})" for values in self.values]
        if len(targets) == 1:
            return f"for {target} in {source}:"
        return f"for {', '.join(targets)} in zip({', '.join(sources)}, strict=True):"


NO_NUMBERS = LayerNumbers()


def name_numbers(loop: Loop, plan: UnitPlan, names: UnitNames, taken: Collection[str]) -> LayerNumbers:
    """The parameters, called as the kernels call what they are passed.

    Args:
        loop: The layers.
        plan: The unit's.
        names: Its words.
        taken: What else is a variable where the layers are called, or in their function.
    """
    words: dict[tuple[float, ...], str] = {}
    at: dict[tuple[Launch, int], str] = {}
    for (place, scalar), values in loop.repeat.numbers.items():
        step = loop.run[place]
        assert isinstance(step, Launch)
        if values not in words:
            position = plan.kernels[step.kernel].scalars[scalar].position
            wanted = names.kernels[step.kernel].scalars[position]
            words[values] = _free(wanted, {*taken, *words.values()})
        at[step, scalar] = words[values]
    return LayerNumbers(tuple(words.values()), tuple(words), at)


def name_numbers_beside(
    loop: Loop, plan: UnitPlan, names: UnitNames, around: Collection[str], inside: Collection[str]
) -> LayerNumbers:
    """The same, where the variables of the two functions are told apart.

    Args:
        loop: The layers.
        plan: The unit's.
        names: Its words.
        around: Variables where the layers are called.
        inside: Those of their function.
    """
    return name_numbers(loop, plan, names, {*around, *inside})


def _free(word: str, taken: Collection[str]) -> str:
    """The word, or what it is in this layer, or with a number."""
    candidates = [word, f"layer_{word}", *(f"{word}_{count}" for count in range(2, len(taken) + 3))]
    return next(one for one in candidates if one not in taken)


def is_one_of(word: str, positions: Sequence[int], is_so: bool = True) -> Code:
    """``self.layer == 3``, ``self.layer in (1, 4)``, ``self.layer in range(4, 9)``; or that it is not."""
    first, last = positions[0], positions[-1]
    layer = NameCode(f"self.{word}")
    if first == last:
        return InfixCode(layer, "==" if is_so else "!=", whole_number(first))
    if len(positions) > 2 and list(positions) == list(range(first, last + 1)):
        which: Code = CallCode("range", (whole_number(first), whole_number(last + 1)))
    else:
        which = SeveralCode(tuple(map(whole_number, positions)))
    return InfixCode(layer, "in" if is_so else "not in", which)
