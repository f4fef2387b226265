"""Follows which values carry gradients while a graph is made functional, so that no write loses one unseen.

Eager autograd looks at tensors, not at memory: a write under ``torch.no_grad()``, or through a detached alias, changes
the values of a tensor and leaves its gradient as if nothing had happened. A functional graph has no such thing, so
such a write into memory that carries gradients is refused. Into any other memory it stores a value that carries none.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

detach = torch.ops.aten.detach.default

# Besides `detach`, ops that look at an argument's shape and type, never at its values.
_SHAPE_ONLY = frozenset(
    [
        "aten::full_like",
        "aten::zeros_like",
        "aten::ones_like",
        "aten::empty_like",
        "aten::rand_like",
        "aten::randn_like",
        "aten::randint_like",
        "aten::new_full",
        "aten::new_zeros",
        "aten::new_ones",
        "aten::new_empty",
        "aten::new_empty_strided",
    ]
)


# Which of their results are differentiable; of all other ops each that is a float is.
_DIFFERENTIABLE: dict[str, tuple[int, ...]] = {
    "aten::native_batch_norm": (0,),
    "aten::_native_batch_norm_legit": (0,),
    "aten::_native_batch_norm_legit_functional": (0,),
    "aten::_native_batch_norm_legit_no_training": (0,),
    "aten::native_layer_norm": (0,),
    "aten::_batch_norm_with_update": (0,),
    "aten::_batch_norm_with_update_functional": (0,),
    "aten::rrelu_with_noise_functional": (0,),
    "aten::linalg_lu": (1, 2),
    "aten::linalg_lstsq": (0, 1),
    "aten::lu_unpack": (1, 2),
}


class GradientTracking:
    """What of a graph carries gradients.

    Attributes:
        is_stopped: No gradients are recorded at present: what is computed carries none.
    """

    def __init__(self) -> None:
        self.is_stopped = False
        self._nodes: set[fx.Node] = set()

    def add(self, node: fx.Node) -> None:
        """A placeholder that a gradient is wanted for."""
        self._nodes.add(node)

    def note(self, node: fx.Node) -> None:
        """A new call."""
        carries = any(source in self._nodes for source in node.all_input_nodes)
        if carries and not stops(node) and can_carry(node.meta.get("val")):
            self._nodes.add(node)

    def __contains__(self, node: fx.Node) -> bool:
        return node in self._nodes

    def follows(self, node: fx.Node, source: fx.Node) -> bool:
        """Whether a gradient of one value goes on to another, which may be that value itself."""
        waiting, seen = [node] if node in self._nodes else [], {node}
        while waiting:
            current = waiting.pop()
            if current is source:
                return True
            later = [one for one in current.all_input_nodes if one in self._nodes and not one < source]
            waiting += [one for one in later if one not in seen]
            seen.update(later)
        return False

    @contextlib.contextmanager
    def stopped(self, is_stopped: bool = True) -> Iterator[None]:
        """While inside, gradients are recorded or not."""
        before, self.is_stopped = self.is_stopped, is_stopped
        try:
            yield
        finally:
            self.is_stopped = before


def stops(node: fx.Node) -> bool:
    """Whether no gradient flows through a call, whatever it is given."""
    target = node.target
    if target is detach:
        return True
    if target is operator.getitem and isinstance(node.args[0], fx.Node):
        made_by = node.args[0].target
        known = isinstance(made_by, torch._ops.OpOverload) and _DIFFERENTIABLE.get(made_by._schema.name)
        return bool(known) and node.args[1] not in known  # type: ignore[operator]
    return isinstance(target, torch._ops.OpOverload) and target._schema.name in _SHAPE_ONLY


def can_carry(value: Any) -> bool:
    """Whether any tensor of a value has a dtype that gradients flow through."""
    return any(
        leaf.dtype.is_floating_point or leaf.dtype.is_complex
        for leaf in pytree.tree_leaves(value)
        if isinstance(leaf, torch.Tensor)
    )
