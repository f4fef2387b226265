"""How the words of dimensions pass through operations: from the arguments of a node to its result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from longhand.lower.ir import Size
from longhand.schedule.names.dimensions.compound_names import (
    PaddedWord,
    ProductWord,
    Words,
)
from longhand.schedule.names.dimensions.parts import with_parts
from longhand.schedule.names.dimensions.reshaped_words import reshaped
from longhand.schedule.names.dimensions.stated_sizes import (
    PACKED,
    word_of_count,
    word_of_end,
    word_of_split,
    words_of_reshape,
)
from longhand.schedule.names.operation_names import aten_name, provenance_of
from longhand.schedule.sizes import as_size, same, times

_ENDS_OF_LINES = ("samples", "length", "frames")  # of what a convolution or a pool over a line goes along
_GROUPS = 6  # which argument of conv2d they are; of convolution two more come before them
_REDUCTION_OPS = """
    sum mean prod amax amin max min var std any all argmax argmin logsumexp norm linalg_vector_norm var_mean
"""
_REDUCTIONS = frozenset(_REDUCTION_OPS.split())
_POOLS = ("conv", "max_pool", "avg_pool", "adaptive_")
RESHAPES = frozenset({"view", "_unsafe_view", "reshape", "flatten", "unflatten"})
_MATMULS = frozenset({"mm", "bmm", "matmul", "baddbmm"})


def shape_of(node: Any) -> tuple[Size, ...]:
    """A tensor's sizes; terms of symbols where they may vary, which compare without a guard on what data decides."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return tuple(map(as_size, value.shape)) if isinstance(value, torch.Tensor) else ()


