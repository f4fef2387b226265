"""The direct launcher on a GPU: right for every alignment, size, stream and device. Its cost: benchmarks/launch.py."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
import triton

from tests.gpu.units import make_unit

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    make_unit(tmp_path_factory.mktemp("launch") / "launch_unit")
    return sys.modules["launch_unit.kernels.softmax"]


def softmax(scores: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores.float() * 0.125 + bias.float(), dim=-1).to(scores.dtype)


def check(kernel: ModuleType, rows: int, cols: int, shift: int = 0, device: str = "cuda") -> None:
    """One call on fresh data; `shift` moves the tensors off their 16-byte boundaries."""
    memory = torch.randn(rows * cols + shift, device=device).bfloat16()
    scores = memory[shift:].view(rows, cols)
    bias = torch.randn(cols, device=device).bfloat16()
    weights = torch.full((rows, cols), float("nan"), dtype=torch.bfloat16, device=device)
    kernel.softmax(scores, bias, weights, rows, cols)
    torch.testing.assert_close(weights, softmax(scores, bias), rtol=2e-2, atol=1e-3)


def test_launches_directly_from_the_second_call_on(kernel: ModuleType) -> None:
    launcher = kernel.softmax_kernel
    assert hasattr(launcher, "compiled"), f"triton {triton.__version__} is not known to fast_launch"
    launcher.compiled.clear()
    launcher.launchers.clear()
    jit_calls = []
    original = launcher.kernel.run
    launcher.kernel.run = lambda *args, **options: jit_calls.append(1) or original(*args, **options)
    try:
        for _ in range(3):
            check(kernel, 100, 200)
    finally:
        del launcher.kernel.run
    assert len(jit_calls) == 1


@pytest.mark.parametrize("shift", [0, 1, 3, 8])
def test_alignment_may_change_between_calls(kernel: ModuleType, shift: int) -> None:
    for rows, cols in [(64, 128), (33, 128), (64, 100), (1, 128), (17, 1)]:
        for again in (0, shift, 0, shift):
            check(kernel, rows, cols, again)


def test_no_rows_launch_nothing(kernel: ModuleType) -> None:
    for _ in range(2):
        check(kernel, 0, 128)


def test_the_current_stream_is_used(kernel: ModuleType) -> None:
    check(kernel, 64, 128)
    stream = torch.cuda.Stream()
    scores = torch.zeros(64, 128, device="cuda", dtype=torch.bfloat16)
    bias = torch.zeros(128, device="cuda", dtype=torch.bfloat16)
    weights = torch.zeros_like(scores)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        kernel.softmax(scores, bias, weights, 64, 128)
        done = torch.cuda.Event()
        done.record()
    assert not done.query()
    done.synchronize()
    torch.testing.assert_close(weights, softmax(scores, bias))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_the_tensors_device_is_used(kernel: ModuleType) -> None:
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        for _ in range(2):
            check(kernel, 64, 128, device=device)
    assert torch.cuda.current_device() == 0


def test_launch_hooks_hear_of_every_launch(kernel: ModuleType) -> None:
    heard: list[str] = []

    def hook(metadata: object) -> None:
        heard.append(metadata.get()["name"])  # type: ignore[attr-defined]

    check(kernel, 64, 128)
    triton.knobs.runtime.launch_enter_hook.add(hook)
    try:
        check(kernel, 64, 128)
    finally:
        triton.knobs.runtime.launch_enter_hook.remove(hook)
    check(kernel, 64, 128)
    assert heard == ["softmax_kernel"]
