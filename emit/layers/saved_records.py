"""What a forward pass keeps for its backward pass, by name: a record for the whole call, and one for each layer's.

Both ends read alike: launch() fills fields by their names, and what differentiates reads ``saved.x``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence, Set

from longhand.emit.layers.shared_functions import SharedFunction
from longhand.emit.module.paragraphs import WIDEST
from longhand.lower.ir import Buffer, Size
from longhand.schedule.named_plan import DimNamer, ListForCalls, ProductWord
from longhand.schedule.names.words import listed

_WIDEST_OF_CALLS = 94  # of a docstring that says whose a record is, without what it begins with
_MOST_LISTED = 3  # modules that a docstring tells one by one
_MOST_SIZES = 3  # that a dimension has in several records


@dataclasses.dataclass(frozen=True)
class Record:
    """A record of tensors that are saved.

    Attributes:
        name: The class.
        owner: The path of the list whose layers save it; empty where a function's calls read it.
        function: What reads it, where that is no list's.
        fields: (word, what is said about it).
        lists: (word, the class of what it holds) for fields that are lists.
        modules: The modules whose calls in the forward pass make one each.
        records: (word, the class) of fields that are records.
    """

    name: str
    owner: str
    function: str
    fields: tuple[tuple[str, str], ...]
    lists: tuple[tuple[str, str], ...] = ()
    modules: tuple[str, ...] = ()
    records: tuple[tuple[str, str], ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The fields; what is said of one stands above it where it is no line with it."""
        lines: list[str] = []
        for word, said in self.fields:
            field = f"{word}: torch.Tensor"
            is_short = len(field) + len(said) <= WIDEST
            lines += [f"{field}  # {said}"] if is_short else [f"# {said}", field]
        lines += [f"{word}: {name}" for word, name in self.records]
        return (*lines, *(f"{word}: list[{name}]" for word, name in self.lists))

    @property
    def says(self) -> str:
        """Its docstring."""
        if self.modules:
            paths = list(dict.fromkeys(self.modules))
            which = listed(map(_told, paths) if len(paths) <= _MOST_LISTED else _runs(paths))
            many = f"{_told(paths[0])} and {len(paths) - 1} other{'s' * (len(paths) > 2)}"
            keep = f"hand{'s' * (len(paths) == 1)} to the backward pass."
            is_short = len(which) + len(keep) <= _WIDEST_OF_CALLS or len(paths) == 1
            return f"What {which if is_short else many} {keep}"
        if self.owner:
            return f"What one of {self.owner} keeps for its backward pass."
        return f"What {self.function}() reads of the forward pass."


def _runs(paths: Sequence[str]) -> list[str]:
    """``stage2.2 and stage3.1 to stage3.6``: paths; those that follow each other as the first and the last."""
    runs: list[list[str]] = []
    for path in paths:
        owner, _, place = path.rpartition(".")
        is_next = place.isdigit() and runs and runs[-1][-1] == f"{owner}.{int(place) - 1}"
        runs[-1].append(path) if is_next else runs.append([path])
    return [
        one
        for run in runs
        for one in ([f"{_told(run[0])} to {_told(run[-1])}"] if len(run) > 2 else map(_told, run))
    ]


def _told(path: str) -> str:
    """``blocks[i].attn``"""
    parts = (
        part if part == "[i]" else f"[{part}]" if part.isdigit() else f".{part}" for part in path.split(".")
    )
    return "".join(parts).removeprefix(".")


def fields_for_calls(one: ListForCalls, functions: Sequence[SharedFunction]) -> tuple[str, ...]:
    """The parameters that a call is given out of what is kept for it."""
    function = next(function for function in functions if function.name == one.function)
    return function.parameters[one.n_before : one.n_before + len(one.own[0])]


def shapes_of(columns: Sequence[Sequence[str]], buffers: Mapping[str, Buffer], dims: DimNamer) -> list[str]:
    """For each field of a record ``float32 (batch, seq, dim)``; only what is true of all of some tensors.

    A word that stands for two sizes in one record says neither: there the sizes stand as numbers.

    Args:
        columns: By field: the tensor that it is in each of several records.
        buffers: Of the backward pass.
        dims: Words for its dimensions.
    """
    meant: dict[tuple[int, str], set[Size]] = {}
    for nodes in columns:
        for number, node in enumerate(nodes):
            told = _dimensions(node, buffers, dims)
            for word, size in (factor for one in told for factor in _factors(*one)):
                meant.setdefault((number, word), set()).add(size)
    unclear = {word for (_, word), sizes in meant.items() if len(sizes) > 1}
    return [_shape_of(nodes, buffers, dims, unclear) for nodes in columns]


def _dimensions(node: str, buffers: Mapping[str, Buffer], dims: DimNamer) -> list[tuple[str, Size]]:
    """The word and the size of each dimension; the size's own text where it has no word."""
    shape = buffers[node].shape
    return [(word or str(size), size) for word, size in zip(dims.of(node, len(shape)), shape, strict=True)]


def _words(word: str) -> tuple[str, ...]:
    return word.of if isinstance(word, ProductWord) else (word,)


def _factors(word: str, size: Size) -> list[tuple[str, Size]]:
    """The word and the size of each factor of a dimension, as far as they are known."""
    sizes = word.sizes if isinstance(word, ProductWord) else (size,)
    words = _words(word)
    return [*zip(words, sizes, strict=True)] if len(sizes) == len(words) else []


def _shape_of(nodes: Sequence[str], buffers: Mapping[str, Buffer], dims: DimNamer, unclear: Set[str]) -> str:
    dtypes = dict.fromkeys(sorted(str(buffers[node].dtype).removeprefix("torch.") for node in nodes))
    sizes = dict.fromkeys(tuple(buffers[node].shape) for node in nodes)
    shapes: dict[tuple[str, ...], None] = {}
    for node in nodes if len(sizes) > 1 else nodes[:1]:
        told = _dimensions(node, buffers, dims)
        shapes[tuple(str(size) if unclear & {*_words(word)} else word for word, size in told)] = None
    if len({len(one) for one in shapes}) > 1:
        return " or ".join(dtypes)
    dimensions = [sorted(dict.fromkeys(of), key=_by_size) for of in zip(*shapes, strict=True)]
    if any(len(of) > _MOST_SIZES for of in dimensions):
        return " or ".join(dtypes)
    comma = "," if len(dimensions) == 1 else ""
    return f"{' or '.join(dtypes)} ({', '.join(map(' or '.join, dimensions))}{comma})"


def _by_size(text: str) -> int:
    return int(text) if text.isdigit() else 0
