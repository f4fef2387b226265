"""Several calls of a random program with other arguments in between, and all that a user can see of each.

Calls differ in what decides how they are compiled: which leaves want gradients, whether gradients are recorded, how
arguments lie in memory, whether they are one another, what they hold.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree

from tests.autograd.random_programs import COLS, ROWS

Seen = dict[str, Any]
N_CALLS = 4


class Kind(enum.Enum):
    """How a call differs from the first one."""

    OTHER_VALUES = enum.auto()
    NO_GRAD = enum.auto()
    INFERENCE = enum.auto()
    FROZEN = enum.auto()  # the first matrix wants no gradient
    ALL_FROZEN = enum.auto()
    TRANSPOSED = enum.auto()
    SLICED = enum.auto()
    ONE_ROW = enum.auto()  # the second matrix is one row, expanded
    SAME_TENSOR = enum.auto()
    VIEW_OF_FIRST = enum.auto()
    BUFFER_TWICE = enum.auto()  # the second matrix is the buffer
    NO_LEAF = enum.auto()
    SPECIAL_VALUES = enum.auto()
    FLAG = enum.auto()
    TWICE = enum.auto()  # the backward pass runs twice


def kinds(seed: int) -> list[Kind]:
    """What the calls of a program are."""
    draw = random.Random(seed + 2_000_000)
    return [Kind.OTHER_VALUES, *draw.sample(list(Kind), N_CALLS - 1)]


def _matrix(generator: torch.Generator, kind: Kind) -> torch.Tensor:
    def randn(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    if kind is Kind.TRANSPOSED:
        return randn(COLS, ROWS).t()
    if kind is Kind.SLICED:
        return randn(ROWS + 1, 2 * COLS + 1)[1:, 1::2]
    made = randn(ROWS, COLS)
    if kind is Kind.SPECIAL_VALUES:
        made[0, :4] = torch.tensor([0.0, -0.0, float("inf"), float("nan")])
    return made


def arguments(seed: int, kind: Kind) -> tuple[list[torch.Tensor], dict[str, Any]]:
    """The leaves, and the arguments by name."""
    generator = torch.Generator().manual_seed(seed)
    plain = Kind.OTHER_VALUES
    x, other, buffer = _matrix(generator, kind), _matrix(generator, plain), _matrix(generator, plain)
    w = torch.randn(COLS, COLS, generator=generator, dtype=torch.float64)
    if kind is not Kind.ALL_FROZEN:
        x.requires_grad_(kind is not Kind.FROZEN)
        w.requires_grad_()
        other.requires_grad_()
    y = other
    match kind:
        case Kind.ONE_ROW:
            y = other[:1].expand(ROWS, COLS)
        case Kind.SAME_TENSOR:
            y = x
        case Kind.VIEW_OF_FIRST:
            y = x.view(ROWS, COLS)
        case Kind.BUFFER_TWICE:
            y = buffer
    given = x * 1 if kind is Kind.NO_LEAF else x
    v = torch.linspace(0.5, 2, COLS, dtype=torch.float64)
    return [x, other, w], {"x": given, "y": y, "w": w, "v": v, "buffer": buffer, "flag": kind is Kind.FLAG}


@contextlib.contextmanager
def _mode(kind: Kind) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if kind is Kind.NO_GRAD:
            stack.enter_context(torch.no_grad())
        if kind is Kind.INFERENCE:
            stack.enter_context(torch.inference_mode())
        yield


def seen(run: Callable[..., Any], seed: int, kind: Kind) -> Seen:
    """All that can be seen of a call, by name."""
    leaves, named = arguments(seed, kind)
    given = [value for value in named.values() if isinstance(value, torch.Tensor)]
    torch.manual_seed(seed)
    try:
        with _mode(kind):
            results = run(*named.values())
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return {"raises": _name_of(error)}
    tensors = [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
    every = [*given, *tensors]
    pairs = list(itertools.combinations(every, 2))
    found: Seen = {
        "results": [None if isinstance(leaf, torch.Tensor) else leaf for leaf in results],
        "types": [
            (type(one), one.dtype, tuple(one.shape), one.stride(), one.requires_grad, one.is_leaf)
            for one in tensors
        ],
        "shared": [a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() for a, b in pairs],
        "objects": [a is b for a, b in pairs],
        "bases": [(a._base is b, b._base is a) for a, b in pairs],
        "states": [one.is_inference() for one in tensors],
        "random numbers": torch.rand(1).item(),
    }
    if kind is not Kind.INFERENCE:
        found["written"] = [one._version > 0 for one in given]  # autograd asks no more
    found |= {f"result {place}": one.detach().clone() for place, one in enumerate(tensors)}
    found |= {f"{name} afterwards": one.detach().clone() for name, one in named.items() if name != "flag"}
    carrying = [one for one in tensors if one.requires_grad and one.dtype.is_floating_point]
    draw = random.Random(seed + 3_000_000)
    if len(carrying) > 1 and draw.random() < 0.4:  # the caller differentiates only some of the results
        carrying = draw.sample(carrying, draw.randint(1, len(carrying) - 1))
    if carrying:
        generator = torch.Generator().manual_seed(seed)
        weights = [torch.randn(one.shape, generator=generator, dtype=one.dtype) for one in carrying]
        try:
            for n_left in range(1 + (kind is Kind.TWICE), 0, -1):
                loss = [(one * weight).sum() for one, weight in zip(carrying, weights, strict=True)]
                torch.autograd.backward(loss, retain_graph=n_left > 1)
        except RuntimeError as error:
            found["backward raises"] = _name_of(error)
    found |= {f"gradient {place}": leaf.grad for place, leaf in enumerate(leaves)}
    return found


def _name_of(error: Exception) -> str:
    return "RuntimeError" if isinstance(error, RuntimeError) else type(error).__name__
