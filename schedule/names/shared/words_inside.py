"""Words for the values of a function that serves places: what each is, not where it is, nor which of one name.

``decoder_mid_block_resnets_1_output_tensor`` is what a caller has for it, and ``second_x`` one that has another x:
inside it is ``output_tensor``, and ``x``, as far as all places call it so and nothing else in the function is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

from longhand.capture.graph import GradientPart
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.shared.callers import ends_in
from longhand.schedule.names.words import GradientWord, is_identifier, is_ordinal, singular, undifferentiated

# What a value is to a function where nothing else is left.
_OF_INPUT = ("x", "input")
_OF_OUTPUT = ("out", "output")


@dataclasses.dataclass(frozen=True)
class Place:
    """A place that a function serves.

    Attributes:
        path: The module there.
        names: By buffer of the first place: the one that stands for it here.
    """

    path: str
    names: Mapping[str, str]

    def at(self, buffer: str) -> str:
        """What stands here for a buffer of the first place."""
        return self.names.get(buffer, buffer)


@dataclasses.dataclass(frozen=True)
class WordsInside:
    """Chooses them.

    Attributes:
        words: The captured graph's.
        places: All that the function serves, the first one first.
        given: What it is given, by the first place's buffers.
        results: What it hands on, likewise.
    """

    words: BufferNamer
    places: Sequence[Place]
    given: Collection[str]
    results: Collection[str]

    def shorter(self, variables: Iterable[tuple[str, str]], taken: Container[str]) -> dict[str, str]:
        """By word that tells a place: the one that the function has instead.

        Args:
            variables: (buffer, word) of each, in the order in which the words are given out.
            taken: What none may be called.
        """
        told: dict[str, list[str]] = {}  # by word: the buffers that it stands for, one after the other
        for buffer, word in variables:
            told.setdefault(word, []).append(buffer)
        used = {*told}
        chosen: dict[str, str] = {}
        for word, buffers in told.items():
            if not any(self._tells_place(buffer, word) for buffer in buffers):
                continue
            new = next(
                (one for one in self._instead(buffers, word) if one not in used and one not in taken), None
            )
            if new is not None and is_identifier(new):
                chosen[word] = new
                used.add(new)
        return chosen

    def _own(self, buffer: str) -> list[str]:
        """The words for a value that say what it is, and not in which of a list's modules; the best one in any case."""
        words, fillers = [*self.words.candidates(buffer)], self.words.fillers(buffer)
        told = dict.fromkeys([words[0], *(word for word in words if word not in fillers)])
        return [word for word in told if not any(_is_placed(word, one) for one in told)]

    def _tells_place(self, buffer: str, word: str) -> bool:
        """Whether a word is the value's own with something before it that is not true of all places."""
        if buffer in self.words.held:
            return False
        own = self._own(buffer)
        is_longer = word not in own and any(ends_in(word, one) for one in own)
        if len(self.places) == 1 and not any(
            one.isdigit() or is_ordinal(one) for one in self._before(word, buffer)
        ):
            return False
        return is_longer and not all(
            self._is_inside(word, place.at(buffer), place.path) for place in self.places
        )

    def _before(self, word: str, buffer: str) -> set[str]:
        """What stands in a word before the value's own."""
        plain = undifferentiated(word)
        own = (undifferentiated(one) for one in self._own(buffer))
        before = [plain.removesuffix(one) for one in own if f"_{plain}".endswith(f"_{one}")]
        return _parts(min(before, key=len, default=plain))

    def _parts_below(self, buffer: str, path: str) -> set[str]:
        """The words for the part of a module that makes a value."""
        module = f"{self.words.module_of(buffer)}."
        below = module.removeprefix(f"{path}.").split(".") if module.startswith(f"{path}.") else []
        return {part for name in below for one in (name, singular(name)) for part in _parts(one)}

    def _is_inside(self, word: str, buffer: str, path: str) -> bool:
        """Whether what a word says before the value's own is of which part of a module it is, not where that is."""
        told = self._before(word, buffer)
        is_plain = not any(map(str.isdigit, told)) and word in self.words.variables(buffer, f"{path}.")
        return told <= self._parts_below(buffer, path) or is_plain

    def _of_part(self, buffer: str, path: str) -> list[str]:
        """The words that say which part of a module makes a value."""
        words, parts = self.words.variables(buffer, f"{path}."), self._parts_below(buffer, path)
        return [one for one in words if self._before(one, buffer) <= parts]

    def _instead(self, buffers: Sequence[str], word: str) -> Iterator[str]:
        """What a value may be called, best first: by its own word, by its part of the module, by what it is here."""
        at = [(place.at(one), place.path) for place in self.places for one in buffers]
        own = [self._own(one) for one, _ in at]
        shared = [one for one in own[0] if all(one in other for other in own)]
        yield from (one for one in shared if ends_in(word, one))
        of_part = [self._of_part(*one) for one in at]
        for one in of_part[0]:
            is_shorter = len(one) < len(word) and any(
                ends_in(one, end) and ends_in(word, end) for end in own[0]
            )
            if is_shorter and all(one in other for other in of_part):
                yield one
        is_gradient = isinstance(word, GradientWord)
        if is_gradient and any(self._is_part(one) for one in buffers):
            return
        is_input = any(one in self.given for one in buffers) != is_gradient
        if any(one in self.given or one in self.results for one in buffers):
            roles = _OF_INPUT if is_input else _OF_OUTPUT
            yield from (GradientWord(one) if is_gradient else one for one in roles)
        yield from shared

    def _is_part(self, buffer: str) -> bool:
        """Whether a value is only one of the parts that a gradient is the sum of."""
        return self.words.provenance(buffer).part is GradientPart.SUMMAND


def _is_placed(word: str, other: str) -> bool:
    """Whether a word is another one with a place in a list before it."""
    before = undifferentiated(word).removesuffix(undifferentiated(other))
    return word != other and ends_in(word, other) and any(map(str.isdigit, _parts(before)))


def _parts(words: str) -> set[str]:
    return {part for part in words.split("_") if part}
