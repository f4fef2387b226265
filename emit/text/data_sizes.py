"""``n_selected = selected.shape[0]``: sizes that only the data tell, bound where the tensor is made that has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from longhand.capture.graph import CapturedGraph, DataSize
from longhand.emit.module.paragraphs import Paragraph
from longhand.emit.names.dimension_propagation import Words
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import Extern


def symbol_words(
    graph: CapturedGraph, taken: Set[str], tensors: Iterable[tuple[str, Words, object]]
) -> tuple[dict[str, str], frozenset[str]]:
    """The word of each symbol, and the symbols whose words are variables without a shape that binds them.

    Args:
        graph: What was captured.
        taken: Names that are variables.
        tensors: Those of the call, with the words of their dimensions.
    """
    words = {str(size.symbol): size.name for size in graph.symbols}
    given = {str(size.symbol) for size in graph.symbols if size.dim is None}
    known = {*taken, *words.values(), *(word for _, each, _ in tensors for word in each if word is not None)}
    for size in graph.data_sizes:
        word = size.name
        while word in known:
            word += "_"
        known.add(word)
        words[str(size.symbol)] = word
    return words, frozenset(given | {str(size.symbol) for size in graph.data_sizes})


def data_size_lines(
    sizes: Iterable[DataSize], step: Extern, variables: Mapping[str, str], words: Mapping[str, str]
) -> list[str]:
    """The lines that bind the sizes that a call's results are the first to have."""
    return [
        f"{words[str(size.symbol)]} = {variables[size.node]}.shape[{size.dim}]"
        for size in sizes
        if size.node in step.outputs and size.node in variables
    ]


def drop_unread_sizes(paragraphs: Iterable[Paragraph], sizes: Iterable[DataSize], writer: SizeWriter) -> None:
    """Takes the lines that bind a size which nothing reads out of the paragraphs."""
    words = (writer.symbols[str(size.symbol)] for size in sizes)
    unread = tuple(f"{word} = " for word in words if word not in writer.used)
    for paragraph in paragraphs:
        paragraph.lines[:] = [line for line in paragraph.lines if not line.startswith(unread)]