def propagated_names(node: fx.Node, words: Mapping[str, Words]) -> Words:
    """The words of a result, from those of its arguments."""
    name, shape = aten_name(node), shape_of(node)
    given = [argument for argument in node.all_input_nodes if shape_of(argument)]
    first = words.get(given[0].name, (None,) * len(shape_of(given[0]))) if given else ()
    if name == "linear" and len(first) == len(shape):
        weight = words.get(given[1].name, (None,)) if len(given) > 1 else (None,)
        return (*first[:-1], weight[0] if weight[0] not in first[:-1] else None)
    if name == "constant_pad_nd" and len(first) == len(shape):
        return tuple(
            (
                word
                if word is None or str(old) == str(new) or isinstance(word, ProductWord)
                else _padded_word(word, node, words)
            )
            for word, old, new in zip(first, shape_of(given[0]), shape, strict=True)
        )
    if name in _MATMULS and len(given) > 1:
        first, second = (words.get(one.name, (None,) * len(shape_of(one))) for one in given[-2:])
        if len(first) == len(shape) == len(second):
            return (*first[:-1], second[-1])
    if name == "addmm" and len(given) == 3:
        return (words.get(given[1].name, (None, None))[0], None)
    if name == "embedding":
        indices = words.get(given[-1].name, ())
        of_table = words.get(given[0].name, (None, "dim"))[-1]
        return (*indices, of_table) if len(indices) == len(shape) - 1 else (None,) * len(shape)
    if name.lstrip("_").startswith(_POOLS) and len(first) == len(shape):
        made = _of_image(name, first, shape_of(given[0]), shape)
        return _put(made, 1, first[1]) if is_depthwise(node, given[0]) else made
    if name in ("transpose", "permute", "t", "unsqueeze", "select"):
        moved = _moved(name, node.args, first, len(shape))
        if moved is not None and len(moved) == len(shape):
            return moved
    if name in RESHAPES:
        carried = reshaped(shape_of(given[0]) if given else (), first, shape)
        if given and _is_grouped(node, shape_of(given[0]), shape):
            return filled(carried, (None, "n_groups", "group_channels", *(None,) * (len(shape) - 3)))
        stated = words_of_reshape(provenance_of(node), shape)
        if stated[-1:] == ("head_dim",) and _is_taken_apart(node):
            stated = (*stated[:-1], PACKED)
        old = shape_of(given[0]) if given else ()
        if _contradict(dict(zip(first, old, strict=False)), dict(zip(stated, shape, strict=True))):
            return carried  # another reshape of the same statement: one inside of a matmul
        # A product gives way to the user's own word for it, but for the rows of all: ``batch * seq``.
        plain = tuple(
            own if own and place and own not in carried and isinstance(word, ProductWord) else word
            for place, (word, own) in enumerate(zip(carried, stated, strict=True))
        )
        return filled(plain, stated)
    if name == "getitem" and isinstance(node.args[0], fx.Node):
        whole = [argument for argument in node.args[0].all_input_nodes if shape_of(argument)][:1]
        if not whole:
            return (None,) * len(shape)
        if "scaled_dot_product" in aten_name(node.args[0]) and len(shape) == len(shape_of(whole[0])) - 1:
            of_queries = words.get(whole[0].name, (None,) * (len(shape) + 1))
            return _as_long(of_queries[:-1], shape_of(whole[0]), shape)  # logsumexp, which may be padded
        known = words.get(whole[0].name, ())
        if aten_name(node.args[0]) == "unbind" and len(known) == len(shape) + 1:
            dim = (*node.args[0].args[1:], 0)[0]
            assert isinstance(dim, int)
            return _without(known, dim % len(known))
        if "batch_norm" in aten_name(node.args[0]) and len(shape) == 1 and len(known) > 1:
            return known[1:2]  # statistics of the channels
        piece = _of_piece(whole[0], words, shape)
        if aten_name(node.args[0]) == "topk" and len(piece) == len(shape):
            return _of_chosen(node.args[0], piece)
        if not aten_name(node.args[0]).startswith("split") or len(piece) != len(shape):
            return piece
        dim = (*node.args[0].args[2:], 0)[0]
        place = node.args[1]
        assert isinstance(dim, int) and isinstance(place, int)
        nothing: Words = (None,) * len(shape)
        return filled(
            piece, _put(nothing, dim % len(shape), word_of_split(provenance_of(node).statement, place))
        )
    if name in ("slice", "narrow") and given:
        dim, start = (*node.args[1:], 0, 0)[:2]
        of_piece = _of_piece(given[0], words, shape)
        if name == "slice" and isinstance(dim, int) and start == 0 and of_piece[dim] is None:
            word = words.get(given[0].name, (None,) * len(shape))[dim]
            end = word_of_end(provenance_of(node).statement, dim % len(shape), len(shape))
            end = end if end not in of_piece and not provenance_of(node).differentiates else None
            return _put(of_piece, dim % len(shape), word.of if isinstance(word, PaddedWord) else end)
        return of_piece
    if name in ("_grouped_mm", "grouped_mm_fallback") and len(first) == len(shape) == 2:
        return (first[0], None)
    if name in ("gather", "index", "index_select"):
        return _of_picked(name, node.args, words, len(shape))
    if "batch_norm" in name or name == "group_norm":
        return first if len(first) == len(shape) else (None,) * len(shape)
    if name in _REDUCTIONS:
        reduced = _reduced(node.args, first, len(shape))
        return reduced if len(reduced) == len(shape) else (None,) * len(shape)
    if name == "expand" and given:
        return filled(_broadcast(given, words, shape), words_of_reshape(provenance_of(node), shape))
    if name == "stack" and given:
        return with_parts(_joined(given, words, shape_of(given[0])), node)
    if name == "cat" and given and all(len(shape_of(one)) == len(shape) for one in given):
        return _joined(given, words, shape)
    if name in ("cross_entropy_loss", "nll_loss_forward") and len(first) == len(shape) + 1:
        return first[:-1]
    if name == "scaled_dot_product_attention" and len(first) == len(shape):
        values = words.get(given[2].name, ()) if len(given) > 2 else ()
        return (*first[:-1], values[-1] if len(values) == len(shape) else None)
    return _broadcast(given, words, shape)


def _is_grouped(node: fx.Node, old: tuple[Size, ...], new: tuple[Size, ...]) -> bool:
    """Whether a norm takes the channels of images apart: into groups, and the channels of each."""
    origin = provenance_of(node)
    if (
        len(new) != len(old) + 1
        or len(old) < 3
        or "norm" not in f"{origin.module_class} {origin.statement}".lower()
    ):
        return False
    return same(old[0], new[0]) and same(old[1], times(new[1], new[2])) and [*old[2:]] == [*new[3:]]


def _is_taken_apart(node: fx.Node) -> bool:
    """Whether what a reshape left for the last dimension holds three things or more: queries, keys and values."""
    for user in node.users:
        name = aten_name(user) if user.args[:1] == (node,) else ""
        dim = (*user.args[2:], 0)[0] if name.startswith(("split", "chunk")) else None
        if isinstance(dim, int) and dim in (-1, len(shape_of(node)) - 1):
            return len(user.meta["val"]) > 2
    return False


