"""The call that a frontend is asked to capture: its signature, its words, its tensors by path."""

from __future__ import annotations

import copy
import inspect
import itertools
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn

from longhand.capture.graph import Literal
from longhand.capture.source import shape_names
from longhand.errors import CaptureError

__all__ = [
    "dynamic_dims",
    "free_path",
    "ordered_keywords",
    "refuse_autocast",
    "size_names",
    "source_name",
    "state_of",
    "title",
    "told_apart",
]


_DEVICE = re.compile(r"(cpu|cuda|xpu|mps)(:\d+)?")


def refuse_autocast() -> None:
    """A unit is called as it is; an autocast block around the example call would not be part of it.

    Raises:
        CaptureError: Autocast is on.
    """
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        raise CaptureError(
            "The call is inside torch.autocast.", hint="Put the autocast block inside the model's forward."
        )


def told_apart(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call in which no tensor is given twice, nor is a weight of the model's.

    A capture takes a tensor for one and the same wherever it meets it: of ``attention(x, x, x)`` it would make code
    that looks at its first argument only. What a caller passes later need not be one tensor.
    """
    met = {id(tensor) for _, tensor in state_of(model)} if isinstance(model, nn.Module) else set()

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in met:
            met.add(id(leaf))
            return leaf
        return copy.deepcopy(leaf.detach()).requires_grad_(leaf.requires_grad)

    given: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map(own, (tuple(args), dict(kwargs)))
    return given


def ordered_keywords(
    entry: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str
) -> dict[str, Any]:
    """The keyword arguments in the order of the signature, as torch.export has them.

    Raises:
        CaptureError: The function does not take these arguments, or nobody knows which ones it takes.
    """
    try:
        inspect.signature(entry)
    except ValueError:
        raise CaptureError(
            f"{name} is built in: Python does not know its parameters.",
            hint=f"Write a function around it: def f(x): return {name}(x).",
        ) from None
    try:
        inspect.signature(entry).bind(*args, **kwargs)
    except TypeError as error:
        raise CaptureError(
            f"{name} does not take these arguments: {error}.",
            hint=f"Its parameters are {inspect.signature(entry)}.",
        ) from None
    order = list(inspect.signature(entry).parameters)
    return dict(
        sorted(kwargs.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))
    )


def state_of(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, then buffers, by path; tied ones under each of theirs."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def is_nonnegative(value: Any) -> bool:
    """Whether a tensor holds floats, none below zero, not zeros alone: variances, a learning rate, a step's number."""
    is_real = isinstance(value, torch.Tensor) and value.is_floating_point() and not value.is_meta
    return is_real and bool((value.detach() >= 0).all()) and bool(value.any())


def title(model: Any, name: str | None) -> str:
    """The class's or function's own name, or the given one."""
    if name is not None:
        return name
    if isinstance(model, nn.Module):
        return type(model).__name__
    word = getattr(model, "__name__", type(model).__name__)
    return word if word.isidentifier() else "function"  # a lambda


def source_name(model: Any) -> str:
    """Its importable name."""
    named = type(model) if isinstance(model, nn.Module) or not hasattr(model, "__qualname__") else model
    return f"{named.__module__}.{named.__qualname__}"


def size_names(
    entry: Callable[..., Any],
    call: tuple[tuple[Any, ...], dict[str, Any]],
    leaves: list[str | Literal],
    dynamic_shapes: Any,
) -> dict[tuple[str, int], str]:
    """Words for sizes, by placeholder and dimension: the names of the Dims in `dynamic_shapes`, else the code's own."""
    if dynamic_shapes is None:
        return {}
    words = _words_in(entry)
    for position, dim, mark in _marks(entry, call, dynamic_shapes):
        leaf, word = leaves[position], getattr(mark, "__name__", None)
        if isinstance(leaf, str) and word and not word.startswith("_"):
            words[leaf, dim] = word
    return words


def dynamic_dims(
    entry: Callable[..., Any], call: tuple[tuple[Any, ...], dict[str, Any]], dynamic_shapes: Any
) -> dict[int, dict[int, Any]]:
    """Which dimensions may differ from call to call, and how, by the position among the call's leaves."""
    varying: dict[int, dict[int, Any]] = {}
    if dynamic_shapes is not None:
        for position, dim, mark in _marks(entry, call, dynamic_shapes):
            if not (mark is None or isinstance(mark, int) or mark is torch.export.Dim.STATIC):
                varying.setdefault(position, {})[dim] = mark
    return varying


def _marks(
    entry: Callable[..., Any], call: tuple[tuple[Any, ...], dict[str, Any]], dynamic_shapes: Any
) -> list[tuple[int, int, Any]]:
    """(position among the call's leaves, dimension, what dynamic_shapes says of it)."""
    given = inspect.signature(entry).bind(*call[0], **call[1]).arguments
    order = itertools.count()
    marks: list[tuple[int, int, Any]] = []

    def walk(value: Any, shapes: Any) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                walk(part, shapes.get(key) if isinstance(shapes, dict) else None)
        elif isinstance(value, list | tuple):
            for position, part in enumerate(value):
                walk(
                    part,
                    shapes[position] if isinstance(shapes, list | tuple) and position < len(shapes) else None,
                )
        else:
            positions = [next(order) for _ in pytree.tree_leaves(value)]
            if len(positions) == 1 and isinstance(value, torch.Tensor) and shapes:
                dims = shapes.items() if isinstance(shapes, dict) else enumerate(shapes)
                marks.extend((positions[0], dim, mark) for dim, mark in dims)

    by_name = (
        dynamic_shapes if isinstance(dynamic_shapes, dict) else dict(zip(given, dynamic_shapes, strict=False))
    )
    for parameter, value in given.items():
        walk(value, by_name.get(parameter))
    return marks


def _words_in(entry: Callable[..., Any]) -> dict[tuple[str, int], str]:
    """Words that a function's own code gives to the sizes of its arguments."""
    code = getattr(getattr(entry, "__func__", entry), "__code__", None)
    if code is None:
        return {}
    last = max(line for *_, line in code.co_lines() if line is not None)
    return shape_names(code.co_filename, code.co_firstlineno, last)


def free_path(path: str, taken: Container[str]) -> str:
    """The path for a tensor that no state_dict has, or one like it: ``cache.half_tensor``, ``table_1``.

    Its words are the user's, and may be any attribute that every module has: a local `half`. A cache by device says
    where the model was captured, and the unit may run elsewhere: ``bias_cache["cuda:0"]`` is ``bias_cache.bias``.

    Args:
        path: Words with dots between them.
        taken: Paths of other tensors.
    """
    *owners, last = path.split(".")
    words = [_unlike_methods(owner, "tensors") for owner in owners]
    if _DEVICE.fullmatch(last) and owners:
        plain = owners[-1].removesuffix("_cache").lstrip("_")
        last = plain if plain and plain != owners[-1] else "cached"
    word = ".".join([*words, _unlike_methods(last, "tensor")])
    free, count = word, 1
    while free in taken:
        free, count = f"{word}_{count}", count + 1
    return free


def _unlike_methods(word: str, kind: str) -> str:
    return f"{word}_{kind}" if hasattr(nn.Module, word) else word
