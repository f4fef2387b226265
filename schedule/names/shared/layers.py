"""What the layers of a loop share: a function that all of them run calls nothing by the word of one of them.

The backward pass of the last layer begins at the norm behind the layers, that of every other one at its neighbour's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from longhand.schedule.layers.model_steps import Loop
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.words import GradientWord
from longhand.schedule.once import listed_once
from longhand.schedule.plan import buffers_made, flat_steps

_OF_INPUTS = ("output", "other_output")  # in a backward pass
_OF_OUTPUTS = ("input", "other_input")


@dataclasses.dataclass(frozen=True, eq=False)
class AlikeInLayers:
    """The buffers of a loop's pattern, each with what the other layers have in its place.

    Attributes:
        words: The graph's.
        layer: The path of the pattern's layer, with a dot behind it.
        twins: By buffer of the pattern: (buffer, the path of its layer) in every other layer.
        plain: By buffer: the words that it has if the layers share none.
    """

    words: BufferNamer
    layer: str = ""
    twins: Mapping[str, tuple[tuple[str, str], ...]] = dataclasses.field(default_factory=dict)
    plain: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @staticmethod
    def of(loop: Loop, words: BufferNamer) -> AlikeInLayers:
        """Those of a loop; none of one whose runs are not one function."""
        repeat, paths = loop.repeat, [f"{path}." for path in loop.repeat.paths]
        if repeat.kinds or len(repeat.runs) != len(paths):
            return AlikeInLayers(words, paths[loop.pattern])
        made = [[name for step in flat_steps(run) for name in buffers_made(step)] for run in repeat.runs]
        columns = [repeat.inputs, repeat.outputs, repeat.own]
        columns += [tuple(map(tuple, made))] if len({len(names) for names in made}) == 1 else []
        twins: dict[str, tuple[tuple[str, str], ...]] = {}
        for column in columns:
            for place, name in enumerate(column[loop.pattern] if column else ()):
                layers = zip(column, paths, strict=True)
                others = [(run[place], path) for run, path in layers if run[place] != name]
                twins.setdefault(name, tuple(one for one in others if not _is_begin(one[0], loop, words)))
        plain = {name: _gradients(_OF_OUTPUTS) for name in loop.outputs}
        plain |= {name: _gradients(_OF_INPUTS) for name in loop.inputs}
        return AlikeInLayers(words, paths[loop.pattern], twins, plain)

    @listed_once
    def variables(self, buffer: str) -> Iterator[str]:
        """The words for a buffer that every layer has for what stands in its place, best first; never none."""
        own = list(self.words.variables(buffer, self.layer))
        others = [{*self.words.variables(name, layer)} for name, layer in self.twins.get(buffer, ())]
        shared = [word for word in own if all(word in other for other in others)]
        if not shared:
            is_gradient = isinstance(own[0], GradientWord)
            yield from self.plain.get(buffer, ("d_value",)) if is_gradient else ("value",)
        yield from shared

    def is_of_one_before(self, buffer: str) -> bool:
        """Whether a weight is the one of a layer that runs before the one at hand."""
        for name, layer in ((buffer, self.layer), *self.twins.get(buffer, ())):
            owner, _, number = layer.rstrip(".").rpartition(".")
            path = self.words.weights.get(name, "")
            other = path[len(owner) + 1 :].partition(".")[0] if path.startswith(f"{owner}.") else ""
            if other.isdigit() and number.isdigit() and int(other) < int(number):
                return True
        return False

    def has_one_path(self, buffer: str) -> bool:
        """Whether a weight is the same one of every layer."""
        below = {
            path[len(layer) :] if path.startswith(layer) else path
            for name, layer in ((buffer, self.layer), *self.twins.get(buffer, ()))
            if (path := self.words.weights.get(name, ""))
        }
        return len(below) == 1


def _is_begin(buffer: str, loop: Loop, words: BufferNamer) -> bool:
    """Whether a value is what layers begin with, which none makes: in them it is called after what it becomes."""
    is_gradient = isinstance(next(words.candidates(buffer)), GradientWord)
    is_held = buffer in words.weights
    return not (is_gradient or is_held) and not f"{words.module_of(buffer)}.".startswith(f"{loop.owner}.")


def _gradients(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(GradientWord, words))
