"""The dimensions that a kernel walks where it takes a part of a tensor: half of each row, one of three blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from longhand.lower.ir import Size
from longhand.schedule.names.dimensions.compound_names import Words
from longhand.schedule.names.dimensions.dimension_propagation import grouped


def grouped_before_last(
    shape: Sequence[Size], words: Words, sizes: Sequence[Size]
) -> list[list[tuple[Size, str | None]]] | None:
    """As `grouped`, of all sizes but the last, which is that of a part: its group is empty. None if they do not fit."""
    heads = grouped(shape[:-1], words[:-1], sizes[:-1]) if len(shape) > 1 and len(sizes) > 1 else None
    return [*heads, []] if heads is not None else None


def grouped_around_splits(
    shape: Sequence[Size], words: Words, sizes: Sequence[Size]
) -> list[list[tuple[Size, str | None]]] | None:
    """As `grouped`, where a dimension may be walked in parts, by several sizes: heads by groups, then inside them.

    The groups of parts are empty, but for pairs of neighbours, whose number is ``n_pairs``. None if sizes do not fit.
    """
    dims = [(part, word) for part, word in zip(shape, words, strict=True) if str(part) != "1"]
    groups: list[list[tuple[Size, str | None]]] = []
    left = list(sizes)
    while left:
        if not dims:
            return None
        taken = next((n for n in range(1, len(left) + 1) if str(_product(left[:n])) == str(dims[0][0])), 0)
        if taken > 1:
            is_of_pairs = taken == 2 and left[1] == 2 and len(left) == 2
            groups += [[(left[0], "n_pairs")] if is_of_pairs else [], *([[]] * (taken - 1))]
            del dims[0]
        else:
            whole = next(
                (n for n in range(1, len(dims) + 1) if str(_product(d for d, _ in dims[:n])) == str(left[0])),
                0,
            )
            if not whole:
                return None
            groups.append(dims[:whole])
            del dims[:whole]
            taken = 1
        del left[:taken]
    return None if dims else groups


def _product(sizes: Iterable[Size]) -> Size:
    product: Size = 1
    for size in sizes:
        product = product * size
    return product
