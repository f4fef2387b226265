"""Chains of views in as few calls as say the same: what one call does and the next undoes is left out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch

from longhand.lower.ir import Size, ViewCall
from longhand.schedule.names.dimensions.compound_names import Words
from longhand.schedule.names.dimensions.reshaped_words import reshaped

_MOVES = frozenset({"transpose", "permute", "unsqueeze"})
EXPANSIONS = frozenset({"expand", "broadcast_to"})
RESHAPES = {"view": "view", "_unsafe_view": "view", "_reshape_alias": "view", "reshape": "reshape"}


@dataclasses.dataclass(frozen=True)
class SeenShape:
    """A tensor on the way through its views: its sizes, as far as they are known, and their words."""

    shape: tuple[Size, ...]
    words: Words


def straightened(calls: Sequence[ViewCall], seen: SeenShape) -> list[ViewCall]:
    """The calls, those that move dimensions before a reshape as one; as none if only dimensions of one element move.

    Args:
        calls: The calls.
        seen: The tensor that they begin with.
    """
    straight_calls: list[ViewCall] = []
    moves: list[ViewCall] = []
    before = seen
    for call in calls:
        if view_name(call) in _MOVES:
            moves.append(call)
        else:
            is_reshape = view_name(call) in RESHAPES and bool(before.shape)
            straight_calls += [*(_as_one_move(moves, before.shape) if is_reshape else moves), call]
            moves = []
        seen = after_call(call, seen)
        before = before if moves else seen
    return [*straight_calls, *moves]


def _as_one_move(moves: Sequence[ViewCall], shape: tuple[Size, ...]) -> list[ViewCall]:
    """What calls do to the order of the elements, in at most one call; they themselves where that is no shorter."""
    dims: list[int | None] = list(range(len(shape)))  # by dimension now: where it was
    for call in moves:
        match view_name(call), call.args:
            case "transpose", (int(one), int(other)):
                dims[one], dims[other] = dims[other], dims[one]
            case "permute", (order, *_):
                dims = [dims[int(dim)] for dim in order]
            case "unsqueeze", (int(dim),):
                dims.insert(dim % (len(dims) + 1), None)
            case _:
                return [*moves]
    moved = iter(dim for dim in dims if dim is not None and shape[dim] != 1)
    order = [dim if size == 1 else next(moved) for dim, size in enumerate(shape)]
    places = [dim for dim, was in enumerate(order) if dim != was]
    if not places:
        return []
    if len(places) == 2:
        return [ViewCall(torch.ops.aten.transpose.int, tuple(places))]
    return [ViewCall(torch.ops.aten.permute.default, (order,))] if len(moves) > 1 else [*moves]


def without_detours(calls: Sequence[ViewCall], shape: tuple[Size, ...]) -> list[ViewCall]:
    """The calls without those that the next one undoes, or that leave everything as it is."""
    kept_calls: list[ViewCall] = []
    seen = [SeenShape(shape, (None,) * len(shape))]  # before each that is kept, and behind the last
    for call in calls:
        joined: ViewCall | None = call
        while kept_calls and joined is not None:
            pair = _joined(kept_calls[-1], joined, seen[-2].shape)
            if pair is None:
                break
            kept_calls.pop()
            seen.pop()
            joined = pair.call
        if joined is not None:
            kept_calls.append(joined)
            seen.append(after_call(joined, seen[-1]))
    if kept_calls and view_name(kept_calls[0]) in RESHAPES and shape:
        made = without_minus_one(tuple(kept_calls[0].args[0]), shape)
        if list(map(str, made)) == list(map(str, shape)):
            kept_calls.pop(0)
    return kept_calls


@dataclasses.dataclass(frozen=True)
class _Joined:
    """What two calls are together: one call, or none where the second undoes the first."""

    call: ViewCall | None


def _joined(before: ViewCall, call: ViewCall, shape: tuple[Size, ...]) -> _Joined | None:
    """The two as one, on a tensor of a shape that may be unknown; None where they are two."""
    first, second = view_name(before), view_name(call)
    if second in RESHAPES and first in RESHAPES:
        free = "reshape" in (first, second)
        return _Joined(
            dataclasses.replace(call, target=torch.ops.aten.reshape.default if free else call.target)
        )
    if second in RESHAPES and first == "unsqueeze":  # a dimension of one element changes no order
        return _Joined(call)
    if second == "unsqueeze" and first in RESHAPES:
        made = [*before.args[0]]
        made.insert(int(call.args[0]) % (len(made) + 1), 1)
        return _Joined(dataclasses.replace(call, target=before.target, args=(made,)))
    if first == "unsqueeze" and second == "squeeze":
        return _Joined(None) if _only_dim(before) == _only_dim(call) is not None else None
    if first == "squeeze" and second == "unsqueeze":
        is_undone = _only_dim(before) == _only_dim(call) and _dim_of_one(before, shape) is not None
        return _Joined(None) if is_undone else None
    if first == second == "transpose":
        return _Joined(None) if {*before.args} == {*call.args} else None
    if first == second == "permute":
        rank = len(before.args[0])
        order = [int(before.args[0][int(dim) % rank]) % rank for dim in call.args[0]]
        is_same = order == list(range(rank))
        return _Joined(None if is_same else dataclasses.replace(call, args=(order, *call.args[1:])))
    return None


def _only_dim(call: ViewCall) -> int | None:
    """The dimension that a call puts in or takes away, as the call counts it; None if it is not one."""
    match call.args:
        case (int(dim),) | ((int(dim),),) | ([int(dim)],):
            return dim
    return None


def _dim_of_one(squeeze: ViewCall, shape: tuple[Size, ...]) -> int | None:
    """The one dimension that a squeeze takes away; None where it takes several, or is not known to take one."""
    dim, rank = _only_dim(squeeze), len(shape)
    is_one = dim is not None and -rank <= dim < rank and str(shape[dim]) == "1"
    return dim % rank if is_one and dim is not None else None


def after_call(call: ViewCall, seen: SeenShape) -> SeenShape:
    """What a call makes of sizes and words; empty where that is not known."""
    name, args, rank = view_name(call), call.args, len(seen.shape)
    if name in ("alias", "detach"):
        return seen
    if name == "transpose" and rank:
        order = list(range(rank))
        order[args[0]], order[args[1]] = order[args[1]], order[args[0]]
    elif name == "permute" and rank:
        order = [int(dim) % rank for dim in args[0]]
    elif name in RESHAPES and rank:
        shape = without_minus_one(tuple(args[0]), seen.shape)
        return SeenShape(shape, reshaped(seen.shape, seen.words, shape))
    elif name in EXPANSIONS and rank:
        n_new = len(args[0]) - rank
        shape = tuple(
            seen.shape[dim - n_new] if str(size) == "-1" else size for dim, size in enumerate(args[0])
        )
        kept = ((None,) * n_new + seen.words, (None,) * n_new + seen.shape)
        words = tuple(
            word if str(was) == str(size) else None for word, was, size in zip(*kept, shape, strict=True)
        )
        return SeenShape(shape, words)
    elif name == "slice" and rank and isinstance(seen.shape[args[0]], int):
        start, end, step = slice(*(*args[1:], None, None, None)[:3]).indices(int(seen.shape[args[0]]))
        length = len(range(start, end, step))
        dim = int(args[0]) % rank
        word = seen.words[dim] if length == seen.shape[dim] else None
        return SeenShape(_put(seen.shape, dim, length), _put(seen.words, dim, word))
    elif name == "select" and rank:
        dim = int(args[0]) % rank
        return SeenShape(
            (*seen.shape[:dim], *seen.shape[dim + 1 :]), (*seen.words[:dim], *seen.words[dim + 1 :])
        )
    elif name == "unsqueeze" and rank:
        dim = int(args[0]) % (rank + 1)
        return SeenShape(
            (*seen.shape[:dim], 1, *seen.shape[dim:]), (*seen.words[:dim], None, *seen.words[dim:])
        )
    elif name == "squeeze" and (dropped := _dim_of_one(call, seen.shape)) is not None:
        order = [dim for dim in range(rank) if dim != dropped]
    else:
        return SeenShape((), ())
    return SeenShape(tuple(seen.shape[dim] for dim in order), tuple(seen.words[dim] for dim in order))


def _put(items: tuple[Any, ...], place: int, item: Any) -> tuple[Any, ...]:
    return (*items[:place], item, *items[place + 1 :])


def without_minus_one(shape: tuple[Size, ...], old: tuple[Size, ...]) -> tuple[Size, ...]:
    """The sizes of a reshape, the one that is left open worked out where all sizes are numbers."""
    if -1 not in shape or not all(isinstance(size, int) for size in (*shape, *old)):
        return shape
    known = math.prod(int(size) for size in shape if size != -1)
    rest = math.prod(int(size) for size in old) // known if known else 0
    return tuple(rest if size == -1 else size for size in shape)


def view_name(call: ViewCall) -> str:
    if call.target is torch.ops.aten.view.dtype:
        return "view_dtype"  # no reshape, although it has the name of one
    return str(call.target.overloadpacket.__name__)
