"""Whether each variable of a function still holds what is read by its word: what the names of a plan promise.

It walks the steps as they are printed, and knows nothing of how words were chosen. A word that went to something else
while what it stood for is read again, or handed over at the end, makes a unit that is silently wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from longhand.errors import ProofError
from longhand.lower.ir import View
from longhand.schedule.layers.model_steps import Loop, ModelStep, plain_steps
from longhand.schedule.plan import Reuse, UnitPlan, buffers_made, buffers_read


class _HeldWords:
    """What each word holds as the steps go on.

    Args:
        names: The variable of each buffer; what is no plain word is reached through another one.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._holds: dict[str, str] = {}
        self._was: dict[str, str] = {}  # by buffer: the one whose memory it took over
        self.lost: list[tuple[str, str]] = []

    def word(self, buffer: str) -> str:
        """The plain word of a buffer; empty where it has none."""
        name = self._names.get(buffer, "")
        return name if name.isidentifier() else ""

    def bind(self, buffer: str) -> None:
        if word := self.word(buffer):
            self._holds[word] = buffer

    def take_over(self, step: Reuse) -> None:
        self._was[step.buffer] = step.of

    def read(self, buffer: str) -> None:
        word = self.word(buffer)
        holds: str | None = self._holds.get(word)
        while holds is not None and holds != buffer:
            holds = self._was.get(holds)
        if word and holds is None:
            self.lost.append((word, buffer))


def prove_words_hold(
    plan: UnitPlan, names: Mapping[str, str], steps: Sequence[ModelStep], places: Iterable[object]
) -> None:
    """Raises where a word went to something else while what it stood for is read, or handed over at the end.

    Args:
        plan: What the function does.
        names: The variable of each buffer.
        steps: What it does, as it is printed.
        places: Of the results that it hands over by their words.

    Raises:
        ProofError: The names are faulty.
    """
    results = (plan.results[place] for place in places if isinstance(place, int))
    lasting = [result.buffer for result in results if isinstance(result, View)]
    given = [entry.node for entry in plan.program.graph.inputs]
    if lost := lost_words(names, given, steps, lasting):
        told = ", ".join(f"`{word}` no longer holds `{buffer}`, which is read" for word, buffer in lost)
        raise ProofError(
            f"the Python that longhand made for this model is faulty: {told}.",
            hint="This is a bug in longhand: please report it with the model's code.",
        )


def lost_words(
    names: Mapping[str, str], given: Iterable[str], steps: Sequence[ModelStep], lasting: Iterable[str]
) -> list[tuple[str, str]]:
    """(word, buffer) where a buffer is read by a word that does not hold it.

    Args:
        names: The variable of each buffer.
        given: What the function is given.
        steps: What it does, in order.
        lasting: What it hands over at the end.
    """
    words = _HeldWords(names)
    for buffer in given:
        words.bind(buffer)
    for step in steps:
        plains = plain_steps(step)
        made = [buffer for plain in plains for buffer in buffers_made(plain)]
        read = [b for b in dict.fromkeys(b for plain in plains for b in buffers_read(plain)) if b not in made]
        if isinstance(step, Loop):
            inside = {buffer for run in step.repeat.runs for plain in run for buffer in buffers_made(plain)}
            read = [buffer for buffer in read if buffer not in inside]
            last = {words.word(buffer) for buffer in step.repeat.outputs[-1]}
            begins = step.repeat.inputs[0]
            words.lost += [
                (words.word(b), b) for b in read if b not in begins and words.word(b) in last - {""}
            ]
            made = [*step.repeat.outputs[-1]]
        for plain in plains:
            if isinstance(plain, Reuse):
                words.take_over(plain)
        for buffer in read:
            words.read(buffer)
        for buffer in made:
            words.bind(buffer)
    for buffer in lasting:
        words.read(buffer)
    return words.lost
