"""The rule for ops that ATen makes of others, and that ask a tensor for a number on their way: they stay one call.

No trace can follow them. What their results look like is found by trial: the op runs on made-up numbers, a few times.
Where they look the same each time, and have gradients where they can, it becomes an op of `capture.whole_calls`;
eager's own derivative is found when it runs. Where sizes differ, the data tell them.

A trial is of the call's own sizes: from smaller ones nothing follows (quantile takes no more than 16 million numbers).
It makes no tensor of more than 64 MiB. What would is not judged, and stays what no trace can follow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.capture import torch_private, torch_tracing, whole_calls
from longhand.capture.tensor_leaves import tensors_in

__all__ = ["whole"]

aten = torch.ops.aten
_MOST_BYTES = 2**26  # of a tensor in a trial: seconds of the slowest ops, no swapping on any machine
_PLACES = ("", "linalg_", "special_", "fft_")  # what ATen puts before a function's name
_WHOLE_NUMBERS = (0, 1, 2, 1, 0, 2)  # what tables, lengths and weights hold in each trial
_FLOATS: tuple[Callable[..., torch.Tensor], ...] = (
    torch.rand,
    lambda shape: 5 * torch.rand(shape) * (torch.rand(shape) > 0.5),
    lambda shape: 3 * torch.randn(shape),
    lambda shape: torch.full(shape, 0.5),
    torch.zeros,
    torch.rand,
)
# What they make of a size that the data tell, their derivatives alone read.
_FOR_DERIVATIVES = (aten._ctc_loss.default, aten._ctc_loss.Tensor)
Looks = tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype], ...]


def whole(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What stands for a call in a trace; NotImplemented where there is no such thing.

    Args:
        function: A function of torch, or a method of Tensor.
        args: Its arguments, with fake tensors.
        kwargs: Likewise.
    """
    target = _op(getattr(function, "__name__", ""), args, kwargs)
    if target is None or not _has_plain_sizes((args, kwargs)) or _most_bytes((args, kwargs)) > _MOST_BYTES:
        return NotImplemented
    looks = _looks(target, args, kwargs)
    if looks is None or looks != _looks(
        function, args, kwargs
    ):  # torch.ctc_loss has other defaults than ATen's
        return NotImplemented
    return _defined(target)(*args, **kwargs)


