"""From the axes of the scores to those of a tensor that is multiplied with them, or added to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longhand.capture.attention.axes import Group, Groups, ViewAxes, ViewAxis


def axes_of_operand(
    axes: ViewAxes, groups: Groups, of_scores: ViewAxes, dimensions: Sequence[Group]
) -> dict[ViewAxis, Group | None] | None:
    """For each axis of some dimensions of the scores: the axes of a tensor that broadcasts to them.

    Args:
        axes: Of the tensor.
        groups: Its dimensions, which are the last of these.
        of_scores: The axes of the scores.
        dimensions: Dimensions of the scores.

    Returns:
        None for an axis that the tensor does not have: it is the same along it. None instead of all where the tensor's
        dimensions cannot be divided as those of the scores are.
    """
    found: dict[ViewAxis, Group | None] = {}
    first = len(dimensions) - len(groups)
    for place, dimension in enumerate(dimensions):
        parts = of_scores.resolved(dimension)
        own = axes.resolved(groups[place - first]) if place >= first else ()
        if not own:
            found.update(dict.fromkeys(parts))
            continue
        divided = axes.divided(own, [part.size for part in parts])
        if divided is None:
            return None
        found.update(zip(parts, divided, strict=True))
    return found


def joined(axes: ViewAxes, found: Mapping[ViewAxis, Group | None], parts: Group) -> Group | None:
    """The axes of a dimension that is made of several of the scores'; None where the tensor has none of them."""
    own = [axis for part in parts for axis in found[part] or ()]
    return axes.resolved(own) if own else None


def lacks_some(found: Mapping[ViewAxis, Group | None], parts: Group) -> bool:
    """Whether a tensor has some of the axes that a dimension is made of, but not all: it is repeated along others."""
    return len({found[part] is None for part in parts}) > 1