def _of_chosen(call: fx.Node, piece: Words) -> Words:
    """The words of the largest of a dimension: how many there are the user's statement says."""
    dim = call.args[2] if len(call.args) > 2 else -1
    assert isinstance(dim, int)
    word = word_of_count(provenance_of(call).statement)
    return _put(piece, dim % len(piece), word if word not in piece else None)


def _of_picked(name: str, args: tuple[Any, ...], words: Mapping[str, Words], n_dims: int) -> Words:
    """The words of elements, or of rows, that positions pick: those of the positions, and of what is picked whole."""
    table, places = args[0], args[1] if name == "index" else args[2]
    if name == "index" and isinstance(places, list | tuple) and len(places) == 1:
        (places,) = places
    if not isinstance(places, fx.Node) or not isinstance(table, fx.Node):
        return (None,) * n_dims
    known = words.get(places.name, (None,) * len(shape_of(places)))
    rows = words.get(table.name, (None,) * len(shape_of(table)))
    picked = known
    if name == "index":
        picked = (*known, *rows[1:])
    elif name == "index_select" and rows:  # of a single number it picks that number
        dim = args[1] % len(rows)
        picked = (*rows[:dim], *known, *rows[dim + 1 :])
    if len(picked) != n_dims or not isinstance(places.meta.get("val"), torch.Tensor):
        return (None,) * n_dims
    is_mask = places.meta["val"].dtype is torch.bool
    return (None,) * n_dims if is_mask else _each_once(picked)


def _each_once(words: Words) -> Words:
    """The words, each for the first of the dimensions that have it."""
    return tuple(word if word not in words[:place] else None for place, word in enumerate(words))


def _contradict(known: Mapping[str | None, Size], stated: Mapping[str | None, Size]) -> bool:
    """Whether a word stands for two sizes."""
    return any(word and word in known and str(known[word]) != str(size) for word, size in stated.items())


def _padded_word(word: str, node: fx.Node, words: Mapping[str, Words]) -> str | None:
    """The word of a dimension that `node` makes larger.

    The gradient of a piece is as large as what the piece was cut from: that was padded, or nothing is.
    """
    padded = PaddedWord(word)
    is_padded = not provenance_of(node).gradient_of or any(padded in known for known in words.values())
    return padded if is_padded else None


def _put(words: Words, place: int, word: str | None) -> Words:
    return (*words[:place], word, *words[place + 1 :])


def filled(words: Words, others: Words) -> Words:
    """`words`, and where there is none the other, unless it stands elsewhere in them."""
    return tuple(
        word if word is not None else other if other not in words else None
        for word, other in zip(words, others, strict=True)
    )


def _of_image(name: str, first: Words, old: tuple[Size, ...], new: tuple[Size, ...]) -> Words:
    """A convolution makes other channels; what it leaves as large as it was keeps its word."""
    kept = [
        word if str(size) == str(made) else _made(word)
        for word, size, made in zip(first, old, new, strict=True)
    ]
    return (first[0], _made(first[1]) if name.startswith("conv") else first[1], *kept[2:])


def is_depthwise(node: fx.Node, image: fx.Node) -> bool:
    """Whether a convolution makes of each channel one by itself."""
    channels = shape_of(image)[1:2]
    is_convolution = aten_name(node).startswith("conv") and len(node.args) > _GROUPS
    groups = node.args[_GROUPS + (aten_name(node) == "convolution") * 2] if is_convolution else None
    return isinstance(groups, int) and groups > 1 and (groups,) == channels == shape_of(node)[1:2]


def _made(word: str | None) -> str | None:
    """``out_channels``: what stands in the place of channels after an operation on images."""
    if word is None or isinstance(word, ProductWord):
        return None
    plain = re.sub(r"^((out|padded)_)+", "", word)  # one word for what many layers make, in a row of them
    return "n_frames" if plain.rpartition("_")[2] in _ENDS_OF_LINES else f"out_{plain}"


def _moved(name: str, args: tuple[Any, ...], first: Words, n_dims: int) -> Words | None:
    if name == "t":
        return tuple(reversed(first))
    if name == "permute":
        return tuple(first[dim] for dim in args[1])
    if name == "transpose":
        moved = list(first)
        one, other = args[1], args[2]
        moved[one], moved[other] = moved[other], moved[one]
        return tuple(moved)
    dim = args[1] % n_dims if name == "unsqueeze" else args[1] % len(first)
    if name == "unsqueeze":
        return (*first[:dim], None, *first[dim:])
    return _without(first, dim)


