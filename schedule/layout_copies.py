"""Copies that lay a value out for our loops, which the library calls read too.

A gradient of attention comes in a layout that only the library knows: a kernel reads a contiguous copy of it, through
the views that lead to what the kernel wants. A matmul that wants the same needs no views of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import torch

from longhand.lower.ir import Contraction, Extern, Nest, Size, Step, View, ViewCall
from longhand.schedule.sizes import contiguous_strides

_aten = torch.ops.aten


def read_copies(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps, where calls read copies that are made anyway instead of taking the same views once more.

    Args:
        steps: In an order that respects the dependencies, as the result is.
    """
    steps = tuple(steps)
    written = {name for step in steps if isinstance(step, Extern) for name in step.mutates}
    copies: dict[tuple[str, str], str] = {}
    for step in steps:
        copied = _copied(step)
        if copied is not None and copied.buffer not in written and isinstance(step, Extern):
            copies.setdefault(_key(copied, len(copied.calls)), step.outputs[0])
    if not copies:
        return steps

    def read(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(map(read, value))
        return _of_copy(value, copies) if isinstance(value, View) else value

    def reading(step: Step) -> Step:
        if isinstance(step, Contraction):
            return step  # its body reads what its call reads
        if isinstance(step, Nest) or _copied(step) is not None:
            return step
        kwargs = tuple((name, read(value)) for name, value in step.kwargs)
        return dataclasses.replace(step, args=read(step.args), kwargs=kwargs)

    return _copies_first([(step, reading(step)) for step in steps], frozenset(copies.values()))


def _copies_first(pairs: Sequence[tuple[Step, Step]], copies: Set[str]) -> tuple[Step, ...]:
    """The new steps, each copy before the first that reads it now: what it is of, that one read before."""
    of = {
        new.outputs[0]: new
        for _, new in pairs
        if isinstance(new, Extern) and _copied(new) is not None and new.outputs[0] in copies
    }
    made: list[Step] = []
    placed: set[str] = set()
    for old, new in pairs:
        read = (
            dict.fromkeys(view.buffer for view in new.views())
            if isinstance(new, Extern) and new != old
            else {}
        )
        first = [of[name] for name in read if name in of and name not in placed]
        made += first
        placed |= {copy.outputs[0] for copy in first}
        name = new.outputs[0] if isinstance(new, Extern) and new.outputs else None
        if name in of and name in placed:
            continue
        made.append(new)
        placed |= {name} if name in of and name is not None else set()
    return tuple(made)


def _copied(step: Step) -> View | None:
    """What a plain copy is of; None for all other steps, and for a copy of all of a buffer as it is."""
    if not isinstance(step, Extern) or step.target is not _aten.contiguous.default or step.kwargs:
        return None
    view = step.args[0]
    return view if isinstance(view, View) and view.calls else None


def _key(view: View, n_calls: int) -> tuple[str, str]:
    return view.buffer, str([(str(call.target), call.args) for call in view.calls[:n_calls]])


def _of_copy(view: View, copies: Mapping[tuple[str, str], str]) -> View:
    """The same elements, of a copy if there is one of the view, or of one that the view turns around."""
    n_calls = len(view.calls)
    while n_calls and view.calls[n_calls - 1].target in _TURNS:
        n_calls -= 1
    for n_copied in range(len(view.calls), n_calls - 1, -1):
        copy = copies.get(_key(view, n_copied))
        if copy is not None and n_copied:
            turns = view.calls[n_copied:]
            return View(copy, view.shape, _strides(view.shape, turns), 0, turns)
    return view


_TURNS = (_aten.transpose.int, _aten.t.default, _aten.permute.default)


def _strides(shape: tuple[Size, ...], turns: Sequence[ViewCall]) -> tuple[Size, ...]:
    """The strides of a contiguous tensor that is turned around until it has a shape."""
    order = list(range(len(shape)))  # which dimension of the tensor each dimension is
    for call in turns:
        if call.target is _aten.permute.default:
            order = [order[int(dim)] for dim in call.args[0]]
        else:
            one, other = (int(dim) for dim in call.args) if call.args else (0, len(order) - 1)
            order[one], order[other] = order[other], order[one]
    plain: list[Size] = [1] * len(shape)
    for place, dim in enumerate(order):
        plain[dim] = shape[place]
    strides = contiguous_strides(tuple(plain))
    return tuple(strides[dim] for dim in order)
