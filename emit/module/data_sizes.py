"""Sizes that only data decides, such as how many elements a mask keeps: bound where the first result has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from longhand.capture.graph import DataSize
from longhand.lower.ir import Extern


def data_size_lines(
    sizes: Iterable[DataSize], step: Extern, variables: Mapping[str, str], words: Mapping[str, str]
) -> list[tuple[str, str]]:
    """(word, what it is) of the sizes that a call's results are the first to have."""
    return [
        (words[str(size.symbol)], f"{variables[size.node]}.shape[{size.dim}]")
        for size in sizes
        if size.node in step.outputs and size.node in variables
    ]
