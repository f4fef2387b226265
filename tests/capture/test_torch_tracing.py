"""The private names of torch that tell whether a call is traced: each is there, and means what is relied on."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from longhand.capture import torch_tracing


def test_n_listening_and_no_modes():
    assert torch_tracing.n_listening() == 0
    with FakeTensorMode():
        assert torch_tracing.n_listening() == 1
        with torch_tracing.no_modes():
            assert torch_tracing.n_listening() == 0 and type(torch.empty(1)) is torch.Tensor


def test_n_transforms():
    seen = []
    torch.vmap(lambda x: seen.append(torch_tracing.n_transforms()) or x)(torch.ones(2))
    assert seen == [1] and torch_tracing.n_transforms() == 0
