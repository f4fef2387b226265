"""What the function around layers calls what they are given and return: by the words that they have for it inside.

One value has one word on both sides of a call.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from longhand.schedule.layers.model_steps import LayerCall, Loop, LoopKey
from longhand.schedule.names.words import identifier, last_or_place, singular

NameLayer = Callable[[Loop, Mapping[str, str]], Mapping[str, str]]


@dataclasses.dataclass(frozen=True, eq=False)
class LayerResults:
    """The words inside layers, each loop's looked up once.

    Attributes:
        inside: Names what is in a layer, given the variables around it so far.
        kept: Buffers that are read after everything.
    """

    inside: NameLayer | None
    kept: Collection[str]
    _found: dict[LoopKey, Mapping[str, str]] = dataclasses.field(default_factory=dict)

    def of(self, loop: Loop, around: Mapping[str, str]) -> dict[int, str]:
        """By place of a layer's results: what it is inside; what is carried is called as the next layer is given it.

        Nothing of a backward pass, which is named after the forward.
        """
        if self.inside is None or loop.own:
            return {}
        if loop.key not in self._found:
            self._found[loop.key] = self.inside(loop, around)
        names = self._found[loop.key]
        words = {place: names[buffer] for place, buffer in enumerate(loop.outputs)}
        carried = {source: names[buffer] for buffer, source in zip(loop.inputs, loop.carried, strict=False)}
        moved = [word for place, word in words.items() if carried.get(place, word) != word]
        if any(word in moved for word in carried.values()):  # a layer's x is another one behind it
            return {place: word for place, word in words.items() if place not in carried}
        return words | carried

    def of_call(self, call: LayerCall, around: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """By buffer that one layer returns and that is kept: its words; whose it is comes first if several are kept.

        What it hands to the next call has the words of what stands between the calls.
        """
        words, loop = self.of(call.loop, around), call.loop
        every = Counter(
            words[place]
            for outputs in loop.repeat.outputs
            for place, buffer in enumerate(outputs)
            if place in words and buffer in self.kept
        )
        position = loop.positions[call.number]
        named: dict[str, tuple[str, ...]] = {}
        for place, buffer in enumerate(loop.repeat.outputs[call.number]):
            if place in words and buffer in self.kept:
                word, of_one = words[place], f"{_of_list(loop)}_{position}_{words[place]}"
                named[buffer] = (of_one, word) if every[word] > 1 else (word, of_one)
        return named


def words_of_last(word: str, words: Iterator[str]) -> Iterator[str]:
    """What a loop returns of its last layer: by the layer's word, ``layer_x`` where ``x`` is something else."""
    if word:
        yield from (word, f"layer_{word.removeprefix('layer_')}")
    yield from words


def _of_list(loop: Loop) -> str:
    """``block`` of a list of ``blocks``; ``stage_1`` of stages.1, a list in a list."""
    word = last_or_place(loop.owner)
    return f"layer_{word}" if word.isdigit() else singular(identifier(word)) or "layer"
