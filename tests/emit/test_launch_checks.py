"""What the launcher of Triton kernels refuses: tensors larger than it counts, and tensors on several devices."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import triton

from longhand.emit.unit.loading import load_unit
from longhand.schedule.kernels.kernel import plan_kernel
from tests.emit.triton_units import printed, write_unit
from tests.schedule import nests
from tests.schedule.nests import CUDA

LARGE = 2**31


@pytest.fixture
def kernels(tmp_path: Path) -> ModuleType:
    """softmax for few rows, and rms_norm for many."""
    small, many = nests.softmax_with_bias(64, 128), nests.rms_norm(2**20, 4096)
    texts = {
        name: printed(name, plan_kernel(make.nest(), make.buffers, CUDA)[0])
        for name, make in (("softmax", small), ("rms_norm", many))
    }
    write_unit(tmp_path / "unit", texts)
    names = 'from .kernels.softmax import softmax_kernel\nfrom .kernels import rms_norm\n__all__ = ["softmax_kernel"]\n'
    (tmp_path / "unit" / "__init__.py").write_text(names)
    before = set(sys.modules)
    load_unit(tmp_path / "unit")
    return next(sys.modules[name] for name in set(sys.modules) - before if name.endswith("kernels.softmax"))


def meta(n: int) -> torch.Tensor:
    return torch.empty(n, device="meta", dtype=torch.bfloat16)


def launcher(kernel: object) -> object:
    if isinstance(kernel, triton.JITFunction):
        pytest.skip("this version of Triton is launched by Triton")
    return kernel


def test_a_tensor_that_32_bits_do_not_count_is_refused(kernels: ModuleType) -> None:
    softmax = launcher(kernels.softmax_kernel)
    softmax.check([meta(8), meta(8), meta(8)])
    with pytest.raises(ValueError, match=r"_ptr: expected less than 2013265920 elements.*got 2147483648"):
        softmax.check([meta(8), meta(8), meta(LARGE)])


def test_kernels_of_large_tensors_take_them(kernels: ModuleType) -> None:
    package = kernels.__name__.rpartition(".")[0]
    rms_norm = launcher(sys.modules[f"{package}.rms_norm"].rms_norm_kernel)
    assert rms_norm.large
    rms_norm.check([meta(LARGE), meta(8), meta(LARGE)])


def test_tensors_on_two_devices_are_refused(kernels: ModuleType) -> None:
    softmax = launcher(kernels.softmax_kernel)
    with pytest.raises(ValueError, match="expected a tensor on meta, got cpu"):
        softmax.check([meta(8), torch.zeros(8), meta(8)])
