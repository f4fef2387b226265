"""The bytes of library calls that a summary tells: what is moved, not what is written down."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import longhand
from longhand.lower.ir import Buffer, BufferKind, Extern, View, ViewCall
from longhand.telling.summary import finds_it_contiguous

aten = torch.ops.aten
TURNED = ViewCall(aten.transpose.int, (1, 2))
HEADS_TOGETHER = ViewCall(aten.reshape.default, ((2, 19, 48),))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(48, 144)

    def forward(self, x):
        batch, seq, dim = x.shape
        q, k, v = (
            part.view(batch, seq, 4, 12).transpose(1, 2) for part in self.qkv(x.tanh()).split(dim, dim=2)
        )
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, seq, dim).tanh()


@pytest.mark.parametrize(("device", "arch"), [("cpu", None), ("cuda", "sm_90")])
def test_gradients_of_attention_are_contiguous_as_they_come(device, arch, tmp_path):
    made = longhand.generate(
        Attention(), (torch.randn(2, 19, 48),), out=tmp_path / "unit", train=True, device=device, arch=arch
    )
    assert any("contiguous" in call.target for call in made.library_calls), made.library_calls
    assert made.library_bytes == 0


@pytest.mark.parametrize(
    ("stride", "calls", "is_only_seen"),
    [
        ((912, 12, 48, 1), (TURNED, HEADS_TOGETHER), True),
        ((912, 228, 12, 1), (TURNED, HEADS_TOGETHER), False),  # the reshape copies
        ((912, 228, 12, 1), (TURNED,), False),
        ((912, 12, 48, 1), (), False),
        ((912, 228, 12, 1), (), True),
    ],
)
def test_a_contiguous_moves_what_does_not_lie_so(stride, calls, is_only_seen):
    shape = (2, 19, 48) if calls[1:] else (2, 19, 4, 12) if calls else (2, 4, 19, 12)
    given = Buffer(
        "given", BufferKind.INTERMEDIATE, torch.float32, (2, 4, 19, 12), stride, layout_is_known=False
    )
    view = View("given", shape, tuple(torch.empty(shape).stride()), 0, calls)
    step = Extern(aten.contiguous.default, (view,), (), ("copied",))
    assert finds_it_contiguous(step, {"given": given}, {}) is is_only_seen
    as_image = Extern(
        aten.contiguous.default, (view,), (("memory_format", torch.channels_last),), ("copied",)
    )
    assert not finds_it_contiguous(as_image, {"given": given}, {})
