"""A function that several modules are: what it takes, what tells its sizes, what it is called."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence

from longhand.lower.ir import Buffer
from longhand.schedule.functions.alike_calls import CallsAlike
from longhand.schedule.functions.alike_numbers import Number
from longhand.schedule.functions.alike_steps import SiteSteps
from longhand.schedule.functions.sites import FunctionCandidate
from longhand.schedule.functions.sizes.told_sizes import WordsOf
from longhand.schedule.functions.sizes.weight_sizes import told_by_parameters, told_by_weights


@dataclasses.dataclass(frozen=True)
class OneFunction:
    """What several modules are.

    Attributes:
        candidate: What they do, in which places of the plan, in which words.
        parameters: What it takes beside its module and numbers.
        numbers: For each module the numbers that it is called with: those of library calls, and sizes that differ.
        stated: Words for sizes that are the same in all of them, or that a weight of the module's tells.
        alike: The modules' calls.
        name: Its own.
        also: What was found later to be the same function.
    """

    candidate: FunctionCandidate
    parameters: tuple[str, ...]
    numbers: tuple[tuple[tuple[str, Number], ...], ...]
    stated: Mapping[str, int | str]
    alike: CallsAlike
    name: str = ""
    also: tuple[FunctionCandidate, ...] = ()

    @property
    def n_parameters(self) -> int:
        """Beside the module."""
        return len(self.parameters) + len(self.numbers[0])

    def says_the_sizes_of(self, other: OneFunction) -> bool:
        """Whether it is given the same numbers, and its words for other sizes stand for the same."""
        numbers, others = ([word for word, _ in one.numbers[0]] for one in (self, other))
        return numbers == others and dict(self.stated) == dict(other.stated)


def size_told(
    candidate: FunctionCandidate,
    word: str,
    sizes: Sequence[int | str],
    others: Collection[int | str | None],
    buffers: Mapping[str, Buffer],
    words_of: WordsOf,
) -> int | str | None:
    """A size of a function, or what tells it, best what tells no other; None where only a parameter does.

    Args:
        candidate: The function.
        word: The size's.
        sizes: What it is in each module.
        others: What tells the sizes before it.
        buffers: The plan's, by name.
        words_of: Words for the dimensions of a buffer.
    """
    if len(set(sizes)) == 1:
        return sizes[0]
    alike = candidate.alike
    weight = told_by_weights(sizes, word, alike.sites, buffers)
    if weight is not None:
        return f"{candidate.around[0][weight[0]]}.shape[{weight[1]}]"

    def word_of(site: SiteSteps, name: str, dim: int) -> str | None:
        buffer = site.aliases.get(name, name)
        return words_of(buffer, len(buffers[buffer].shape))[dim]

    given = told_by_parameters(sizes, alike.inputs, alike.sites, buffers)
    texts = {one: f"{candidate.words[one[0]]}.shape[{one[1]}]" for one in given}
    named = (texts[one] for one in given if word_of(alike.sites[0], *one) == word)
    apart = (text for text in texts.values() if text not in others)
    return next(itertools.chain(named, apart, texts.values()), None)
