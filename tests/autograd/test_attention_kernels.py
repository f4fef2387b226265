"""Which of PyTorch's attention kernels a CUDA unit that trains calls: none that would raise or compute another mask."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.verify import attention_on_cpu

QUERY = (2, 4, 64, 32)


class Attention(nn.Module):
    """Attention alone."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)


def written(
    folder: Path, *shapes: tuple[int, ...], causal: bool = False, dtype: torch.dtype = torch.bfloat16
) -> str:
    tensors = tuple(torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    out = folder / "unit"
    longhand.generate(Attention(causal), tensors, out=out, device="cuda", arch="sm_90", train=True, run=False)
    return (out / "model.py").read_text()


@pytest.mark.parametrize("shape", [QUERY, (2, 4, 60, 128)])
def test_narrow_heads_are_cudnns(tmp_path: Path, shape: tuple[int, ...]) -> None:
    text = written(tmp_path, shape, shape, shape, causal=True)
    assert re.search(r" cudnn_attention\(\s*query, key, value, is_causal=True\s*\)", text)
    assert "flash_attention" not in text


FEW = ((1, 6, 128, 64), (1, 6, 1500, 64), (1, 6, 1500, 64))  # a decoder's queries, a recording's keys


@pytest.mark.parametrize(
    "shapes", [((2, 4, 64, 256),) * 3, ((2, 4, 64, 32), (2, 4, 1, 32), (2, 4, 1, 32)), FEW]
)
def test_what_cudnn_refuses_or_does_slowly_is_the_flash_kernels(
    tmp_path: Path, shapes: tuple[tuple[int, ...], ...]
) -> None:
    text = written(tmp_path, *shapes)
    assert "_scaled_dot_product_flash_attention" in text and "cudnn" not in text


@pytest.mark.parametrize("version", [None, 91002, 91501])
def test_an_old_cudnn_is_not_asked(
    tmp_path: Path, version: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (2, 4, 13, 32)
    query, key, value = (torch.randn(shape, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: version)
    out = tmp_path / "unit"
    longhand.generate(
        Attention(True), (query, key, value), out=out, device="cuda", arch="sm_90", train=True, run=False
    )
    attention_on_cpu.register()
    unit = runpy.run_path(str(out / "runtime.py"))
    with torch.profiler.profile() as profile:
        made = unit["cudnn_attention"](query.detach(), key.detach(), value.detach(), is_causal=True)
        attended, logsumexp, *_, seed, offset, _ = made
        operands = (query.detach(), key.detach(), value.detach(), attended, logsumexp, seed, offset)
        found = unit["cudnn_attention_backward"](torch.ones_like(attended), *operands, is_causal=True)
    kernel = "cudnn" if version == 91501 else "flash"
    called = {event.key for event in profile.key_averages() if "_scaled_dot_product" in event.key}
    name = f"aten::_scaled_dot_product_{kernel}_attention"
    assert called == {name, f"{name}_backward"}
    expected = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(attended, expected.detach(), atol=2e-2, rtol=2e-2)
    gradients = torch.autograd.grad(expected, (query, key, value), torch.ones_like(expected))
    for own, eagers in zip(found, gradients, strict=True):
        torch.testing.assert_close(own, eagers, atol=4e-2, rtol=4e-2)


# Each of these the flash kernel refuses, but for the second: there its causal mask is another than eager's.
REFUSED = {
    "heads of 512": (((1, 2, 16, 512),) * 3, False),
    "causal, more keys than queries": ((QUERY, (2, 4, 128, 32), (2, 4, 128, 32)), True),
    "values of another width": ((QUERY, QUERY, (2, 4, 64, 64)), False),
    "one head of keys for all": ((QUERY, (2, 1, 64, 32), (2, 1, 64, 32)), False),
    "heads of 20": (((2, 4, 64, 20),) * 3, False),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_the_flash_kernel_would_not_do_is_left_to_eagers_choice(tmp_path: Path, why: str) -> None:
    shapes, causal = REFUSED[why]
    text = written(tmp_path, *shapes, causal=causal)
    assert "flash_attention" not in text and "cudnn_attention" not in text


@pytest.mark.parametrize("causal", [False, True])
def test_float32_is_the_efficient_kernels_and_computed_once(tmp_path: Path, causal: bool) -> None:
    text = written(tmp_path, QUERY, QUERY, QUERY, dtype=torch.float32, causal=causal)
    assert "flash_attention" not in text and "cudnn_attention" not in text
    assert text.count("_scaled_dot_product_efficient_attention.default(") == 1
    assert "bmm" not in text + (tmp_path / "unit" / "backward.py").read_text()


# What the flash kernel does not take, and what float32 is: results and gradients, without a GPU.
WHOLE = {
    "float32": (((2, 4, 13, 8),) * 3, False, torch.float32),
    "float32, causal": (((2, 4, 13, 8),) * 3, True, torch.float32),
    "causal, more keys than queries": (((2, 4, 13, 8), (2, 4, 24, 8), (2, 4, 24, 8)), True, torch.bfloat16),
    "causal, more queries than keys": (((2, 4, 13, 8), (2, 4, 6, 8), (2, 4, 6, 8)), True, torch.float32),
    "values of another width": (((2, 4, 13, 8), (2, 4, 13, 8), (2, 4, 13, 16)), True, torch.float32),
}


@pytest.mark.usefixtures("trial_runs")
@pytest.mark.parametrize("why", WHOLE)
def test_the_efficient_kernel_is_what_eager_computes(tmp_path: Path, why: str) -> None:
    shapes, causal, dtype = WHOLE[why]
    tensors = tuple(torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    unit = tmp_path / "unit"
    # The trial run compares results and gradients with eager's, attention's kernels by their definition.
    longhand.generate(Attention(causal), tensors, out=unit, device="cuda", arch="sm_90", train=True)
    assert "_scaled_dot_product_efficient_attention.default(" in (unit / "model.py").read_text()


class Biased(nn.Module):
    """Attention with a bias that is learned, or with a mask of a window."""

    def __init__(self, window: int = 0, learned: tuple[int, ...] = (), heads: int = 0) -> None:
        super().__init__()
        self.window, self.heads = window, heads
        if learned:
            self.bias = nn.Parameter(torch.randn(learned))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        query = key = value = x.view(batch, seq, -1, self.heads).transpose(1, 2)
        if self.window:
            row, col = torch.arange(seq)[:, None], torch.arange(seq)[None, :]
            mask = (col <= row) & (row - col < self.window)
        else:
            mask = self.bias
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return mixed.transpose(1, 2).reshape(batch, seq, dim) * 2


def trained(folder: Path, model: nn.Module, shape: tuple[int, ...]) -> tuple[str, str]:
    out = folder / "unit"
    x = torch.randn(shape, requires_grad=True)
    longhand.generate(model, (x,), out=out, device="cuda", arch="sm_90", train=True, run=False)
    return (out / "model.py").read_text(), (out / "backward.py").read_text()


def test_a_mask_is_the_efficient_kernels_bias_and_told_once(tmp_path: Path) -> None:
    forward, backward = trained(tmp_path, Biased(window=4, heads=8), (2, 13, 16))
    assert forward.count("_scaled_dot_product_efficient_attention.default(") == 1
    assert "bmm" not in forward + backward  # nothing is computed by parts once more
    assert backward.count("_scaled_dot_product_efficient_attention_backward.default(") == 1
    assert forward.count("whatever the input: a table") == 1 == backward.count("whatever the input: a table")


def test_what_the_efficient_kernel_would_not_do_is_left_to_eagers_choice(tmp_path: Path) -> None:
    narrow = Biased(window=4, heads=6), (2, 13, 12)
    assert "efficient_attention" not in "".join(trained(tmp_path, *narrow))


@pytest.mark.usefixtures("trial_runs")
@pytest.mark.parametrize("learned", [(13, 13), (2, 13, 13), (1, 1, 13, 13), (3, 1, 1, 13), (3, 2, 13, 13)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_learned_bias_is_the_efficient_kernels_and_has_its_gradient(
    tmp_path: Path, learned: tuple[int, ...], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    model, x = Biased(learned=learned, heads=8).to(dtype), torch.randn(3, 13, 16, dtype=dtype)
    out = tmp_path / "unit"
    # The trial run compares results and gradients with eager's, attention's kernels by their definition.
    longhand.generate(
        model, (x.requires_grad_(),), out=out, device="cuda", arch="sm_90", train=True, run=True
    )
    text = (out / "model.py").read_text() + (out / "backward.py").read_text()
    assert text.count("_scaled_dot_product_efficient_attention_backward.default(") == 1 and "bmm" not in text


class Windows(nn.Module):
    """Attention with a bias that is looked up for each head, as Swin's: the heads lie innermost in what is found."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(25, 2))
        self.register_buffer("places", torch.randint(25, (9, 9)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = x.view(3, 9, 2, 24).transpose(1, 2).split(8, -1)
        bias = self.table[self.places.view(-1)].view(9, 9, 2).permute(2, 0, 1).contiguous()[None]
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)


def test_a_bias_that_is_made_again_has_its_keys_side_by_side(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, out = torch.randn(3, 9, 48, requires_grad=True), tmp_path / "unit"
    longhand.generate(Windows(), (x,), out=out, device="cuda", arch="sm_90", train=True, run=True)
    text = (out / "backward.py").read_text()
    assert "_scaled_dot_product_efficient_attention_backward.default(" in text
    assert "memory_format=torch.channels_last" not in text


def test_a_mask_of_bools_that_the_caller_gives_becomes_a_bias(tmp_path: Path) -> None:
    class Masked(nn.Module):
        def forward(self, query: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(query, query, query, attn_mask=keep)

    query, keep = torch.randn(2, 4, 13, 8, requires_grad=True), torch.rand(2, 1, 1, 13) > 0.3
    out = tmp_path / "unit"
    longhand.generate(Masked(), (query, keep), out=out, device="cuda", arch="sm_90", train=True)
    assert "_scaled_dot_product_efficient_attention.default(" in (out / "model.py").read_text()


class TwoBlocks(nn.Module):
    """Attention with one mask, twice, of which the user names nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 48), nn.Linear(16, 48)

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        for block in (self.first, self.second):
            query, key, value = (piece.view(2, 16, 2, 8).transpose(1, 2) for piece in block(x).chunk(3, -1))
            x = x + F.scaled_dot_product_attention(
                query, key, value, attn_mask=keep[:, None, None, :]
            ).transpose(1, 2).reshape(2, 16, 16)
        return x


def test_results_of_attention_have_words_and_keep_them_in_the_backward(tmp_path: Path) -> None:
    given = torch.randn(2, 16, 16, requires_grad=True), torch.ones(2, 16, dtype=torch.bool)
    longhand.generate(
        TwoBlocks(), given, out=tmp_path / "unit", device="cuda", arch="sm_90", train=True, run=False
    )
    texts = ((tmp_path / "unit" / name).read_text() for name in ("model.py", "backward.py"))
    forward, backward = (text.split('"""', 2)[2] for text in texts)  # behind what the file says of itself
    assert forward.count("attended, ") >= 2
    for text in (forward, backward):
        assert not re.search(r"\b(part(_\d+)?|copied|scaled_dot_product_attention_\d+)\b", text)
        assert "log_sumexp" in text and "second_log_sumexp" in text


def test_channels_that_lie_apart_are_copied_side_by_side(tmp_path: Path) -> None:
    """Heads of an image, as convolutions make them: cuDNN raised at the stride of the last dimension."""

    def of_image(x: torch.Tensor) -> torch.Tensor:
        scaled = x * 2
        query, key, value = scaled.reshape(2, 1, 96, 64).transpose(2, 3).split(32, dim=-1)
        return F.scaled_dot_product_attention(query, key, value)

    x = torch.randn(2, 96, 8, 8, dtype=torch.bfloat16, requires_grad=True)
    out = tmp_path / "unit"
    longhand.generate(of_image, (x,), out=out, device="cuda", arch="sm_90", train=True, run=False)
    text = (out / "model.py").read_text()
    given = re.search(r" cudnn_attention\(\s*(\w+), (\w+), (\w+)\s*\)", text)
    assert given is not None
    assert all(re.search(rf"\b{name} = \S*(new_empty|empty)", text) for name in given.groups()), text
