"""Training under autocast on a GPU: attention's backward gets what its forward kept, in kernels and calls of ours."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch

import longhand
from longhand.errors import EagerWarning
from tests.autograd.test_calls_below_autocast import Attention

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("heads, of_keys, causal", [(4, 4, False), (4, 4, True), (4, 2, True)])
def test_a_step_is_eagers(heads, of_keys, causal, dtype, tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("LONGHAND_STRICT", "1")
    longhand.reset()
    torch.manual_seed(0)
    eager = Attention(heads, of_keys, causal).cuda()
    ours = copy.deepcopy(eager)
    x = torch.randn(2, 16, 32, device="cuda")
    mask = torch.rand(2, 1, 16, 16, device="cuda") > 0.3
    mask[..., 0] = True  # a row without any key is NaN
    run = longhand.compile(ours)
    with warnings.catch_warnings(), torch.autocast("cuda", dtype=dtype):
        warnings.simplefilter("error", EagerWarning)
        results = run(x, mask), eager(x, mask)
    torch.testing.assert_close(*results, rtol=2e-2, atol=2e-2)
    for result in results:
        result.float().square().sum().backward()
    for mine, theirs in zip(ours.parameters(), eager.parameters(), strict=True):
        scale = theirs.grad.abs().max().item()
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=3e-2, atol=3e-2 * scale)
