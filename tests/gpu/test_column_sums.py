"""Sums down the columns at numbers of rows that leave the last chunks empty: their programs must add nothing.

Triton counts the turns of an unrolled loop without a sign: one that began past its end ran over rows of other chunks.
"""

import pytest
import torch

import longhand

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("n_rows", [33, 392, 1025, 1100, 2500, 4097])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_of_a_bias(n_rows, dtype):
    torch.manual_seed(0)
    x = torch.randn(n_rows, 96, device="cuda", dtype=dtype)
    bias = torch.randn(96, device="cuda", dtype=dtype, requires_grad=True)
    scale = torch.randn(n_rows, 96, device="cuda", dtype=dtype)

    def shifted(x, bias):
        return torch.tanh(x + bias) * scale

    def gradient(run):
        bias.grad = None
        run(x, bias).sum().backward()
        return bias.grad.double()

    exact_bias = bias.detach().double().requires_grad_()
    (torch.tanh(x.double() + exact_bias) * scale.double()).sum().backward()
    error, allowed = (
        (gradient(run) - exact_bias.grad).abs().max().item() for run in (longhand.compile(shifted), shifted)
    )
    assert error <= max(2 * allowed, torch.finfo(dtype).eps * exact_bias.grad.abs().max().item())
