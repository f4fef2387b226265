"""Attention on a GPU with masks that are proven, are tables, or stay: against eager, forward and backward."""

from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import longhand
from tests.models.test_masks import Decoder

pytestmark = pytest.mark.gpu

# 64 more than a multiple of 128 is where cuDNN's backward with a mask yields NaN; 77 is no multiple of anything.
SIZES = (64, 77, 128, 192)


@pytest.mark.parametrize("seq", SIZES)
@pytest.mark.parametrize("window", [None, 9], ids=["causal", "window"])
@pytest.mark.parametrize("padding", [None, "right", "left"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_as_eager(
    dtype: torch.dtype, padding: str | None, window: int | None, seq: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = Decoder(window).to("cuda", dtype)
    x = torch.randn(2, seq, 16, device="cuda", dtype=dtype, requires_grad=True)
    keep = torch.ones(2, seq, dtype=torch.bool, device="cuda")
    if padding is not None:
        keep[1, : seq // 3] = padding == "right"
        keep[1, -(seq // 3) :] = padding == "left"
    arguments = (x,) if padding is None else (x, keep)
    compiled = longhand.compile(model, fullgraph=True, options={"out": str(tmp_path)})
    found = compiled(*arguments)
    with torch.no_grad():
        without_gradients = compiled(*arguments)
    with sdpa_kernel(SDPBackend.MATH):  # what every backend is to compute
        wanted = model(*arguments)
    tolerance = {"rtol": 3e-2, "atol": 3e-2} if dtype is torch.bfloat16 else {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(found, wanted, **tolerance)
    torch.testing.assert_close(without_gradients, wanted, **tolerance)
    weights = [x, *model.parameters()]
    for one, other in zip(
        torch.autograd.grad(found.float().square().mean(), weights),
        torch.autograd.grad(wanted.float().square().mean(), weights),
        strict=True,
    ):
        torch.testing.assert_close(one, other, **tolerance)
