"""Printed Triton kernels compile to sm_90 and keep everything in registers."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from longhand.schedule.kernels.kernel import plan_kernel
from tests.emit.triton_units import job_for, printed, write_unit
from tests.schedule import nests
from tests.schedule.execution import fresh_memory
from tests.schedule.nests import CUDA, NestMaker
from tests.triton_compile import compile_launches

# At the sizes of a real model, where the tensors are not too large to be made here.
CASES: dict[str, NestMaker] = {
    "exp_normalize": nests.exp_normalize(64, 1024),
    "softmax": nests.softmax_with_bias(64, 4096),
    "add_layer_norm": nests.add_layer_norm(2, 16, 4096),
    "rms_norm": nests.rms_norm(64, 4096),
    "gelu_bias": nests.gelu_bias(32, 8192),
    "transpose_add": nests.transpose_add(256, 512),
    "rotary": nests.rotary(2, 64, 8, 64),
    "masked_softmax": nests.masked_softmax(100, 100),
    "embedding": nests.embedding(70, 768),
    "integer_rows": nests.integer_rows(60, 200),
    "softmax_long": nests.softmax_with_bias(300, 40000),
    "add_layer_norm_long": nests.add_layer_norm(2, 200, 40000),
    "cross_entropy": nests.cross_entropy(300, 32768),
    "cross_entropy_few": nests.cross_entropy(3, 40000),
    "column_sum": nests.column_sum(4096, 2048),
    "full_sum": nests.full_sum(1000, 1000),
    "channel_statistics": nests.channel_statistics(3, 5, 30000),
    "softmax_over_channels": nests.softmax_over_channels(2, 64, 7000),
    "integer_rows_long": nests.integer_rows(2, 20000),
    "layer_norm_backward": nests.layer_norm_backward(8192, 768),
    "layer_norm_backward_long": nests.layer_norm_backward(1024, 4096),
}


@pytest.mark.parametrize("name", CASES)
def test_kernel_compiles_without_spills(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = CASES[name]
    plan, launch = plan_kernel(make.nest(), make.buffers, CUDA)
    kernel = f"{name}_{plan.schedule.name}"
    package = f"unit_{name}"
    write_unit(tmp_path / package, {kernel: printed(kernel, plan)})
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    module = importlib.import_module(f"{package}.kernels.{kernel}")
    job = job_for(kernel, plan, launch, fresh_memory(make.nest().body, make.buffers))
    for usage in compile_launches(module, kernel, job.tensors, *job.numbers):
        assert usage.spill_bytes == 0, usage
        assert usage.shared_bytes <= 227 * 1024, usage
