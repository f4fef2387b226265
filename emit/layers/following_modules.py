"""What layers are given of what comes next: the norm that each ends in is the next one's, or the one behind all.

norms = [*(layer.norm_1 for layer in self.layers), self.norm]
for block, next_norm in zip(self.layers, norms[1:], strict=True):
    x, residual = block(x, residual, next_norm.weight)
"""

from __future__ import annotations

import dataclasses

from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_tree import expression, member, module_expression
from longhand.schedule.named_plan import Branch, Loop, Reached


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
    own = member(module_expression(layer, following.path), "layer")
    last = member(module_expression(tree, following.last))
    made = f"{word}s = [*({own} for layer in {owner}), {last}]"
    kinds = tuple(expression(layer.at(following.path), kind) for kind in following.weights.values())
    return FollowingModules(word, made, kinds)
