"""The variables of a pass, by the function that holds them: around layers, and in the function of a loop's layers.

A kernel calls what it is given as its callers do, and a backward pass calls values, and gradients after them, as the
forward pass does. A word is right in the function that has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from longhand.schedule.layers.model_steps import Loop, ModelStep, loops_of
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.layer_names import name_block
from longhand.schedule.plan import Launch, buffers_made, flat_steps


class FunctionVariable(NamedTuple):
    """A variable, and where it has its word.

    Attributes:
        word: What it is called.
        layer: The path of the layer in whose function it stands, with a dot behind it; empty outside of them.
    """

    word: str
    layer: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class FunctionVariables:
    """The variables of all functions of a pass. What is reached through something else is none.

    Attributes:
        around: By buffer: its variable outside of layers.
        inside: By buffer: its variable in the function of its layer.
        in_layers: The kernels and buffers of the calls that stand in layers.
    """

    around: Mapping[str, FunctionVariable]
    inside: Mapping[str, FunctionVariable]
    in_layers: frozenset[tuple[str, tuple[str, ...]]]

    @staticmethod
    def of(steps: Sequence[ModelStep], words: BufferNamer, buffers: Mapping[str, str]) -> FunctionVariables:
        """Those of a pass.

        Args:
            steps: What it does.
            words: Its graph's.
            buffers: Its variables around layers.
        """
        around = {name: word for name, word in buffers.items() if word.isidentifier()}
        inside: dict[str, FunctionVariable] = {}
        in_layers: set[tuple[str, tuple[str, ...]]] = set()
        for loop in loops_of(steps):
            inside |= _of_all_layers(loop, name_block(loop, words, around=around))
            runs = (step for run in loop.repeat.runs for step in flat_steps(run))
            in_layers |= {(step.kernel, step.buffers) for step in runs if isinstance(step, Launch)}
        variables = {name: FunctionVariable(word) for name, word in around.items()}
        return FunctionVariables(variables, inside, frozenset(in_layers))

    def of_buffer(self, buffer: str) -> dict[str, str]:
        """The variables of a buffer, each by its layer."""
        every = (one.get(buffer) for one in (self.around, self.inside))
        return {one.layer: one.word for one in every if one is not None}

    def given(self, launch: Launch, place: int) -> str:
        """What stands at a place of a kernel's call; empty where that is no variable."""
        is_inside = (launch.kernel, launch.buffers) in self.in_layers
        variables = self.inside if is_inside else self.around
        return variables.get(launch.buffers[place], FunctionVariable("")).word


def _of_all_layers(loop: Loop, names: Mapping[str, str]) -> dict[str, FunctionVariable]:
    """By buffer of any layer of a loop: what their function calls it, which is one word for all of them."""
    repeat = loop.repeat
    made = [tuple(name for step in flat_steps(run) for name in buffers_made(step)) for run in repeat.runs]
    columns = [repeat.inputs, repeat.own, repeat.outputs]
    columns += [tuple(made)] if len({len(names) for names in made}) == 1 else []
    variables: dict[str, FunctionVariable] = {}
    for column in columns:
        for run, path in zip(column, repeat.paths, strict=False):
            for own, name in zip(column[loop.pattern], run, strict=False):
                if names.get(own, "").isidentifier():
                    variables[name] = FunctionVariable(names[own], f"{path}.")
    return variables
