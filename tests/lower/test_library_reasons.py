"""Why a library call stays one is told beside it."""

from __future__ import annotations

import torch

from longhand.lower.ir import Extern
from longhand.lower.lowering import lower
from tests.lower.conftest import OPTIONS, traced


def test_a_call_that_draws_says_so() -> None:
    program = lower(traced(lambda x: x * torch.rand_like(x), [torch.randn(6)]), OPTIONS)
    reasons = [step.reason for step in program.steps if isinstance(step, Extern) and step.reason]
    assert reasons == ["rand_like draws eager's numbers from PyTorch's generator."]
