"""What an argument is, as far as its dimensions go: an image, a signal over time, the ends of edges."""

from __future__ import annotations

import re

import torch
from torch import fx

from longhand.schedule.names.dimensions.compound_names import Words
from longhand.schedule.names.dimensions.dimension_propagation import shape_of
from longhand.schedule.names.operation_names import aten_name
from longhand.schedule.names.words import identifier, plural

_OF_INDICES = re.compile(r"(\w+)_(?:index|indices|idx)")  # ``edge_index``
# Words of arguments that are images.
_IMAGES = frozenset({"image", "images", "img", "imgs", "pixel", "pixels", "picture", "pictures"})


def is_image(node: fx.Node, argument: str) -> bool:
    """Whether four dimensions are an image's: by its name, by what follows, or because it is cut into patches."""
    named = not _IMAGES.isdisjoint(identifier(argument).lower().split("_"))
    return named or _feeds_image_op(node) or any(map(_is_cut_into_patches, node.users))


def _is_cut_into_patches(node: fx.Node) -> bool:
    """Whether a view cuts both of an image's last dimensions in two, as ``b c (h p) (w q)`` does."""
    return aten_name(node) in ("view", "reshape", "_unsafe_view") and len(node.meta["val"].shape) == 6


def _feeds_image_op(node: fx.Node) -> bool:
    """Whether some image operation follows: then four dimensions are an image's."""
    image = ("conv", "batch_norm", "group_norm", "instance_norm", "pool", "upsample", "pixel_shuffle")
    return any(
        any(word in aten_name(user) for word in image)
        for user in node.graph.nodes
        if user.op == "call_function"
    )


def words_of_ends(node: fx.Node, argument: str) -> Words | None:
    """``(None, "n_edges")`` of ``edge_index``, whose rows are read each by itself: no batch, and no sequences.

    None of whole numbers that are read in any other way, as tokens are.
    """
    users = [user for user in node.users if user.op == "call_function"]
    if not users or not all(map(_takes_a_row, users)):
        return None
    counted = _OF_INDICES.fullmatch(identifier(argument))
    return (None, f"n_{plural(counted[1])}" if counted else None)


def _takes_a_row(user: fx.Node) -> bool:
    """Whether an operation takes one of a tensor's rows, or all of them apart."""
    name, given = aten_name(user), [*user.args[1:], 0]
    first = given[0]
    return name in ("select", "unbind") and isinstance(first, int) and first == 0


def is_signal(argument: fx.Node) -> bool:
    """Whether an argument, or what is computed from it element by element, goes into a convolution over a line."""
    waiting, seen = [argument], {argument}
    while waiting:
        node = waiting.pop()
        for user in node.users:
            if aten_name(user).startswith("conv") and user.args[0] is node:
                return True
            is_alike = isinstance(user.meta.get("val"), torch.Tensor) and _as_large(user, argument)
            if is_alike and user not in seen:
                seen.add(user)
                waiting.append(user)
    return False


def _as_large(node: fx.Node, argument: fx.Node) -> bool:
    """Whether a value has an argument's dimensions, or those with one of a single channel among them."""
    shape, other = shape_of(node), shape_of(argument)
    return shape == other or (len(other) == 2 and shape == (other[0], 1, other[1]))
