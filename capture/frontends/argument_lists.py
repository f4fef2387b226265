"""Lists among the inputs of a flat graph: ``L['params'][0]``, ``L['params'][1]``, ... are an argument `params` again.

Capture hands over every tensor by itself. A function over many tensors (an optimizer's step) is written with lists, and
its unit should be, too. Only lists of some length count: of two or three tensors each has a role of its own.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

import torch.utils._pytree as pytree

FEWEST = 4  # tensors that are a list rather than arguments one by one

_ELEMENT = re.compile(
    r"^(?P<whole>[LG]\['\w+'\](?:\[\d+\]|\['\w+'\]|\.\w+)*?)\[(?P<place>\d+)\](?P<grad>\.grad)?$"
)


@dataclasses.dataclass(frozen=True)
class Element:
    """A tensor's place among the call's arguments.

    Attributes:
        word: The list's name.
        place: Its place in that list.
    """

    word: str
    place: int


def find_elements(sources: Sequence[str | None]) -> dict[int, Element]:
    """The inputs that are elements of a list, by their position among all inputs.

    Args:
        sources: The expression that each input was found by; None for inputs that are no tensors.
    """
    lists: dict[tuple[str, bool], list[tuple[int, int]]] = {}
    for position, source in enumerate(sources):
        match = _ELEMENT.match(source or "")
        if match:
            key = (match["whole"], match["grad"] is not None)
            lists.setdefault(key, []).append((int(match["place"]), position))
    elements: dict[int, Element] = {}
    for (whole, is_grad), members in lists.items():
        if len(members) >= FEWEST:
            words = [word for word in re.findall(r"\w+", whole[1:]) if word != "self"]
            word = "grads" if is_grad else next((w for w in reversed(words) if not w.isdigit()), "tensors")
            if word in {element.word for element in elements.values()} or words[-1:] == ["args"]:
                word = "_".join([*words, *(["grads"] if is_grad else [])])
            # Those that the graph does not use leave no gaps.
            elements |= {position: Element(word, n) for n, (_, position) in enumerate(sorted(members))}
    return elements


@dataclasses.dataclass(frozen=True)
class Arguments:
    """How the inputs of a flat graph are the arguments of a function.

    Attributes:
        words: The parameters' names.
        positions: For each parameter the position of its input, or those of a list's.
    """

    words: tuple[str, ...]
    positions: tuple[int | tuple[int, ...], ...]

    @property
    def spec(self) -> pytree.TreeSpec:
        """The tree of ``(args, kwargs)``."""
        leaves = tuple([0] * len(place) if isinstance(place, tuple) else 0 for place in self.positions)
        return pytree.tree_structure((leaves, {}))

    @property
    def leaves(self) -> tuple[int, ...]:
        """The positions of the inputs in the order of the arguments."""
        return tuple(
            one for place in self.positions for one in (place if isinstance(place, tuple) else (place,))
        )


def arrange_arguments(words: Mapping[int, str], elements: Mapping[int, Element]) -> Arguments:
    """The arguments in the order of the inputs, a list where its first tensor stands.

    Args:
        words: The name of each input that is an argument, by its position.
        elements: What `find_elements` found.
    """
    names: dict[str, int | dict[int, int]] = {}
    for position, word in words.items():
        element = elements.get(position)
        if element is None:
            names[word] = position
            continue
        members = names.setdefault(element.word, {})
        assert isinstance(members, dict)
        members[element.place] = position
    positions = tuple(
        place if isinstance(place, int) else tuple(place[n] for n in sorted(place))
        for place in names.values()
    )
    return Arguments(tuple(names), positions)