def _op(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> torch._ops.OpOverload | None:
    """ATen's op of a name that takes such arguments, if it is made of others and only returns tensors."""
    for place in _PLACES:
        packet = getattr(aten, place + name, None)
        for overload in packet.overloads() if packet is not None else ():
            op: torch._ops.OpOverload = getattr(packet, overload)
            if _is_composite(op) and _takes(op, args, kwargs):
                return op
    return None


def _is_composite(op: torch._ops.OpOverload) -> bool:
    key: Any = "CompositeImplicitAutograd"  # torch takes the name; the type that it declares is private
    schema = op._schema
    is_plain = not schema.is_mutable and not any(one.alias_info for one in schema.arguments)
    gives = [str(one.type) for one in schema.returns]
    return is_plain and bool(gives) and set(gives) == {"Tensor"} and op.has_kernel_for_dispatch_key(key)


def _takes(op: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether tensors stand where the op takes tensors, and nowhere else."""
    parameters = op._schema.arguments
    by_name = {one.name: one for one in parameters}
    positional = [one for one in parameters if not one.kwarg_only]
    if len(args) > len(positional) or not all(name in by_name for name in kwargs):
        return False
    given = {one.name: value for one, value in zip(positional, args, strict=False)} | kwargs
    needed = {one.name for one in parameters if not one.has_default_value()}
    return needed <= given.keys() and all(
        isinstance(value, torch.Tensor) == ("Tensor" in str(by_name[name].type) and value is not None)
        for name, value in given.items()
    )


def _has_plain_sizes(tree: Any) -> bool:
    leaves = pytree.tree_leaves(tree)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    sizes = [size for one in tensors for size in (*one.shape, *one.stride())]
    return (
        bool(tensors)
        and all(one.layout is torch.strided for one in tensors)
        and not any(
            isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) for value in (*leaves, *sizes)
        )
    )


_known: dict[Any, Looks | None] = {}


def _looks(op: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Looks | None:
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    facts = tuple(
        (tuple(leaf.shape), leaf.stride(), leaf.dtype) if isinstance(leaf, torch.Tensor) else repr(leaf)
        for leaf in leaves
    )
    key = (op, str(spec), facts)
    if key not in _known:
        with torch_tracing.no_modes(), torch.random.fork_rng(devices=[]):
            tried = {number: _tried(op, leaves, spec, number) for number in range(len(_WHOLE_NUMBERS))}
        _known[key] = _agreed(tried, has_numbers=any(map(_is_whole, leaves)))
    return _known[key]


def _agreed(tried: dict[int, Looks | None], *, has_numbers: bool) -> Looks | None:
    """What all trials found that did not raise: at least two, of different numbers."""
    told = {number: looks for number, looks in tried.items() if looks is not None}
    n_contents = len({_WHOLE_NUMBERS[number] for number in told} if has_numbers else told)
    return next(iter(told.values())) or None if n_contents > 1 and len(set(told.values())) == 1 else None


def _is_whole(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not (value.is_floating_point() or value.is_complex())


def _tried(op: Callable[..., Any], leaves: list[Any], spec: Any, number: int) -> Looks | None:
    """What the results look like for one content; None where it raises, () where no op can say what they look like."""
    torch.manual_seed(number)
    given = [_content(leaf, number) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    args, kwargs = pytree.tree_unflatten(given, spec)
    try:
        with torch.enable_grad(), _Sizes():
            made = op(*args, **kwargs)
    except _CannotTell:
        return ()
    except Exception:
        return None
    results = list(made) if isinstance(made, list | tuple) else [made]
    is_wanted = any(isinstance(one, torch.Tensor) and one.requires_grad for one in given)
    if any(not _is_whole(one) and is_wanted != one.requires_grad for one in results):
        return ()
    return tuple((tuple(one.shape), one.stride(), one.dtype) for one in results)


def _content(like: torch.Tensor, number: int) -> torch.Tensor:
    made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)
    if _is_whole(like):
        return made.fill_(_WHOLE_NUMBERS[number])
    return made.copy_(_FLOATS[number](like.shape)).requires_grad_()


class _CannotTell(Exception):
    """A trial would make a tensor of a size that the data tell, or a very large one."""


class _Sizes(torch_tracing.TorchDispatchMode):
    """While on, calls are made that make tensors of sizes known before, and none too large."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls the op."""
        kwargs = kwargs or {}
        if torch.Tag.dynamic_output_shape in func.tags and func not in _FOR_DERIVATIVES:
            raise _CannotTell
        if _most_bytes(_on_meta(func, args, kwargs)) > _MOST_BYTES:
            raise _CannotTell
        return func(*args, **kwargs)


def _on_meta(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call makes, without memory; nothing where torch cannot say."""

    def without_data(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")

    args, kwargs = pytree.tree_map_only(torch.Tensor, without_data, (args, kwargs))
    if isinstance(kwargs.get("device"), torch.device):
        kwargs["device"] = torch.device("meta")
    try:
        return func(*args, **kwargs)
    except (RuntimeError, NotImplementedError, ValueError):
        return None  # it reads a number, or raises: the call itself will tell


def _most_bytes(tree: Any) -> int:
    """Of the largest tensor."""
    leaves = pytree.tree_leaves(tree)
    return max(
        (leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor)), default=0
    )


@functools.cache
def _defined(op: torch._ops.OpOverload) -> torch._ops.OpOverload:
    schema = op._schema
    takes = str(schema).partition("(")[2]
    name = f"{schema.name.partition('::')[2]}_{schema.overload_name or 'default'}"

    def made(*args: Any, **kwargs: Any) -> Any:
        looks = _looks(op, args, kwargs)
        if looks is None:
            raise torch_private.LOOKS_AT_DATA[0](op)
        tensors = tensors_in((args, kwargs))
        results = []
        for shape, stride, dtype in looks:
            result = torch.empty_strided(shape, stride, dtype=dtype, device=tensors[0].device)
            for one in tensors:
                if not _is_whole(one) and (dtype.is_floating_point or dtype.is_complex):
                    total = one.real.sum() if one.is_complex() else one.sum()
                    result = result + total.to(dtype)  # it has gradients, of all of them
            results.append(result)
        return tuple(results) if len(results) > 1 else results[0]

    return whole_calls.define(f"{name}({takes}", made, op)
