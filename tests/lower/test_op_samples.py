"""Every lowering against eager on the samples of PyTorch's own operator database.

Names are those of the database; a variant's name follows after a colon. The fast test takes a few samples of some
ops, the slow one more samples of all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)

# All of their samples become loops of ours, but for some empty tensors.
WHOLLY_OURS = """
    abs acos acosh add addcdiv addcmul all amax amin any arange argmax argmin asin asinh
    atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_tensors broadcast_to
    ceil chunk clamp clamp_max clamp_min clone contiguous copysign cos cosh diagonal
    div:no_rounding_mode eq erf erfc exp exp2 expand expand_as expand_copy expm1 eye fill flatten
    flip floor fmax fmin full full_like ge gt heaviside hypot isinf isnan isneginf isposinf le lerp
    linalg.vector_norm log log10 log1p log2 log_softmax log_softmax:with_dtype logaddexp logaddexp2
    logical_and logical_not logical_or logical_xor logit logsumexp lt mT masked.amax masked.amin
    masked.log_softmax masked.logaddexp masked.logsumexp masked.mean masked.norm masked.prod
    masked.softmax masked.softmin masked.sum masked_fill max:reduction_no_dim max:reduction_with_dim
    maximum mean min:reduction_no_dim min:reduction_with_dim minimum movedim mul nan_to_num
    native_layer_norm ne neg new_full new_ones new_zeros nn.functional.binary_cross_entropy
    nn.functional.binary_cross_entropy_with_logits nn.functional.celu nn.functional.elu
    nn.functional.gelu nn.functional.glu nn.functional.hardshrink nn.functional.hardsigmoid
    nn.functional.hardswish nn.functional.hardtanh nn.functional.huber_loss nn.functional.l1_loss
    nn.functional.layer_norm nn.functional.leaky_relu nn.functional.logsigmoid nn.functional.mish
    nn.functional.mse_loss nn.functional.multilabel_soft_margin_loss nn.functional.prelu
    nn.functional.relu nn.functional.relu6 nn.functional.rms_norm nn.functional.selu
    nn.functional.silu nn.functional.smooth_l1_loss nn.functional.softmin
    nn.functional.softmin:with_dtype nn.functional.softplus nn.functional.softshrink
    nn.functional.softsign nn.functional.tanhshrink nn.functional.threshold norm norm:fro norm:inf
    ones ones_like permute positive prod reciprocal reshape round rsqrt rsub scalar_tensor select
    select_scatter sigmoid sign signbit sin sinc sinh slice softmax softmax:with_dtype split
    split:list_args split_with_sizes sqrt square squeeze squeeze:multiple std std:unbiased std_mean
    std_mean:unbiased sub sum t tan tanh torch.ops.aten._safe_softmax.default transpose tril triu
    true_divide trunc unbind unflatten unfold unsqueeze var var:unbiased var_mean var_mean:unbiased
    view view_as where xlogy zeros zeros_like
""".split()  # noqa: SIM905

# Some of their samples are left to ATen: what eager raises for, empty tensors, integer tables, an offset that counts
# from the beginning of memory, ...
PARTLY_OURS = """
    as_strided cat constant_pad_nd div:floor_rounding div:trunc_rounding floor_divide fmod gather index_select
    linspace nn.functional.batch_norm nn.functional.cross_entropy nn.functional.embedding
    nn.functional.group_norm nn.functional.nll_loss pow remainder repeat roll slice_scatter stack
""".split()  # noqa: SIM905

FAST = """
    add sub mul div:no_rounding_mode pow sum mean amax argmax softmax log_softmax
    nn.functional.layer_norm nn.functional.gelu where cat gather index_select
    nn.functional.embedding std_mean clamp expand reshape slice unfold tril logsumexp
    nn.functional.cross_entropy remainder eq maximum nan_to_num stack constant_pad_nd
    nn.functional.group_norm
""".split()  # noqa: SIM905

# Eager rounds the quotient to bfloat16 before it cuts off the fraction: a whole one off.
DISCONTINUOUS = {"div:floor_rounding", "div:trunc_rounding", "floor_divide", "fmod", "remainder"}


class Sample:
    """One call of an op as a function of its tensors."""

    def __init__(self, op: Any, sample: Any) -> None:
        self.op = op
        self.leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.tensors = [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    def __call__(self, *tensors: torch.Tensor) -> Any:
        left = iter(tensors)
        leaves = [next(left) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        input, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(input, *args, **kwargs)


def samples(name: str, dtype: torch.dtype, limit: int) -> Iterator[Sample]:
    """The first samples of an op in a dtype whose tensors are real."""
    name, _, variant = name.partition(":")
    (info,) = [info for info in op_db if (info.name, info.variant_test_name) == (name, variant)]
    if dtype not in info.supported_dtypes("cpu"):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # To the end: a suspended generator would end inside the tracer, and take its grad mode with it.
        generated = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    found = [Sample(info.op, sample) for sample in generated[:limit]]
    yield from (sample for sample in found if not any(tensor.is_complex() for tensor in sample.tensors))


def run(check, name: str, limit: int) -> None:
    n_checked = 0
    for dtype in DTYPES:
        if dtype is torch.bfloat16 and name in DISCONTINUOUS:
            continue
        for sample in samples(name, dtype, limit):
            try:
                expected = sample(*sample.tensors)
            except (RuntimeError, NotImplementedError):
                continue  # eager refuses this dtype
            if not pytree.tree_leaves(expected):
                continue
            may_decline = name not in WHOLLY_OURS or any(x.numel() == 0 for x in sample.tensors)
            check(sample, *sample.tensors, externs=None if may_decline else 0)
            n_checked += 1
    assert n_checked


@pytest.mark.parametrize("name", FAST)
def test_some_samples(check, name):
    run(check, name, limit=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLLY_OURS + PARTLY_OURS)
def test_all_samples(check, name):
    run(check, name, limit=30)
