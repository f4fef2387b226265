"""Eager with every rounding drawn anew: what a call gives whose operations end in other last bits.

Eager's own error may be nothing by chance: of two equal values that are subtracted, or of a probability times the
difference of two logarithms. What a program that rounds elsewhere may then be off by is what eager moves by when each
of its operations does (stochastic arithmetic: Vignes, 1974).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.capture.torch_tracing import TorchDispatchMode

__all__ = ["OtherRoundings"]

# What they give is among what they are given, or is no number that was rounded.
_EXACT_TEXT = """
    clone _to_copy copy lift_fresh neg abs relu where masked_fill masked_scatter masked_select clamp clamp_min clamp_max
    maximum minimum fmax fmin amax amin max min sign sgn floor ceil round trunc gather index index_select take embedding
    cat stack repeat flip roll pad constant_pad_nd tril triu sort topk median kthvalue scatter index_put
    index_copy slice_scatter select_scatter max_pool2d_with_indices max_pool3d_with_indices
    empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like new_ones full
    full_like new_full arange eye scalar_tensor rand randn rand_like randn_like bernoulli normal uniform native_dropout
    """
_EXACT = frozenset(_EXACT_TEXT.split())
# What they give is made of differences of what they are given: of equal values nothing is left, by chance.
_OF_DIFFERENCES_TEXT = """
    var std var_mean std_mean native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _batch_norm_with_update cudnn_batch_norm
    """
_OF_DIFFERENCES = frozenset(_OF_DIFFERENCES_TEXT.split())
_DEVIATIONS = frozenset({"std", "std_mean"})


class OtherRoundings(TorchDispatchMode):
    """While inside, each float that an operation computes is a last bit larger, smaller, or as it was.

    Args:
        seed: Of the draw.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        schema = func._schema
        if schema.name.partition("::")[2] in _OF_DIFFERENCES:
            args = (self._moved(args[0].clone()), *args[1:])
        result = func(*args, **(kwargs or {}))
        is_fresh = not schema.is_mutable and all(one.alias_info is None for one in schema.returns)
        if is_fresh and schema.name.partition("::")[2] not in _EXACT:
            pytree.tree_map_only(torch.Tensor, self._moved, result)
        if schema.name == "aten::linspace":  # a difference of its ends: near zero it errs by their last bits
            self._move_by(result, max(map(abs, args[:2])))
        if schema.name.partition("::")[2] in _DEVIATIONS:
            _without_large_variances(pytree.tree_leaves(result)[0])
        return result

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex() and tensor.layout is torch.strided:
            parts = torch.view_as_real(tensor.resolve_conj().clone())
            tensor.copy_(torch.view_as_complex(self._moved(parts)))
        elif tensor.is_floating_point() and tensor.numel() and tensor.layout is torch.strided:
            tensor.copy_(tensor.double() * (1 + self._steps(tensor)))
        return tensor

    def _move_by(self, tensor: torch.Tensor, unit: float) -> None:
        """Moves each element by a last bit of `unit`; what is nothing but that may be zero."""
        tensor += self._steps(tensor) * unit
        is_rounding = tensor.abs() < 2 * torch.finfo(tensor.dtype).eps * unit
        tensor[is_rounding & (self._steps(tensor) < 0)] = 0.0

    def _steps(self, tensor: torch.Tensor) -> torch.Tensor:
        steps = torch.randint(-1, 2, tensor.shape, generator=self.generator).to(tensor.device)
        return steps.double() * torch.finfo(tensor.dtype).eps


def _without_large_variances(deviation: torch.Tensor) -> None:
    """Infinity where the type does not hold the square: eager on CUDA takes the root of a variance of this type."""
    deviation[deviation.square().isinf()] = torch.inf
