"""What the caller gives each layer, such as its cache: a list's entries or a stack's slices, in one loop."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import nn

import longhand
from longhand.options import Mode

N_LAYERS, N_HEADS, HEAD_DIM, CACHE_LEN = 4, 2, 8, 24
Cache = torch.Tensor | list[torch.Tensor] | list[tuple[torch.Tensor, torch.Tensor]]


class CachedBlock(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.widen, self.narrow = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(3 * dim, dim, bias=False)
        self.n_heads = N_HEADS

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, position: torch.Tensor
    ) -> torch.Tensor:
        q, k, v = self.qkv(self.norm_1(x)).unflatten(-1, (3, self.n_heads, -1)).transpose(1, 3).unbind(2)
        keys[:, :, position] = k
        values[:, :, position] = v
        mask = torch.arange(keys.shape[2], device=x.device)[None] <= position
        mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + self.proj(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(F.silu(self.widen(self.norm_2(x))))


class Decoder(nn.Module):
    """The caches of all layers: stacked in two tensors, in two lists, or in a list of pairs."""

    def __init__(self, first: int = 0) -> None:
        super().__init__()
        dim = N_HEADS * HEAD_DIM
        self.embedding = nn.Embedding(32, dim)
        self.blocks = nn.ModuleList(CachedBlock(dim) for _ in range(N_LAYERS))
        self.norm = nn.RMSNorm(dim)
        self.first = first

    def forward(
        self, tokens: torch.Tensor, position: torch.Tensor, keys: Cache, values: Cache | None = None
    ) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer, block in enumerate(self.blocks):
            place = layer + self.first
            own = keys[place] if values is None else (keys[place], values[place])
            x = block(x, own[0], own[1], position)
        return F.linear(self.norm(x), self.embedding.weight)


def cache(n_entries: int = N_LAYERS) -> torch.Tensor:
    return torch.randn(n_entries, 1, N_HEADS, CACHE_LEN, HEAD_DIM)


def given(form: str, n_entries: int = N_LAYERS) -> dict[str, object]:
    torch.manual_seed(0)
    call: dict[str, object] = {"tokens": torch.tensor([[5]]), "position": torch.tensor([7])}
    if form == "stacked":
        return call | {"keys": cache(n_entries), "values": cache(n_entries)}
    if form == "lists":
        return call | {"keys": [*cache(n_entries)], "values": [*cache(n_entries)]}
    if form == "pairs":
        return call | {"keys": [*zip(cache(n_entries), cache(n_entries), strict=True)]}
    return call | {"keys": torch.stack([cache(n_entries), cache(n_entries)], 1)}


def generated(
    model: nn.Module, call: dict[str, object], out: Path, device: str = "cpu", mode: Mode = Mode.DEFAULT
) -> str:
    arch = {"arch": "sm_90"} if device == "cuda" else {}
    with torch.no_grad():
        longhand.generate(model, (), kwargs=copy.deepcopy(call), out=out, device=device, mode=mode, **arch)
    return (out / "model.py").read_text()


def assert_as_eager(model: nn.Module, call: dict[str, object], out: Path) -> None:
    """Results and what is in the caches afterwards, in two calls."""
    unit = longhand.load(out)()
    unit.load_state_dict(model.state_dict())
    mine, theirs = copy.deepcopy(call), copy.deepcopy(call)
    for position in (7, 8):
        mine["position"], theirs["position"] = torch.tensor([position]), torch.tensor([position])
        with torch.no_grad():
            torch.testing.assert_close(unit(**mine), model(**theirs), rtol=1e-4, atol=1e-5)
        for one, other in zip(pytree.tree_leaves(mine), pytree.tree_leaves(theirs), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


ENTRIES = {
    "stacked": "keys[layer], values[layer]",
    "lists": "keys[layer], values[layer]",
    "pairs": "keys[layer][0], keys[layer][1]",
    "one stack": "keys[layer]",
}


@pytest.mark.parametrize("form", ENTRIES)
def test_each_layer_of_a_loop_is_given_its_entry(form: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, call = Decoder().eval(), given(form)
    text = generated(model, call, tmp_path / "unit")
    assert "for layer, block in enumerate(self.blocks):" in text
    assert f"x, residual, norms[layer + 1].weight, {ENTRIES[form]}, position, " in " ".join(text.split())
    assert (
        "position] = k.reshape(" in text
        and "position] = v.reshape(" in text
        and "kernels.index_put(" not in text
    )
    assert_as_eager(model, call, tmp_path / "unit")


@pytest.mark.parametrize("form", ["lists", "pairs"])
def test_entries_further_along_than_their_layers(form: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, call = Decoder(first=1).eval(), given(form, N_LAYERS + 1)
    text = generated(model, call, tmp_path / "unit")
    assert "keys[layer + 1]" in text and "keys[1]" in text
    assert_as_eager(model, call, tmp_path / "unit")


def test_a_stack_that_is_seen_as_a_whole_stays_one(tmp_path: Path) -> None:
    class Summed(Decoder):
        def forward(
            self, tokens: torch.Tensor, position: torch.Tensor, keys: Cache, values: Cache | None = None
        ) -> torch.Tensor:
            assert isinstance(keys, torch.Tensor)
            return super().forward(tokens, position, keys, values) + keys.sum()

    torch.manual_seed(0)
    model, call = Summed().eval(), given("stacked")
    generated(model, call, tmp_path / "unit")
    assert_as_eager(model, call, tmp_path / "unit")


def test_keys_and_values_are_written_in_one_launch_and_words_say_what_they_are(tmp_path: Path) -> None:
    model, call = Decoder().eval(), given("stacked")
    text = generated(model, call, tmp_path / "unit", device="cuda")
    assert "(layers=4, batch, n_heads=2, cache_len=24, head_dim=8)" in text
    assert text.count("kernels.index_put(") == 1 and "index_put_" not in text
    assert "n_rows=n_heads" in text and "n_cols=head_dim" in text and "n_places=cache_len" in text
    assert "qkv_out.reshape(batch, seq, 3, n_heads, head_dim)" in text
    assert "torch.finfo(torch.float32).eps" in text and "1.19" not in text
    kernel = (tmp_path / "unit" / "kernels" / "index_put.py").read_text()
    assert kernel.startswith('"""index_put: keys[position] = k; values[position] = v.')
    assert "keys_ptr,  # float32, (n_rows, n_places, n_cols) by strides" in kernel
    assert "index_put(" in kernel[kernel.index("def reference") :] and "accumulate" not in kernel


def test_what_is_recorded_is_given_each_tensor_and_puts_the_lists_together(tmp_path: Path) -> None:
    model, call = Decoder().eval(), given("pairs")
    text = generated(model, call, tmp_path / "unit", device="cuda", mode=Mode.REDUCE_OVERHEAD)
    assert "keys = [(keys_0_0, keys_0_1), (keys_1_0, keys_1_1)" in text.replace("\n            ", " ")
    assert "keys[layer][0], keys[layer][1]" in text
