"""Triton kernels that the user wrote: a break with a hint, or a custom op, which is one call of the graph."""

import pytest
import torch

from tests.capture.bytecode import running

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@pytest.fixture
def add_one(hook, monkeypatch):
    """A function that launches a kernel, in Triton's interpreter."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")

    @triton.jit
    def add_one_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + 1, mask=inside)

    def launch(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        add_one_kernel[(1,)](x, out, x.numel(), BLOCK=16)
        return out

    return launch


def test_a_launch_is_a_break_with_a_hint(add_one):
    def scaled(x):
        return add_one(x * 2) * 3

    x = torch.arange(6.0)
    captured = running.check(scaled, (x,), (x + 1,))
    first = next(event.record for event in captured.events if event.kind.value == "break")
    assert "add_one_kernel is a Triton kernel" in first.reason and "custom_op" in first.hint
    assert first.where.startswith(__file__) and captured.count("graph") >= 2


def test_a_custom_op_around_it_is_one_call(add_one):
    op = torch.library.custom_op("longhand_tests::add_one_in_triton", add_one, mutates_args=())
    op.register_fake(torch.empty_like)

    def scaled(x):
        return op(x * 2) * 3

    captured = running.check(scaled, (torch.arange(6.0),))
    assert captured.count("graph") == 1 and captured.count("break") == 0
    assert torch.equal(captured(torch.arange(6.0)), (torch.arange(6.0) * 2 + 1) * 3)
