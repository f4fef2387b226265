"""What layers are given of what comes next: the norm that each ends in is the next one's, or the one behind all.

norms = [*(layer.norm_1 for layer in self.layers), self.norm]
for block, next_norm in zip(self.layers, norms[1:], strict=True):
    x, residual = block(x, residual, next_norm.weight)

Backwards a layer ends in the derivative of the norm before it, the first one in that of the norm before all of them:

norms = [model.norm, *(layer.norm_2 for layer in model.layers)]
for layer in reversed(range(len(saved.layers))):
    d_x, d_layers[layer] = layer_backward(model.layers[layer], saved.layers.pop(), norms[layer], d_x)
"""

from __future__ import annotations

import dataclasses
import textwrap

from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_tree import expression, member, module_expression
from longhand.schedule.named_plan import Branch, LayerNames, Loop, Reached

_WIDEST = 103  # of a line of a docstring


@dataclasses.dataclass(frozen=True)
class FollowingModules:
    """The modules in a list, by the place of the layer that they are the beginning of.

    Attributes:
        word: For one of them: ``norm``.
        made: The line that makes the list.
        kinds: The weights that a layer is given of one: ``weight``, ``bias``.
    """

    word: str
    made: str
    kinds: tuple[Reached, ...]

    def weights(self, module: str) -> list[str]:
        """What a layer is given of one of them."""
        return [str(member(kind, module)) for kind in self.kinds]


def modules_that_follow(loop: Loop, tree: Branch, outer: BodyWriter) -> FollowingModules | None:
    """The modules behind the layers of a loop; None if these are given nothing of them."""
    following = loop.following
    if following is None:
        return None
    word = outer.names.of_layers(loop).following
    owner = member(module_expression(tree, loop.owner))
    layer = tree.at(f"{loop.owner}.{loop.positions[0]}")
    inside = module_expression(layer, following.path)
    last = member(module_expression(tree, following.last))
    made = f"{word}s = [*({member(inside, 'layer')} for layer in {owner}), {last}]"
    if places := _places_of_some(tree.at(loop.owner), following.path, owner):
        own = member(inside, f"{owner}[layer]")
        made = f"{word}s = {{**{{layer: {own} for layer in {places}}}, len({owner}): {last}}}"
    kinds = tuple(expression(layer.at(following.path), kind) for kind in following.weights.values())
    return FollowingModules(word, made, kinds)


def _places_of_some(layers: Branch, path: str, owner: str) -> str:
    """``range(11, len(self.layers))``: which layers of a list have a module; empty where all have.

    Others are of another kind, or only keep a place.
    """
    having = [place for place, layer in enumerate(layers.branches.values()) if _has(layer, path)]
    n_layers = len(layers.branches)
    if len(having) == n_layers or not having:
        return ""
    if having == [*range(having[0], n_layers)]:
        return f"range({having[0]}, len({owner}))"
    return f"({', '.join(map(str, having))},)"


def _has(layer: Branch, path: str) -> bool:
    for part in path.split("."):
        if layer.is_gap or part not in layer.branches:
            return False
        layer = layer.branches[part]
    return True


@dataclasses.dataclass(frozen=True)
class ModuleBefore:
    """What a layer's function of backward.py is given of what comes before the layer.

    Attributes:
        parameters: What it calls it: ``previous_norm``.
        weights: What of it is read: buffers of the pattern.
        made: The line that makes the list of them, if there is one.
        given: What the call for one layer is given.
        remark: A sentence about it.
    """

    parameters: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    remark: str = ""


def module_before(loop: Loop, tree: Branch, words: LayerNames, model: str) -> ModuleBefore:
    """The module in whose derivative layers end, if any.

    Args:
        loop: The layers, in a backward pass.
        tree: The forward pass's modules.
        words: The layers'.
        model: What the function around calls the model.
    """
    preceding = loop.preceding
    if preceding is None:
        return ModuleBefore()
    weights = tuple(preceding.weights)
    variable = words.variables[weights[0]]
    assert isinstance(variable, Reached)
    parameters = (str(variable.steps[0]),)
    owner = member(module_expression(tree, loop.owner), model)
    begin = min(loop.positions)
    inside = module_expression(tree.at(f"{loop.owner}.{begin}"), preceding.path)
    remark = f"Ends with the derivative of the previous layer's {preceding.path}"
    if begin:
        given = str(member(inside, f"{owner}[layer - 1]"))
        return ModuleBefore(parameters, weights, (), (given,), f"{remark}.")
    word = f"{words.following}s"
    first = member(module_expression(tree, preceding.first), model)
    made = f"{word} = [{first}, *({member(inside, 'layer')} for layer in {owner})]"
    if places := _places_of_some(tree.at(loop.owner), preceding.path, owner):
        own = member(inside, f"{owner}[layer]")
        made = f"{word} = {{0: {first}, **{{layer + 1: {own} for layer in {places}}}}}"
    remark = f"{remark}; the first one with that of {preceding.first}."
    told = textwrap.fill(remark, _WIDEST)
    return ModuleBefore(parameters, weights, (made,), (f"{word}[layer]",), told)
