"""One kernel for all sizes: the key knows math, addresses, dtypes, style and tunables, and nothing else."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from longhand.lower.ir import Nest
from longhand.schedule.kernels.kernel import plan_kernel
from tests.schedule import nests
from tests.schedule.nests import DEVICES, NestMaker, bf16, f32


def key(make: NestMaker, options=nests.CUDA) -> str:
    return plan_kernel(make.nest(), make.buffers, options)[0].key


@pytest.mark.parametrize("options", DEVICES)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (nests.softmax_with_bias(64, 4096), nests.softmax_with_bias(3, 129)),
        (nests.add_layer_norm(2, 3, 29), nests.add_layer_norm(8, 128, 1024)),
        (nests.add_layer_norm(2, 3, 29), nests.add_layer_norm(1, 7, 29)),
        (nests.gelu_bias(2, 40), nests.gelu_bias(40, 2)),
        (nests.transpose_add(64, 64), nests.transpose_add(640, 128)),
        (nests.rotary(2, 5, 3, 4), nests.rotary(2, 3, 3, 3)),
        (nests.rotary(2, 4, 4, 4), nests.rotary(5, 2, 8, 16)),
        (nests.split_gate(7, 12), nests.split_gate(12, 12)),
        (nests.channel_affine(2, 5, 18), nests.channel_affine(3, 18, 5)),
        (nests.embedding(6, 10), nests.embedding(11, 11)),
        (nests.flip_columns(4, 9), nests.flip_columns(9, 9)),
        (nests.masked_softmax(8, 8), nests.masked_softmax(5, 9)),
        (nests.column_sum(65536, 2048), nests.column_sum(4096, 512)),
    ],
)
def test_sizes_do_not_matter(one: NestMaker, other: NestMaker, options) -> None:
    assert key(one, options) == key(other, options)


def test_names_and_origins_do_not_matter() -> None:
    make = nests.softmax_with_bias(8, 64)
    swap = {"scores": "logits", "bias": "mask", "weights": "p"}
    body = tuple(
        dataclasses.replace(
            value,
            **({"buffer": swap[value.buffer]} if hasattr(value, "buffer") else {}),
            name="word",
            origin="node",
        )
        for value in make.nest().body
    )
    buffers = {swap[name]: dataclasses.replace(b, name=swap[name]) for name, b in make.buffers.items()}
    renamed = plan_kernel(Nest(make.axes, body), buffers, nests.CUDA)[0]
    assert renamed.key == key(make)


def test_scalar_values_do_not_matter_but_constants_do() -> None:
    def scaled(constant: float, scalar: float) -> NestMaker:
        make = NestMaker(col=64)
        make.store("out", "col", make.load("x", "col") * constant + make.scalar(scalar, "eps"))
        return make

    assert key(scaled(2.0, 1e-5)) == key(scaled(2.0, 1e-6))
    assert key(scaled(2.0, 1e-5)) != key(scaled(3.0, 1e-5))


def test_different_kernels_have_different_keys() -> None:
    makers = [
        nests.softmax_with_bias(8, 64, bf16),
        nests.softmax_with_bias(8, 64, f32),
        nests.softmax_with_bias(8, 64, torch.float16),
        nests.exp_normalize(8, 64),
        nests.rms_norm(8, 64),
        nests.add_layer_norm(1, 8, 64),
        nests.add_layer_norm(1, 8, 64, keep_residual=True),
        nests.gelu_bias(8, 64),
        nests.transpose_add(64, 64),
        nests.split_gate(8, 64),
        nests.column_sum(8, 64),
        nests.column_sum(8192, 64),
    ]
    keys = [key(make) for make in makers]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & {key(make, nests.CPU) for make in makers}


def test_a_large_call_shares_its_kernel() -> None:
    """Then the kernel counts in 64 bits for all: test_index_width.py."""
    assert key(nests.rms_norm(2**20, 4096)) == key(nests.rms_norm(2**10, 4096))


def test_planning_again_gives_the_same_plan() -> None:
    make = nests.rotary(2, 5, 3, 4)
    assert plan_kernel(make.nest(), make.buffers, nests.CUDA) == plan_kernel(
        make.nest(), make.buffers, nests.CUDA
    )
