"""What functions for parts of a derivative are called, and what their docstrings say."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from collections.abc import Container, Iterator, Sequence

import torch

from longhand.emit.module.gradient_lists import OF_MODULE
from longhand.emit.text.python_code import CallCode, Code, LiteralCode, NameCode
from longhand.emit.text.quoting import python_docstring, python_string
from longhand.schedule.named_plan import (
    BACKWARD_FORM,
    PREVIOUS,
    DonePart,
    LongFunction,
    ModuleDerivative,
    names_of_places,
    words_for_parts,
)
from longhand.schedule.names.words import (
    further_names,
    identifier,
    is_identifier,
    listed,
    singular,
    snake_case,
)

_WIDEST = 103  # of a line of a docstring
_MOST_NAMED = 2  # weights in it
_MOST_PLACES = 4  # of modules
_INDICES = ("[i]", "[j]", "[k]", "[l]")  # which of a list, where several do the same; no module is called so
_INDEX = _INDICES[0]
_AGAIN = "_again"  # how the name of a function ends that differentiates nothing

Position = tuple[str, ...] | None  # of a module, by the parts of its path; None of several that share none


@dataclasses.dataclass(frozen=True)
class CollectedGradients:
    """A dictionary of gradients that a part returns.

    Attributes:
        path: Of the part's module, in the model.
        word: The dictionary.
        buffers: What it holds.
    """

    path: str
    word: str
    buffers: frozenset[str]

    def spread_in(self, path: str) -> Code:
        """``of_module("attn", attn_gradients)``, in a dictionary of another module's gradients."""
        if self.path == path:
            return NameCode(self.word)
        below = self.path.removeprefix(f"{path}.") if path else self.path
        return CallCode(OF_MODULE, (LiteralCode(python_string(below)), NameCode(self.word)))


@dataclasses.dataclass(frozen=True)
class PartSite:
    """Where a function for a part is called.

    Attributes:
        part: What it does there.
        function: The function that is divided into such parts.
        is_again: Whether it makes no gradient, and but computes again what derivatives read.
    """

    part: ModuleDerivative
    function: LongFunction
    is_again: bool = False

    @property
    def is_of_all(self) -> bool:
        """Whether it is called in what all layers of a list do."""
        return not self.function.drops_fields

    @property
    def below(self) -> str:
        """The path of the module, below that of the function around it."""
        return path_inside(self.part.path, self.function.path)

    @property
    def place(self) -> str:
        """That with what holds the list whose layers do it: ``encoder.self_attn``."""
        holder = self.function.path.rpartition(".")[0].rpartition(".")[0] if self.is_of_all else ""
        return f"{holder}.{self.below}" if holder else self.below

    @property
    def held(self) -> tuple[str, ...]:
        """What of the module has weights that are read or differentiated there."""
        head = f"{self.part.root}." if self.part.root else ""
        read = [self.function.weights.get(name, "") for name in self.part.given]
        paths = [path.removeprefix(head) for path in read if path.startswith(head) and path]
        paths += weights_of_part(self.part, self.function)
        return tuple(dict.fromkeys(path.partition(".")[0] for path in paths))


def names_of_parts(functions: Sequence[Sequence[PartSite]], taken: Container[str]) -> list[str]:
    """``attention_backward``; one of several functions for a class says which modules it is for: ``layer3_backward``.

    Args:
        functions: For each function where it is called.
        taken: What none may be called.
    """
    names: list[str] = []
    for sites in functions:
        kind = sites[0].part.class_name
        alike = [other for other in functions if other[0].part.class_name == kind]
        words = _names_of_part(sites, alike)
        names.append(next(one for one in words if one not in taken and one not in names))
    return names


def _names_of_part(sites: Sequence[PartSite], alike: Sequence[Sequence[PartSite]]) -> Iterator[str]:
    """The names of one of the functions for a class, of which `alike` are all."""
    kind = sites[0].part.class_name
    ending = _AGAIN if sites[0].is_again else BACKWARD_FORM.ending
    plain = _shared_leaf(sites) if hasattr(torch.nn, kind) else snake_case(kind)
    is_lone = _is_lone(sites)
    is_placed = any(map(str.isdigit, sites[0].below.split(".")))
    is_general = len(alike) == 1 or not (
        is_lone or any(not _is_lone(one) for one in alike if one is not sites)
    )
    # Or that for most of its modules, where others are fused with their neighbours otherwise.
    is_general = is_general or len(sites) > 1 + sum(len(one) for one in alike if one is not sites)
    if is_general and not (is_lone and is_placed) and not hasattr(torch.nn, kind):
        yield f"{plain}{ending}"
    if not is_lone and _has_leaf(sites, alike):
        yield f"{_shared_leaf(sites)}{ending}"
    placed, *others = (_placed(one) for one in (sites, *(one for one in alike if one is not sites)))
    elsewhere = {word for other in others for word in other}
    yield from (f"{word}{ending}" for word in placed if word not in elsewhere)
    if not is_lone and not hasattr(torch.nn, kind):
        yield f"{plain}{ending}"
    earlier = [other[0].held for other in itertools.takewhile(lambda other: other is not sites, alike)]
    yield from (f"{plain}_{word}{ending}" for word in words_for_parts(sites[0].held, earlier))
    yield from (f"{word}{ending}" for word in placed)
    yield from further_names(f"{plain}{ending}")


