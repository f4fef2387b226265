"""Lifted constants: as one line of torch where one line makes the same values, else as bytes for constants.pt."""

from __future__ import annotations

import io
from collections.abc import Mapping

import torch

_SMALL = 8
_SMALLEST_BASE = 100  # of rotary positions; 1, 1/2, 1/4 are three numbers


def literal_of(value: torch.Tensor) -> str | None:
    """The expression that makes a tensor equal to `value`, if there is a short one."""
    value = value.detach().cpu()
    dtype = value.dtype
    if dtype.is_complex or value.layout is not torch.strided:
        return None
    for text, candidate in _candidates(value):
        same = candidate.dtype == dtype and candidate.shape == value.shape and torch.equal(candidate, value)
        if same and not _has_negative_zero(value):
            return text
    return None


def _has_negative_zero(value: torch.Tensor) -> bool:
    return value.dtype.is_floating_point and bool(((value == 0) & torch.signbit(value)).any())


def _candidates(value: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    dtype, shape = value.dtype, tuple(value.shape)
    suffix = "" if dtype is torch.float32 else f", dtype={dtype}"
    candidates: list[tuple[str, torch.Tensor]] = []
    if value.numel() == 0:
        return [(f"torch.empty({shape}{suffix})", torch.empty(shape, dtype=dtype))]
    first = value.flatten()[0].item()
    if bool((value == first).all()) and value.ndim:
        candidates.append(
            (f"torch.full({shape}, {_number(first)}, dtype={dtype})", torch.full(shape, first, dtype=dtype))
        )
    candidates += _frequencies(value)
    if value.numel() <= _SMALL and value.ndim <= 1:
        items = value.tolist()
        text = f"[{', '.join(_number(item) for item in items)}]" if value.ndim else _number(first)
        candidates.append((f"torch.tensor({text}, dtype={dtype})", torch.tensor(items, dtype=dtype)))
    if value.ndim and dtype is not torch.bool:
        candidates += _ranges(value)
    if value.ndim >= 2 and shape[-1] == shape[-2]:
        candidates += _triangles(value)
    if value.ndim >= 2:
        candidates += _bands(value)
    return candidates


def _frequencies(value: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """The inverse frequencies of rotary positions, as models compute them: powers of a base from 1 down."""
    n = value.numel()
    if value.ndim != 1 or n < 2 or value.dtype is not torch.float32:
        return []
    first, last = value[0].item(), value[-1].item()
    base = float(round(last ** (-n / (n - 1)))) if first == 1.0 and 0.0 < last < 1.0 else 0.0
    if base < _SMALLEST_BASE:
        return []
    text = f"1.0 / ({base} ** (torch.arange(0, {2 * n}, 2) / {2 * n}))"
    return [(text, 1.0 / (base ** (torch.arange(0, 2 * n, 2) / (2 * n))))]


def _ranges(value: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """arange along the one dimension that is longer than 1."""
    if sum(size > 1 for size in value.shape) != 1:
        return []
    n = value.numel()
    suffix = "" if value.dtype is torch.int64 else f", dtype={value.dtype}"
    view = "" if value.ndim == 1 else f".view({', '.join(map(str, value.shape))})"
    return [(f"torch.arange({n}{suffix}){view}", torch.arange(n, dtype=value.dtype).view(value.shape))]


def _triangles(value: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    n = value.shape[-1]
    if value.numel() != n * n:
        return []
    view = "" if value.ndim == 2 else f".view({', '.join(map(str, value.shape))})"
    ones = torch.ones(n, n, dtype=value.dtype)
    text = f"torch.ones({n}, {n}" + ("" if value.dtype is torch.float32 else f", dtype={value.dtype}") + ")"
    return [
        (f"{text}.tril(){view}", ones.tril().view(value.shape)),
        (f"{text}.triu(1){view}", ones.triu(1).view(value.shape)),
    ]


def _bands(value: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """One number near the diagonal and another elsewhere: the mask of a sliding window."""
    rows, cols = value.shape[-2:]
    grid = value.reshape(rows, cols) if value.numel() == rows * cols else None
    if grid is None or rows == 1 or cols == 1:
        return []
    inside, others = grid[0, 0], grid != grid[0, 0]
    if not others.any():
        return []
    outside = grid[others][0]
    distance = torch.arange(cols) - torch.arange(rows)[:, None]
    lowest, highest = int(distance[~others].min()), int(distance[~others].max())
    band = torch.ones(rows, cols, dtype=torch.bool).tril(highest).triu(lowest)
    text = f"torch.ones({rows}, {cols}, dtype=torch.bool)"
    text += f".tril({highest or ''})" if highest < cols - 1 else ""
    text += f".triu({lowest or ''})" if lowest > 1 - rows else ""
    made = torch.where(band, inside, outside)
    if value.dtype is not torch.bool:
        text = f"torch.where({text}, {_number(inside.item())}, {_number(outside.item())})"
        text += "" if value.dtype is torch.float32 else f".to({value.dtype})"
    view = "" if value.ndim == 2 else f".view({', '.join(map(str, value.shape))})"
    if value.dtype is torch.bool and not inside:
        text = f"(~{text})" if view else f"~{text}"
    return [(f"{text}{view}", made.view(value.shape))]


def _number(value: float | int | bool) -> str:
    text = repr(value)
    return f'float("{text}")' if text in ("inf", "-inf", "nan") else text


def constants_file(values: Mapping[str, torch.Tensor]) -> bytes:
    """The bytes of constants.pt: plain contiguous CPU tensors, in the order of their names."""
    plain = {name: values[name].detach().cpu().contiguous().clone() for name in sorted(values)}
    stream = io.BytesIO()
    torch.save(plain, stream)
    return stream.getvalue()
