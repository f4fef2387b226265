"""Units with symbolic sizes, run at several, odd ones too; sizes that do not agree are refused."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from tests.models.unit_calls import agree, compare, generated

B, N = Dim("b"), Dim("n")


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.norm, self.out = nn.Linear(32, 96), nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, x):
        batch, seq, dim = x.shape
        q, k, v = self.qkv(self.norm(x)).split(dim, dim=2)
        q, k, v = (t.view(batch, seq, 4, dim // 4).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) * 0.3
        causal = torch.ones(seq, seq, dtype=torch.bool).tril()
        weights = scores.masked_fill(~causal, float("-inf")).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).reshape(batch, seq, dim))


def test_attention(tmp_path):
    sizes = [(3, 5), (2, 17), (5, 9)]
    calls = [(torch.randn(batch, seq, 32),) for batch, seq in sizes]
    compare(SelfAttention().eval(), calls, tmp_path / "u", {"x": {0: B, 1: N}})


def test_reductions_over_either_side(tmp_path):
    def f(x):
        return x.var(1), x.std(0), x.mean(), x / x.norm(dim=1, keepdim=True), x.argmax(1), x.logsumexp(1)

    calls = [(torch.randn(*shape),) for shape in ((4, 5), (9, 12), (40, 33))]
    compare(f, calls, tmp_path / "u", {"x": {0: B, 1: N}})


def test_a_size_that_is_twice_a_symbol(tmp_path):
    def f(x):
        gate, value = x.chunk(2, -1)
        return F.silu(gate) * value, x.view(x.shape[0], 2, -1).sum(-1), x.reshape(-1, 2)

    unit = compare(f, [(torch.randn(4, 8),), (torch.randn(9, 14),)], tmp_path / "u", {"x": {0: B, 1: 2 * N}})
    with torch.no_grad(), pytest.raises(ValueError, match="x: expected size 8 in dimension 1"):
        unit(torch.randn(4, 9))


def test_sizes_that_must_agree_are_compared(tmp_path):
    unit = generated(
        lambda x, y: x + y, (torch.randn(4, 5), torch.randn(4, 5)), tmp_path / "u", ({0: B}, {0: B})
    )
    with torch.no_grad():
        agree(unit(torch.ones(6, 5), torch.ones(6, 5)), torch.full((6, 5), 2.0))
        with pytest.raises(ValueError, match="expected size 6 in dimension 0"):
            unit(torch.randn(6, 5), torch.randn(7, 5))


def test_positions_and_sizes_as_results(tmp_path):
    def f(x, index):
        seq = x.shape[1]
        place = torch.arange(seq)
        return (
            x + place,
            (place[:, None] - place[None]).abs(),
            x.gather(1, index),
            x[:, 1:] - x[:, :-1],
            seq * 2,
        )

    shapes = {"x": {0: B, 1: Dim("n", min=4)}, "index": {0: B, 1: Dim("k")}}
    calls = [(torch.randn(4, 5), torch.randint(4, (4, 3))), (torch.randn(9, 12), torch.randint(9, (9, 7)))]
    compare(f, calls, tmp_path / "u", shapes)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        place = torch.arange(x.shape[1]) / x.shape[1]
        return x + self.down(F.gelu(self.up(self.norm(x)))) * place[:, None]


def test_a_list_of_blocks_that_is_the_model(tmp_path):
    model = nn.Sequential(*[Block() for _ in range(5)])
    compare(model, [(torch.randn(3, 5, 16),), (torch.randn(2, 17, 16),)], tmp_path / "u", ({0: B, 1: N},))
