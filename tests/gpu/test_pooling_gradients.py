"""Gradients of padded average pooling between convolutions that work channels last: eager's, which are not."""

from __future__ import annotations

import pytest
import torch

import longhand
from tests.lower.test_padded_pooling import Pooled

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("counts_padding", [False, True])
def test_gradients_are_eagers(padding: int, counts_padding: bool) -> None:
    torch.manual_seed(0)
    model = Pooled(padding).cuda()
    model.pool.count_include_pad = counts_padding
    x = torch.randn(4, 64, 16, 16, device="cuda")
    given, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        longhand.compile(model)(given).backward()
        model(expected).backward()
    torch.testing.assert_close(given.grad, expected.grad, rtol=1e-3, atol=1e-4)