def _shared_leaf(sites: Sequence[PartSite]) -> str:
    """``branch2``: what all modules of a class of torch.nn are called, which says nothing; else the class."""
    leaves = {site.place.rpartition(".")[2] for site in sites}
    leaf = min(leaves)
    return (
        identifier(leaf)
        if len(leaves) == 1 and not leaf.isdigit() and leaf.strip("_")
        else snake_case(sites[0].part.class_name)
    )


def _has_leaf(sites: Sequence[PartSite], alike: Sequence[Sequence[PartSite]]) -> bool:
    """Whether the word that all modules of a function end in is its own: of those that have it, it is for the most."""
    leaf = _shared_leaf(sites)
    same = [one for one in alike if _shared_leaf(one) == leaf]
    return leaf != snake_case(sites[0].part.class_name) and max(same, key=len) is sites


def _is_lone(sites: Sequence[PartSite]) -> bool:
    """Whether a function is for one module alone."""
    return len(sites) == 1 and not sites[0].is_of_all


def _placed(sites: Sequence[PartSite]) -> list[str]:
    """The words for where a function is called, with the norm that it differentiates, too, at last."""
    of_layers = [site for site in sites if site.is_of_all]
    places = dict.fromkeys(site.place for site in of_layers or sites)
    placed = [*names_of_places([*places])]
    part = sites[0].part
    also = identifier(path_inside(part.also, part.root))
    return [*placed, *(f"{word}_and_{also}" for word in placed if also)]


def words_of_gradients(below: str, around: str) -> Iterator[str]:
    """What holds the gradients of a module's weights: ``attn_gradients``; ``layer4_1_gradients`` of layer4[1].

    Args:
        below: The path of the module below the one around it.
        around: What that is called.
    """
    yield from (f"{word}_gradients" for word in names_of_places([below]))
    yield f"{around}_{identifier(below).lstrip('_')}_gradients"
    yield from further_names("gradients")


def position_of(path: str, function: LongFunction) -> tuple[str, ...]:
    """The parts of ``layers[3].attn``; of ``layers[i].attn`` in what all layers do."""
    at = None if function.drops_fields else function.path.count(".")
    return tuple(_INDEX if n == at else one for n, one in enumerate(path.split(".")))


def position_of_both(one: Position, other: Position) -> Position:
    """That of ``layers[i].attn`` for two layers' parts; None of any others."""
    if one is None or other is None or len(one) != len(other):
        return None
    pairs = list(zip(one, other, strict=True))
    differing = [n for n, (first, second) in enumerate(pairs) if first != second]
    if not all(_is_index(part) for n in differing for part in pairs[n]):
        return None
    if len(differing) == 1 and _INDEX in pairs[differing[0]]:
        letters = {differing[0]: _INDEX}
    else:
        free = [letter for letter in _INDICES if letter not in (*one, *other)]
        if len(differing) > len(free):
            return None
        letters = dict(zip(differing, free, strict=False))
    return tuple(letters.get(n, first) for n, (first, _) in enumerate(pairs))


@dataclasses.dataclass(frozen=True)
class ToldPart:
    """What a function says of itself.

    Attributes:
        passes: What it is given and makes, in words.
        places: Whose it is.
        done: How much of their derivatives it is, and of whose else.
        is_of_layers: Whether its words are those of a function that all layers of a list have.
    """

    passes: str
    places: tuple[tuple[str, ...], ...]
    done: DonePart
    is_of_layers: bool

    def with_another(self, other: ToldPart, *, is_by_other: bool) -> ToldPart:
        """What it is for two; `is_by_other`: whether its text has the other's words."""
        words = other if is_by_other else self
        done = self.done.with_another(other.done)
        return dataclasses.replace(words, places=(*self.places, *other.places), done=done)


def told_positions(places: Sequence[tuple[str, ...]]) -> str:
    """``layers[i].attn``; of what has no such common place each, ``layer2 and layer3``, or that they are many."""
    whole: Position = places[0]
    for one in places[1:]:
        whole = position_of_both(whole, one)
    if whole is not None:
        return told_position(whole)
    texts = list(dict.fromkeys(map(told_position, places)))
    return listed(texts) if len(texts) <= _MOST_PLACES else f"{texts[0]} and {len(texts) - 1} others"


