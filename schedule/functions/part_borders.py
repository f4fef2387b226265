"""Where a part of a long derivative may begin and end: a call or some beside those of its module.

One kernel goes back through a module and the norm that it was given: what the two hand to each other are tensors that
nobody else reads. So the part goes on to the end of the norm's derivative, if that is all of it: it is that of both
then. And it leaves to its caller what it begins with, if that is all of a module inside it: the sums of a norm through
which the caller has gone back already.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence

_MOST_LEFT = 2  # calls at the beginning that are left to the caller
_MOST_ADDED = 8  # calls behind the end


@dataclasses.dataclass(frozen=True)
class PartBorder:
    """The calls of a part.

    Attributes:
        path: Its module.
        first: The first call.
        last: The last one.
        also: The other module whose derivative it is, too; empty where there is none.
        without: The module inside whose derivative the caller makes; empty where there is none.
        root: The module that holds both; the module itself where it is one alone.
    """

    path: str
    first: int
    last: int
    also: str = ""
    without: str = ""
    root: str = ""

    def holds(self, path: str) -> bool:
        """Whether a weight is of its modules."""
        return any(path.startswith(f"{one}.") for one in (self.path, self.also) if one)


@dataclasses.dataclass(frozen=True)
class AroundPart:
    """The function that a part stands in.

    Attributes:
        root: The module that it is given.
        also: Another that it is given, and whose derivative it is, too: that of the layer before.
    """

    root: str
    also: str = ""


def part_borders(
    path: str,
    first: int,
    last: int,
    calls: Sequence[int],
    touched: Sequence[Collection[str]],
    around: AroundPart,
) -> Iterator[PartBorder]:
    """Where a part may begin and end, as it is first.

    Args:
        path: Its module.
        first: The first call of it.
        last: The last one.
        calls: The places of the calls that may be part of it, in order.
        touched: By place: the modules that any operation of a call stands in.
        around: Whose part it is.
    """
    begin, end = calls.index(first), calls.index(last)
    whole = PartBorder(path, first, last, root=path)
    yield whole
    if not any(one.startswith(f"{path}.") for place in calls[begin : end + 1] for one in touched[place]):
        return  # a layer that holds no other is called within the work of what holds it: its borders are its own
    for start in range(begin, min(begin + _MOST_LEFT, end) + 1):
        without = _left_to_caller(path, calls[begin:start], calls[start : end + 1], touched)
        if start > begin and not without:
            continue
        for stop in range(end, min(end + _MOST_ADDED + 1, len(calls))):
            border = dataclasses.replace(whole, first=calls[start], last=calls[stop], without=without)
            if stop > end:
                added = _with_added(
                    border, calls[end + 1 : stop + 1], calls[start : stop + 1], touched, around
                )
                if added is None:
                    continue
                border = added
            if border != whole:
                yield border


def _left_to_caller(
    path: str, left: Sequence[int], kept: Sequence[int], touched: Sequence[Collection[str]]
) -> str:
    """The module inside that calls at the beginning are all of; empty if they are more, or less."""
    inside = _innermost({one for place in left for one in touched[place]})
    if len(inside) != 1 or not all(one.startswith(f"{path}.") for one in inside):
        return ""
    without = inside.pop()
    return without if not any(without in touched[place] for place in kept) else ""


def _with_added(
    border: PartBorder,
    added: Sequence[int],
    calls: Sequence[int],
    touched: Sequence[Collection[str]],
    around: AroundPart,
) -> PartBorder | None:
    """A part with some calls behind it; None if these are not one module's more, or not all of it."""
    path = border.path
    beside = _innermost(
        {
            one
            for place in calls
            for one in touched[place]
            if one != path and not one.startswith(f"{path}.") and not path.startswith(f"{one}.")
        }
    )
    if len(beside) > 1:
        return None
    also = next(iter(beside), "")
    mine = {path, also} - {""}
    if not all(mine & {*touched[place]} for place in added):
        return None
    if not also:
        return border
    if any(also in of_one for place, of_one in enumerate(touched) if place not in calls):
        return None
    if also == around.also:
        return dataclasses.replace(border, also=also, root=around.root)
    root = _common(path, also)
    is_inside = not around.root or root == around.root or root.startswith(f"{around.root}.")
    return dataclasses.replace(border, also=also, root=root) if is_inside and root else None


def _innermost(paths: Collection[str]) -> set[str]:
    return {one for one in paths if not any(other.startswith(f"{one}.") for other in paths)}


def _common(path: str, other: str) -> str:
    """The module that holds both."""
    both = []
    for one, two in zip(path.split("."), other.split("."), strict=False):
        if one != two:
            break
        both.append(one)
    return ".".join(both)
