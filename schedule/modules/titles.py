"""What stands above a paragraph where the user's statement only calls what holds its modules: ``x = self.features(x)``.

Such a statement says nothing of what is done, the modules do: ``features[4] to features[6]: Conv2d, BatchNorm2d,
ReLU``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from longhand.capture.graph import Provenance
from longhand.schedule.modules.headings import Home, path_text

_LONGEST = 90


@dataclasses.dataclass(frozen=True)
class CalledModule:
    """A module that does part of what a paragraph does.

    Attributes:
        path: The way to it from the function's own module, as that is told.
        name: Its class.
        is_again: Whether a backward pass but computes once more what it does.
    """

    path: tuple[str, ...]
    name: str
    is_again: bool = False


def is_called_by_holder(where: Provenance) -> bool:
    """Whether the statement that an operation came from calls a layer of PyTorch's without naming it."""
    *_, last = where.module.split(".")
    if not last or not hasattr(torch.nn, where.module_class) or not where.statement:
        return False
    if where.module_class in where.qualname.split("."):
        return False  # the user's own, of the same name
    return (f"[{last}]" if last.isdigit() else last) not in where.statement


def told_module(where: Provenance) -> str:
    """``features[4]: Conv2d``, where the statement calls it without naming it; else nothing."""
    if not is_called_by_holder(where):
        return ""
    return f"{path_text(where.module.split('.'))}: {where.module_class}"


def told_apart(
    stated: Sequence[Provenance], home: Home | None, in_backward: bool = False
) -> tuple[Sequence[Provenance], tuple[CalledModule, ...]]:
    """Those statements that say themselves what is done, and the modules below the function's own that others call.

    Of a statement that does more than call the module, ``out + self.shortcut(x)``, no module is told.

    Args:
        stated: Where operations came from.
        home: The function's module.
        in_backward: Whether what is not differentiated there is computed again.
    """
    if home is None:
        return stated, ()
    told = [one for one in stated if not is_called_by_holder(one)]
    said = {(one.qualname, one.statement) for one in told}
    unnamed = [
        one for one in stated if is_called_by_holder(one) and (one.qualname, one.statement) not in said
    ]
    derived = {one.module for one in unnamed if one.is_of_gradient or not in_backward}
    found = (
        CalledModule(tuple(home.told(home.below(one.module))), one.module_class, one.module not in derived)
        for one in unnamed
    )
    return told, tuple(dict.fromkeys(one for one in found if one.path))


def title_of(modules: Sequence[CalledModule]) -> str:
    """``features[4] to features[6]: Conv2d, BatchNorm2d, ReLU``; ``stem.conv, stem.norm: Conv2d, LayerNorm``.

    ``again: `` stands before those of which nothing is differentiated.
    """
    differentiated = {one.path for one in modules if not one.is_again}
    by_holder: dict[tuple[bool, tuple[str, ...]], list[CalledModule]] = {}
    for one in modules:
        if not one.is_again or one.path not in differentiated:
            by_holder.setdefault((one.is_again, one.path[:-1]), []).append(one)
    found = []
    for (is_again, _), members in by_holder.items():
        ordered = sorted(members, key=_place)
        where, what = _paths(ordered), ", ".join(one.name for one in ordered)
        said = f"{where}: {what}" if len(where) + len(what) <= _LONGEST else where
        found.append(f"again: {said}" if is_again else said)
    text = "; ".join(found)
    return text if len(text) <= _LONGEST or len(found) == 1 else found[0]


def _place(one: CalledModule) -> int:
    return int(one.path[-1]) if one.path[-1].isdigit() else -1


def _paths(members: Sequence[CalledModule]) -> str:
    """``features[4] to features[6]``, ``a.long.path[4] and [5]``; of others each: ``head[0], head[3]``."""
    texts = [path_text(one.path) for one in members]
    places = [_place(one) for one in members]
    is_run = len(members) > 1 and places == list(range(places[0], places[0] + len(places)))
    listed = ", ".join(texts)
    is_run = is_run or len(listed) > _LONGEST
    joint = "and" if len(members) == 2 else "to"
    span = f"{texts[0]} {joint} {texts[-1]}"
    if len(span) > _LONGEST and len(members) > 1 and places[-1] >= 0:
        span = f"{texts[0]} {joint} [{places[-1]}]"  # of one list
    return span if is_run else listed
