"""Bringing the axes of two nests in relation: which loops of one are which loops of the other.

Two nests touch the same element of a buffer in the same iteration if their indices into it are equal term by term. An
index is a chain of (coefficient, size); two chains that step through the same elements have a common refinement: the
rows of 4096 tokens are the batch and seq of the other nest, and the 1024 features are its heads times their width. So
axes are split until the terms agree, and those of the left nest take the names of the right one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from longhand.lower.ir import Axis, Index, Nest, Size
from longhand.schedule.bodies import sizes_of, split_axes
from longhand.schedule.sizes import divide, rank, same, times


@dataclasses.dataclass(frozen=True)
class Aligned:
    """Two nests over common axes.

    Attributes:
        left: The first nest, its matched axes named as in `right`; no other axis of it has a name of `right`.
        right: The second nest.
        common: The axes that both have.
    """

    left: Nest
    right: Nest
    common: frozenset[str]


@dataclasses.dataclass(frozen=True)
class _Term:
    """One link of a chain: an axis, or the outer part of one, and its step."""

    axis: str
    coefficient: Size
    size: Size


@dataclasses.dataclass(frozen=True)
class _Match:
    """Parts of two axes that are one loop."""

    left: str
    right: str
    size: Size


def disjoint(left: Nest, right: Nest) -> Aligned:
    """The two nests with no axis in common."""
    taken = {axis.name for axis in right.axes}
    pieces: dict[str, tuple[Axis, ...]] = {}
    for axis in left.axes:
        if axis.name in taken:
            fresh = _fresh(axis.name, taken | {other.name for other in left.axes})
            taken.add(fresh)
            pieces[axis.name] = (Axis(fresh, axis.size),)
    return Aligned(split_axes(left, pieces) if pieces else left, right, frozenset())


def align(state: Aligned, left_index: Index, right_index: Index) -> Aligned | None:
    """Names and splits axes so that the two indices become equal; None where that is not possible.

    Axes that are common already stand for themselves and are neither split nor matched with another.
    """
    if left_index.values or right_index.values or not same(left_index.offset, right_index.offset):
        return None
    matches = _refine(
        _chain(left_index, sizes_of(state.left)), _chain(right_index, sizes_of(state.right)), state.common
    )
    return None if matches is None else _apply(state, matches)


def align_leftovers(state: Aligned, left_axes: Sequence[str], right_axes: Sequence[str]) -> Aligned | None:
    """Matches axes, outermost first, by their sizes alone: loops that are local to both nests (reduced ones)."""
    left = _by_size(left_axes, sizes_of(state.left))
    right = _by_size(right_axes, sizes_of(state.right))
    matches = _refine(left, right, state.common)
    return None if matches is None else _apply(state, matches)


def _chain(index: Index, sizes: Mapping[str, Size]) -> list[_Term]:
    """The terms of an index, innermost first."""
    terms = [_Term(axis, coefficient, sizes[axis]) for axis, coefficient in index.axes]
    return sorted(terms, key=lambda term: (abs(rank(term.coefficient)), rank(term.size)))


def _by_size(axes: Iterable[str], sizes: Mapping[str, Size]) -> list[_Term]:
    """Axes, outermost first, as the chain of a contiguous index."""
    chain: list[_Term] = []
    step: Size = 1
    for axis in reversed(list(axes)):
        chain.append(_Term(axis, step, sizes[axis]))
        step = times(step, sizes[axis])
    return chain


def _refine(left: list[_Term], right: list[_Term], common: frozenset[str]) -> list[_Match] | None:
    """The parts of both chains, innermost first, that step alike; None if the chains do not cover each other."""
    matches: list[_Match] = []
    left, right = left[::-1], right[::-1]
    while left and right:
        one, other = left.pop(), right.pop()
        if not same(one.coefficient, other.coefficient):
            return None
        if (one.axis in common or other.axis in common) and (
            one.axis != other.axis or not same(one.size, other.size)
        ):
            return None
        if same(one.size, other.size):
            matches.append(_Match(one.axis, other.axis, one.size))
        elif (rest := divide(other.size, one.size)) is not None:
            matches.append(_Match(one.axis, other.axis, one.size))
            right.append(_Term(other.axis, times(other.coefficient, one.size), rest))
        elif (rest := divide(one.size, other.size)) is not None:
            matches.append(_Match(one.axis, other.axis, other.size))
            left.append(_Term(one.axis, times(one.coefficient, other.size), rest))
        else:
            return None
    return None if left or right else matches


def _apply(state: Aligned, matches: list[_Match]) -> Aligned:
    """Splits and renames both nests as the matches say."""
    new = [match for match in matches if match.left not in state.common]
    if not new:
        return state
    left_parts: dict[str, list[Axis]] = {}
    right_parts: dict[str, list[Axis]] = {}
    taken = {axis.name for axis in (*state.left.axes, *state.right.axes)}
    pieces_of_right: dict[str, int] = {}
    for match in new:
        pieces_of_right[match.right] = pieces_of_right.get(match.right, 0) + 1
    pieces_of_left: dict[str, int] = {}
    for match in new:
        pieces_of_left[match.left] = pieces_of_left.get(match.left, 0) + 1
    names: set[str] = set()
    for match in new:
        if pieces_of_right[match.right] == 1:
            name = match.right
        elif pieces_of_left[match.left] == 1:
            name = match.left
        else:
            name = _fresh(match.right, taken)
        taken.add(name)
        names.add(name)
        left_parts.setdefault(match.left, []).append(Axis(name, match.size))
        right_parts.setdefault(match.right, []).append(Axis(name, match.size))
    return Aligned(
        split_axes(state.left, {name: tuple(reversed(parts)) for name, parts in left_parts.items()}),
        split_axes(state.right, {name: tuple(reversed(parts)) for name, parts in right_parts.items()}),
        state.common | names,
    )


def _fresh(name: str, taken: set[str]) -> str:
    """A name like `name` that is not taken."""
    stem = name.rstrip("0123456789").rstrip("_") or "axis"
    number = 1
    while f"{stem}_{number}" in taken:
        number += 1
    return f"{stem}_{number}"
