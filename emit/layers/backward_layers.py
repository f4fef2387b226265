"""What the function of equal layers in backward.py reads, and its words: its layer, the record, the norm before."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping

from longhand.emit.layers.backward_records import MODEL, LayersApart
from longhand.emit.layers.derivative_functions import DividedFunction
from longhand.emit.layers.divided_functions import divided_layer
from longhand.emit.layers.following_modules import ModuleBefore, module_before
from longhand.emit.layers.layer_numbers import LayerNumbers
from longhand.emit.module.module_tree import Branch, expression, member
from longhand.emit.text.python_code import Code
from longhand.emit.text.sizes import SizeWriter
from longhand.schedule.named_plan import SAVED, LayerNames, Loop, Reached, weights_inside

_LAYER = ("layer", "block", "module", "own_module")  # what one layer's calls its own


@dataclasses.dataclass(frozen=True)
class BackwardLayers:
    """The function of equal layers.

    Attributes:
        module: What it calls its layer.
        variables: Its variables.
        weights: Those of the layer that it reads.
        made: What it reads of the record.
        before: The module before its own that it is given, if any.
        numbers: The numbers in which layers differ.
        divided: What it does, to be divided.
    """

    module: str
    variables: dict[str, str]
    weights: tuple[str, ...]
    made: tuple[str, ...]
    before: ModuleBefore
    numbers: LayerNumbers
    divided: DividedFunction

    @property
    def fields(self) -> set[str]:
        """What it reaches by a module or the record, as it is told."""
        return {self.variables[node] for node in (*self.made, *self.weights, *self.before.weights)}


def backward_layers(
    loop: Loop,
    words: LayerNames,
    kept: LayersApart,
    weights: Mapping[str, str],
    gradients: Mapping[str, str],
    root: Branch,
    numbered: Callable[[Collection[str]], LayerNumbers],
    returned: Callable[[int, str, SizeWriter], Code],
) -> BackwardLayers:
    """The function of a loop.

    Args:
        loop: The layers.
        words: Theirs.
        kept: What the forward pass keeps for each.
        weights: By placeholder: the path of a parameter.
        gradients: By buffer: the weight that it holds the gradient of.
        root: Of the forward pass's modules.
        numbered: The parameters for numbers in which layers differ, beside those of some names.
        returned: How it returns the gradient of an output, by its place.
    """
    variables = dict(words.variables)
    inside = weights_inside(loop, weights)
    if kept.record is None:
        named = zip(kept.own[-1], kept.fields, strict=True)
        variables |= {node: Reached.field_of(SAVED, word) for node, word in named}
    layer = next(word for word in _LAYER if word not in variables.values())
    own = root.at(f"{loop.owner}.{loop.positions[0]}")
    of_layer = {loop.own[0][place]: member(expression(own, below), layer) for place, below in inside.items()}
    variables |= of_layer
    before = module_before(loop, root, words, MODEL)
    made = tuple(node for node in loop.own[0] if node not in of_layer)
    inside_model = {loop.own[0][at]: f"{loop.repeat.paths[0]}.{below}" for at, below in inside.items()}
    inside_model |= {node: weights[node] for node in before.weights}
    numbers = numbered(variables.values())
    launches = [launch for launch, _ in numbers.at]
    divided = divided_layer(loop, variables, gradients, inside_model, launches, returned)
    return BackwardLayers(layer, variables, tuple(of_layer), made, before, numbers, divided)
