"""What a kernel is given in a call of its unit's model: the contract that every version of it must keep."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


def parameters_of(windows: Callable[..., Any]) -> list[str]:
    """The names of a kernel's parameters: those of its function of check.py."""
    return list(inspect.signature(windows).parameters)


def described(names: Sequence[str], given: Sequence[Any]) -> list[dict[str, Any]]:
    """Each argument of a call, in the order of the parameters."""
    arguments: list[dict[str, Any]] = []
    for place, (name, value) in enumerate(zip(names, given, strict=True)):
        if isinstance(value, torch.Tensor):
            shared = [
                other
                for other, earlier in zip(names[:place], given, strict=False)
                if isinstance(earlier, torch.Tensor) and _storage(earlier) == _storage(value)
            ]
            arguments.append({"name": name, **_tensor(value), "same_memory_as": shared})
        elif isinstance(value, list | tuple):
            arguments.append({"name": name, "tensors": [_tensor(one) for one in value]})
        else:
            arguments.append({"name": name, "value": value})
    return arguments


def _tensor(value: torch.Tensor) -> dict[str, Any]:
    """A tensor's type, place and range: of the values in the unit's own check, which are drawn at random."""
    facts: dict[str, Any] = {
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "strides": list(value.stride()),
        "offset": value.storage_offset(),
        "aligned_to": next(size for size in (64, 32, 16, 8, 4, 2, 1) if value.data_ptr() % size == 0),
    }
    if value.numel() and not value.is_complex():
        finite = value.double()[value.double().isfinite()]
        facts["range"] = [finite.min().item(), finite.max().item()] if finite.numel() else None
    return facts


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def as_table(call: Mapping[str, Any]) -> list[str]:
    """The arguments of one call as the rows of a Markdown table."""
    rows = ["| argument | type | shape | strides | range | memory |", "|---|---|---|---|---|---|"]
    for one in call["arguments"]:
        if "value" in one:
            rows.append(f"| `{one['name']}` | {type(one['value']).__name__} | | | {one['value']} | |")
        elif "tensors" in one:
            dtypes = ", ".join(sorted({each["dtype"] for each in one["tensors"]}))
            rows.append(f"| `{one['name']}` | {len(one['tensors'])} tensors, {dtypes} | | | | |")
        else:
            low_high = " to ".join(f"{number:.4g}" for number in one.get("range") or ())
            shared = ", ".join(f"`{name}`" for name in one["same_memory_as"])
            memory = f"that of {shared}" if shared else f"aligned to {one['aligned_to']} bytes"
            rows.append(
                f"| `{one['name']}` | {one['dtype']} | {_words(one['shape'])} | {_words(one['strides'])} "
                f"| {low_high} | {memory} |"
            )
    return rows


def _words(sizes: Sequence[int]) -> str:
    return f"({', '.join(map(str, sizes))})"
