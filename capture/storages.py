"""Which tensors of a call share memory: tied parameters, and inputs that overlap."""

from __future__ import annotations

import torch
from torch import nn

from longhand.capture import torch_private


def tied_paths(module: nn.Module) -> tuple[tuple[str, ...], ...]:
    """Groups of parameter or buffer paths that are one tensor, each in the order in which the module names them."""
    groups: dict[int, list[str]] = {}
    for named in (module.named_parameters, module.named_buffers):
        for path, tensor in named(remove_duplicate=False):
            groups.setdefault(id(tensor), []).append(path)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def overlapping(tensors: dict[str, torch.Tensor]) -> tuple[tuple[str, ...], ...]:
    """Groups of names whose tensors overlap in memory.

    Tensors on one storage count as overlapping only if the spans of memory that they reach into meet: two halves of a
    fused buffer do not.
    """
    by_storage: dict[int, list[tuple[int, int, str]]] = {}
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided or tensor.numel() == 0:
            continue
        first = tensor.storage_offset() * tensor.element_size()
        reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        span = (int(first), int(first + (reach + 1) * tensor.element_size()), name)
        by_storage.setdefault(torch_private.storage_key(tensor), []).append(span)
    groups: list[tuple[str, ...]] = []
    for spans in by_storage.values():
        spans.sort(key=lambda span: span[:2])
        group, end = [spans[0][2]], spans[0][1]
        for first, last, name in spans[1:]:
            if first < end:
                group.append(name)
            else:
                groups.append(tuple(group))
                group = [name]
            end = max(end, last)
        groups.append(tuple(group))
    return tuple(group for group in groups if len(group) > 1)