def _without(words: Words, dim: int) -> Words:
    return (*words[:dim], *words[dim + 1 :])


def moved_back(name: str, args: tuple[Any, ...], words: Words, n_dims: int) -> Words | None:
    """The words of what `_moved` moved the dimensions of, where the result has `words`."""
    if name in ("t", "transpose"):
        return _moved(name, args, words, len(words))
    if name == "permute":
        moved: list[str | None] = [None] * n_dims
        for word, dim in zip(words, args[1], strict=True):
            moved[dim] = word
        return tuple(moved)
    dim = args[1] % len(words) if name == "unsqueeze" else args[1] % n_dims
    if name == "unsqueeze":
        return (*words[:dim], *words[dim + 1 :])
    return (*words[:dim], None, *words[dim:])


def _joined(pieces: list[fx.Node], words: Mapping[str, Words], shape: tuple[Size, ...]) -> Words:
    """The words of what pieces are joined to: of the dimensions that the first of them with a word has whole."""
    joined: Words = (None,) * len(shape)
    for piece in pieces:
        carried = words.get(piece.name, ())
        if len(carried) == len(shape):
            sizes = zip(carried, shape_of(piece), shape, strict=True)
            joined = filled(joined, tuple(word if str(old) == str(new) else None for word, old, new in sizes))
    for piece in pieces:  # of a value that is put together again: a part of it was rotated
        whole = piece.args[0] if aten_name(piece) == "slice" else None
        if (
            isinstance(whole, fx.Node)
            and shape_of(whole) == shape
            and len(words.get(whole.name, ())) == len(shape)
        ):
            joined = filled(joined, words[whole.name])
    return joined


def _of_piece(whole: fx.Node, words: Mapping[str, Words], shape: tuple[Size, ...]) -> Words:
    """The words of a piece of a split tensor: of the dimensions that it has whole."""
    old, carried = shape_of(whole), words.get(whole.name, ())
    if len(old) != len(shape) or len(carried) != len(shape):
        return (None,) * len(shape)
    return _as_long(carried, old, shape)


def _as_long(words: Words, old: tuple[Size, ...], new: tuple[Size, ...]) -> Words:
    """The words of the dimensions that are as long in another shape."""
    return tuple(
        word if str(size) == str(part) else None for word, size, part in zip(words, old, new, strict=False)
    )


def _reduced(args: tuple[Any, ...], first: Words, n_dims: int) -> Words:
    """The words that are left when dimensions are reduced, kept as 1 or dropped."""
    dims = args[1] if len(args) > 1 else None
    if dims is None or isinstance(dims, bool) or len(first) == 0:
        return (None,) * n_dims
    gone = {dim % len(first) for dim in (dims if isinstance(dims, list | tuple) else [dims])}
    if not gone:
        return (None,) * n_dims
    if n_dims == len(first):
        return tuple(None if dim in gone else word for dim, word in enumerate(first))
    return tuple(word for dim, word in enumerate(first) if dim not in gone)


def _broadcast(given: list[fx.Node], words: Mapping[str, Words], shape: tuple[Size, ...]) -> Words:
    """The words of an elementwise result: every argument's shape must broadcast to it."""
    broadcast: list[str | None] = [None] * len(shape)
    shapes = [shape_of(argument) for argument in given]
    fits = all(
        len(old) <= len(shape)
        and all(str(part) in ("1", str(whole)) for part, whole in zip(old[::-1], shape[::-1], strict=False))
        for old in shapes
    )
    if not fits:
        return tuple(broadcast)
    for argument, old in zip(given, shapes, strict=True):
        carried = words.get(argument.name, ())
        if len(carried) != len(old):
            continue
        for back in range(1, len(old) + 1):
            if broadcast[-back] is None and str(old[-back]) == str(shape[-back]):
                broadcast[-back] = carried[-back]
    return tuple(broadcast)


def grouped(
    shape: Sequence[Size], words: Words, sizes: Sequence[Size]
) -> list[list[tuple[Size, str | None]]] | None:
    """Neighbouring dimensions that multiply to each of `sizes`, in order; None if they do not."""
    dims = [(part, word) for part, word in zip(shape, words, strict=True) if str(part) != "1"]
    groups: list[list[tuple[Size, str | None]]] = []
    for size in sizes:
        group: list[tuple[Size, str | None]] = []
        product: Size = 1
        while dims and str(product) != str(size):
            group.append(dims.pop(0))
            product = product * group[-1][0]
        if str(product) != str(size):
            return None
        groups.append(group)
    return None if dims else groups
