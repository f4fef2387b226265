"""The layers of model.py: which loops there are, which of them share a class, and what calls them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from longhand.emit.layers.loops import FirstCall, Loop, ModelStep, does_the_same, layers_called
from longhand.emit.layers.model_loops import Block, write_first_call, write_loop
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.model_weights import BlockClass, construct_block
from longhand.emit.module.module_tree import ModuleTree
from longhand.schedule.plan import UnitPlan


@dataclasses.dataclass(frozen=True)
class WrittenLayers:
    """All loops of a function.

    Attributes:
        blocks: Each loop with the class (in a backward pass the function) that it calls, in order.
        lines: By the step's place: the lines of a loop, and of the call of the run before it.
    """

    blocks: tuple[tuple[Loop, Block], ...]
    lines: Mapping[int, list[str]]

    @property
    def runtime_names(self) -> frozenset[str]:
        """What the classes need of runtime.py."""
        return frozenset().union(*(block.runtime_names for _, block in self.blocks))


def write_layers(
    steps: Sequence[ModelStep],
    name: str,
    plan: UnitPlan,
    tree: ModuleTree,
    body: BodyWriter,
    write: Callable[[Loop, BodyWriter, list[str]], tuple[Block, list[str]]],
) -> WrittenLayers:
    """Writes every loop among the steps.

    Args:
        steps: Of the function.
        name: Of the graph, which no class may have.
        plan: The unit's plan.
        tree: Its modules.
        body: The writer of the function around the loops.
        write: Writes a loop and its class, given names of classes that are there already.
    """
    lines: dict[int, list[str]] = {}
    blocks: list[tuple[Loop, Block]] = []
    for place, step in enumerate(steps):
        if not isinstance(step, Loop):
            continue
        known = _known_block(step, blocks, plan)
        if known is None:
            block, lines[place] = write(step, body, [name, *(made.name for _, made in blocks)])
        else:
            block = known
            lines[place] = write_loop(step, block, tree.root, body)
        blocks.append((step, block))
        if step.n_head:
            call = max(n for n in range(place) if isinstance(steps[n], FirstCall))
            first = steps[call]
            assert isinstance(first, FirstCall)
            lines[call] = write_first_call(first, step, block, tree.root, body)
    return WrittenLayers(tuple(blocks), lines)


def _known_block(loop: Loop, before: Sequence[tuple[Loop, Block]], plan: UnitPlan) -> Block | None:
    """The class of an earlier loop over the same list, if this one does the same."""
    if loop.own or loop.n_head:
        return None
    same = (block for other, block in before if does_the_same(loop, other, plan.buffers))
    return next(same, None)


def layers_by_class(steps: Sequence[ModelStep]) -> dict[str, frozenset[int]]:
    """By the path of a list: the positions of the layers that are called by a class's methods."""
    found: dict[str, frozenset[int]] = {}
    for step in steps:
        if isinstance(step, Loop):
            found[step.owner] = found.get(step.owner, frozenset()) | layers_called(step)
    return found


def classes_of(blocks: Sequence[tuple[Loop, Block]], tree: ModuleTree) -> dict[str, list[BlockClass]]:
    """Which blocks of each list have which class."""
    found: dict[str, list[BlockClass]] = {}
    for loop, block in blocks:
        made = construct_block(tree.root, f"{loop.owner}.{loop.positions[0]}", block.position)
        found.setdefault(loop.owner, []).append(
            BlockClass(block.name, layers_called(loop), made, block.position)
        )
    return found