def told_position(position: tuple[str, ...]) -> str:
    """``layers[i].attn``"""
    texts = (f"[{one}]" if one.isdigit() else one if one in _INDICES else f".{one}" for one in position)
    return "".join(texts).removeprefix(".")


def _is_index(part: str) -> bool:
    """Which of a list: a number, or the letter for several."""
    return part.isdigit() or part in _INDICES


def weights_of_part(part: ModuleDerivative, function: LongFunction) -> list[str]:
    """The weights whose gradients a part returns, as its module calls them."""
    return [key for _, _, key in keys_of_part(part, function)]


def path_inside(path: str, root: str) -> str:
    """The path of something in a module, as it is called there."""
    return path.removeprefix(f"{root}.") if root else path


def words_of_module(part: ModuleDerivative, *, is_lone: bool) -> Iterator[str]:
    """What a function calls the module that it is given: the class's name only where it is given several."""
    *_, attribute = ["module", *(one for one in part.root.split(".") if not one.isdigit())]
    plain = singular(attribute) if part.root.rpartition(".")[2].isdigit() else attribute
    if part.is_of_several and part.root == part.path and not is_lone:
        plain = snake_case(part.class_name)
    plain = identifier(plain)  # members of a Sequential may be called "block2-1", or "class"
    yield from (word for word in (plain, f"{plain}_module") if is_identifier(word))
    yield from further_names(plain)


def also_of(part: ModuleDerivative, function: LongFunction, done: DonePart) -> str:
    """``, without output.LayerNorm, and of previous_norm``; ``, and part of that of EfficientViMBlock``."""
    without = f", without {path_inside(part.without, part.path)}" if part.without else ""
    partly = [one or "the model" for one in done.others]
    whole: list[str] = []
    if part.also:
        before = next(iter(function.of_before.values()), "").removeprefix(PREVIOUS).rpartition(".")[0]
        is_before = part.also == function.before
        also = f"the previous layer's {before}" if is_before else path_inside(part.also, part.root)
        (whole if done.is_also_whole else partly).insert(0, also)
    beside = [f"of {one}" for one in whole] + ([f"part of that of {listed(partly)}"] if partly else [])
    return f"{without}{''.join(f', and {one}' for one in beside)}"


def what_passes(source: Sequence[str], results: Sequence[str], weights: Sequence[str], whose: str) -> str:
    """``from d_residual to d_x and the gradient of down.weight``; of many weights only that there are some."""
    few = f"the gradient{'s' * (len(weights) > 1)} of {listed(weights)}"
    of_weights = few if len(weights) <= _MOST_NAMED else f"gradients of {whose} weights"
    own = [of_weights] if weights else []
    # The gradient of x before the module, too, where that of x behind it is called so.
    given = listed([f"{one} of its result" if one in results else one for one in source])
    made = listed([*(f"{one} of its input" if one in source else one for one in results), *own])
    return f"from {given} to {made}" if source else f"makes {made}"


def remark_on_part(
    part: ModuleDerivative, function: LongFunction, told: ToldPart, *, is_again: bool
) -> tuple[str, ...]:
    """``The derivative of Attention, attn: from d_residual to d_x and the gradients of its weights.``

    Args:
        part: A part.
        function: The one that is divided into such.
        told: What its function says of itself, for all that it is called for.
        is_again: Whether it differentiates nothing.
    """
    position = told_positions(told.places)
    if is_again:
        begin = f"What the derivative of {part.class_name}, {position}, reads, computed again"
    else:
        whole = "The derivative" if told.done.is_whole else "Part of the derivative"
        begin = f"{whole} of {part.class_name}, {position}{also_of(part, function, told.done)}"
    said = f"{begin}: {told.passes}."
    if len(said) + len('"""') <= _WIDEST:  # which ends in that line
        return (python_docstring(said),)
    passes = f"{told.passes[:1].upper()}{told.passes[1:]}"
    first, lines = (textwrap.wrap(f"{text}.", _WIDEST) for text in (begin, passes))
    return tuple(map(python_docstring, [*first, "", *lines]))


def keys_of_part(part: ModuleDerivative, function: LongFunction) -> Iterator[tuple[str, str, str]]:
    """(buffer, the path of its weight in the function's module, that in the part's) of what a part returns last."""
    for buffer, paths in function.gradients.items():
        for path in paths if buffer in part.gradients else ():
            yield buffer, path, path_inside(f"{function.path}.{path}" if function.path else path, part.root)
    for buffer, path in function.of_before.items():
        if buffer in part.gradients:
            yield buffer, path, path
