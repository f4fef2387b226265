"""What a forward pass keeps for its backward pass, by name: a record for the whole call, and one for each layer's.

Both ends read alike: launch() fills fields by their names, and what differentiates reads ``saved.x``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.emit.layers.shared_functions import SharedFunction
from longhand.emit.module.paragraphs import WIDEST
from longhand.lower.ir import Buffer
from longhand.schedule.named_plan import DimNamer, ListForCalls


@dataclasses.dataclass(frozen=True)
class Record:
    """A record of tensors that are saved.

    Attributes:
        name: The class.
        owner: The path of the list whose layers save it; empty where a function's calls read it.
        function: What reads it, where that is no list's.
        fields: (word, what is said about it).
        lists: (word, the class of what it holds) for fields that are lists.
    """

    name: str
    owner: str
    function: str
    fields: tuple[tuple[str, str], ...]
    lists: tuple[tuple[str, str], ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The fields; what is said of one stands above it where it is no line with it."""
        lines: list[str] = []
        for word, said in self.fields:
            field = f"{word}: torch.Tensor"
            is_short = len(field) + len(said) <= WIDEST
            lines += [f"{field}  # {said}"] if is_short else [f"# {said}", field]
        return (*lines, *(f"{word}: list[{name}]" for word, name in self.lists))

    @property
    def says(self) -> str:
        """Its docstring."""
        if self.owner:
            return f"What one of {self.owner} keeps for its backward pass."
        return f"What {self.function}() reads of the forward pass."


def fields_for_calls(one: ListForCalls, functions: Sequence[SharedFunction]) -> tuple[str, ...]:
    """The parameters that a call is given out of what is kept for it."""
    function = next(function for function in functions if function.name == one.function)
    return function.parameters[one.n_before : one.n_before + len(one.own[0])]


def shape_of(nodes: Sequence[str], buffers: Mapping[str, Buffer], dims: DimNamer) -> str:
    """``float32 (batch, seq, dim)``; only what is true of all of some tensors."""
    said = set()
    for node in nodes:
        buffer = buffers[node]
        words = dims.of(node, len(buffer.shape))
        shape = [word or str(size) for word, size in zip(words, buffer.shape, strict=True)]
        comma = "," if len(shape) == 1 else ""
        said.add((str(buffer.dtype).removeprefix("torch."), f" ({', '.join(shape)}{comma})"))
    dtypes = dict.fromkeys(dtype for dtype, _ in sorted(said))
    return " or ".join(dtypes) + (next(iter(said))[1] if len(said) == 1 else "")
