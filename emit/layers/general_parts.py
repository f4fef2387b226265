"""Parts of derivatives as one function does them for modules of several sizes: what reads shapes, and what these tell."""

from __future__ import annotations

import copy
import dataclasses
from collections import ChainMap
from collections.abc import Mapping, Sequence

from longhand.emit.module.model_body import BodyWriter
from longhand.emit.text.told_sizes import BoundSizes
from longhand.schedule.named_plan import PartSizes
from longhand.schedule.plan import PlanStep


def with_part_sizes(
    inside: BodyWriter, steps: Sequence[PlanStep], sizes: PartSizes
) -> tuple[BodyWriter, list[PlanStep]]:
    """The writer of a part, and its steps, with numbers that sizes tell.

    Args:
        inside: Its writer, which knows calls by the identity of its steps.
        steps: What the part does.
        sizes: The part's.
    """
    if not sizes.steps and not sizes.shapes:
        return inside, list(steps)
    own, body = [sizes.steps.get(id(step), step) for step in steps], copy.copy(inside)
    pairs = zip(steps, own, strict=True)
    body.calls = {id(new): inside.calls[id(old)] for old, new in pairs if id(old) in inside.calls}
    buffers = inside.plan.buffers
    told = {name: dataclasses.replace(buffers[name], shape=shape) for name, shape in sizes.shapes.items()}
    body.plan = dataclasses.replace(inside.plan, buffers=ChainMap(told, {**buffers}))
    return body, own


def bound_by(sizes: PartSizes, bound: BoundSizes, variables: Mapping[str, str]) -> BoundSizes:
    """The words that a part binds; those of sizes that differ from module to module by what has them.

    Args:
        sizes: The part's.
        bound: The words, with this part's own sizes.
        variables: The part's.
    """
    stated: dict[str, int | str] = {}
    for word, size in bound.stated.items():
        told = sizes.tells(word, size)
        stated[word] = size if told is None else f"{variables[told[0]]}.shape[{told[1]}]"
    return dataclasses.replace(bound, stated=stated)
