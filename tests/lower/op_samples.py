"""PyTorch's own database of operator samples, run through lowering and the interpreter."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.testing._internal.common_methods_invocations import op_db

SAMPLED_DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)


@dataclasses.dataclass(frozen=True)
class Sample:
    """One call: a function of tensors, the tensors, and what eager gives."""

    function: Any
    tensors: list[torch.Tensor]

    def __call__(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def samples(name: str, dtype: torch.dtype, limit: int, variant: str = "") -> Iterator[Sample]:
    """The first samples of an op in a dtype that are plain dense tensors, each as a function of its tensors."""
    (info,) = [info for info in op_db if info.name == name and info.variant_test_name == variant]
    if dtype not in info.supported_dtypes("cpu"):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        generator = iter(info.sample_inputs("cpu", dtype, requires_grad=False))
        # All at once: a suspended generator would end inside the tracer, and take its grad mode with it.
        found = list(itertools.islice(generator, limit))
        del generator
    for sample in found:
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        yield _sample(info.op, leaves, spec)


def _sample(op: Any, leaves: list[Any], spec: pytree.TreeSpec) -> Sample:
    is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]

    def call(*tensors: torch.Tensor) -> Any:
        left = iter(tensors)
        filled = [next(left) if tensor else leaf for tensor, leaf in zip(is_tensor, leaves, strict=True)]
        input, args, kwargs = pytree.tree_unflatten(filled, spec)
        return op(input, *args, **kwargs)

    return Sample(call, [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)])
