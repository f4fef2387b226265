"""The words that a unit uses: of dimensions, kernels, tensors and values, after what the user calls them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.schedule.names.unit_names import KernelNames, Ledger
from longhand.schedule.names.words import Scope, further_names, snake_case


def _files(folder: Path, model: Any, *args: Any) -> dict[str, str]:
    """A unit's texts by path."""
    unit = folder / "unit"
    longhand.generate(model, args, out=unit, device="cpu", run=False)
    return {str(p.relative_to(unit)): p.read_text() for p in unit.rglob("*") if p.suffix in (".py", ".cpp")}


class Heads(nn.Module):
    """A batch of as many as a head has channels, and as many tokens as features: equal numbers, other meanings."""

    def __init__(self) -> None:
        super().__init__()
        self.n_heads = 4
        self.qkv = nn.Linear(64, 3 * 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        q, k, v = self.qkv(x).split(dim, dim=-1)
        q = q.view(batch, seq, self.n_heads, -1).transpose(1, 2)
        k = k.view(batch, seq, self.n_heads, -1).transpose(1, 2)
        v = v.view(batch, seq, self.n_heads, -1).transpose(1, 2)
        q = torch.sin(q) * q
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, seq, dim)


def test_size_words_come_from_where_a_dimension_does_and_not_from_equal_numbers(tmp_path: Path) -> None:
    text = _files(tmp_path, Heads().eval(), torch.randn(16, 64, 64))["model.py"]
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    assert re.search(r"\(batch, (seq, N_HEADS|N_HEADS, seq), HEAD_DIM\)", code), code
    assert ".reshape(batch, seq, dim)" in code
    values = dict(re.findall(r"^([A-Z_]+) = (\d+)$", code, re.M))
    assert values == {"N_HEADS": "4", "HEAD_DIM": "16", "QKV_DIM": "192"}, values
    assert "(batch, seq, batch" not in code and "seq, seq" not in code


def column_sum(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).sum(0)


def test_a_kernel_is_called_what_people_call_it(tmp_path: Path) -> None:
    assert "kernels/column_sum.py" in _files(tmp_path, column_sum, torch.randn(64, 48))


def test_two_weights_of_a_kind_both_say_whose_they_are(tmp_path: Path) -> None:
    class Embed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(50, 24), nn.Embedding(12, 24)
            self.norm = nn.LayerNorm(24)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.norm(self.tokens(ids) + self.places(torch.arange(12)))

    files = _files(tmp_path, Embed().eval(), torch.randint(50, (3, 12)))
    (source,) = (text for path, text in files.items() if re.fullmatch(r"kernels/\w+\.cpp", path))
    assert re.search(r"float \*tokens\b", source) and re.search(r"float \*places\b", source)
    assert re.search(r"float \*weight\b", source) and re.search(r"float \*bias\b", source)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("ResNetBlock", "resnet_block"),
        ("UNet", "unet"),
        ("SENet", "senet"),
        ("Conv2dReLU", "conv2d_relu"),
        ("SwiGLUFFN", "swiglu_ffn"),
        ("XLNetRelativeAttention", "xlnet_relative_attention"),
        ("NetVLAD", "net_vlad"),
        ("LlamaRMSNorm", "llama_rms_norm"),
        ("GPT_backward", "gpt_backward"),
        ("Network", "network"),
        ("ResnetBlock2D", "resnet_block_2d"),
        ("UNet2DModel", "unet_2d_model"),
        ("Conv2DTranspose", "conv_2d_transpose"),
        ("AttnDownBlock3D_backward", "attn_down_block_3d_backward"),
    ],
)
def test_names_of_classes_in_snake_case(written: str, wanted: str) -> None:
    assert snake_case(written) == wanted


class Positions(nn.Module):
    """Tokens at positions, of which the table has more than the call."""

    def __init__(self) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(50, 16)
        self.position_embedding = nn.Embedding(32, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return (self.token_embedding(tokens) + self.position_embedding(positions)).square().mean()


def test_the_rows_of_a_table_that_is_read_in_part_are_no_padding(tmp_path: Path) -> None:
    tokens = torch.randint(0, 50, (4, 8))
    longhand.generate(Positions(), (tokens,), out=tmp_path / "unit", device="cpu", train=True)
    text = (tmp_path / "unit" / "backward.py").read_text()
    assert "MAX_POSITIONS = 32\nVOCAB_SIZE = 50\n" in text
    assert "padded" not in text


def test_the_users_names_for_numbers_are_kept_in_the_ledger() -> None:
    names = KernelNames("k", "t.", (), {}, {}, {}, {}, {}, constants={3: "BETA"})
    assert Ledger.from_json(Ledger({"key": names}).to_json()).kernels["key"] == names


def test_a_norm_of_images_goes_by_batches_channels_and_pixels(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())  # too few channels to lie last
    x = torch.randn(2, 3, 9, 7)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cuda", arch="sm_90", train=True, run=False)
    text = (tmp_path / "unit" / "kernels" / "d_batch_norm_relu.py").read_text()
    assert "d_activated_ptr,  # float32 (n_batches, n_channels, n_pixels)" in text
    assert "channel by channel" in text and "lane_index" not in text


def test_layers_of_a_sequential_are_counted_and_a_dropout_is_one_word(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.1), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 8))
    longhand.generate(model, (torch.randn(4, 16),), out=tmp_path / "unit", device="cpu", train=True)
    backward = (tmp_path / "unit" / "backward.py").read_text()
    assert "layer_2_weight" in backward and "_layer_0_weight" in backward
    assert not re.search(r"\b(d_)?_\d_", backward)
    kernels = sorted(path.stem for path in (tmp_path / "unit" / "kernels").glob("*.cpp"))
    assert "dropout" in kernels and not any("where" in kernel or "ne_" in kernel for kernel in kernels)


def test_the_one_element_of_a_tensor_is_at_no_position() -> None:
    generated = Path(__file__).resolve().parents[2] / "generated"
    kernel = (generated / "adamw_cpu/kernels/decay_step_size_and_root_correction.cpp").read_text()
    assert "const float lr_0 = lr[0];" in kernel and "lr_i" not in kernel


def test_a_new_value_for_what_is_updated_is_called_so() -> None:
    generated = Path(__file__).resolve().parents[2] / "generated"
    kernel = (generated / "adamw_cpu/kernels/adamw.cpp").read_text()
    assert "const float new_exp_avg = exp_avg_i + " in kernel and "exp_avg[i] = new_exp_avg;" in kernel
    reference = (generated / "adamw_cuda/kernels/adamw.py").read_text().partition("def reference")[2]
    assert "return new_exp_avg, new_exp_avg_sq, new_param" in reference


def test_many_things_of_a_name_are_counted() -> None:
    """Of twelve gradients that are added up the last ones were ``yet_spare_d_x``."""
    words = list(itertools.islice(further_names("x"), 120))
    assert words[:3] == ["second_x", "third_x", "fourth_x"]
    assert words[9:13] == ["eleventh_x", "twelfth_x", "thirteenth_x", "fourteenth_x"]
    assert words[17:22] == [
        "nineteenth_x",
        "twentieth_x",
        "twenty_first_x",
        "twenty_second_x",
        "twenty_third_x",
    ]
    assert len({*words}) == len(words)


def test_a_place_in_a_list_is_no_name() -> None:
    """What the layer "1" of an nn.Sequential makes is no `_1`."""
    assert Scope(()).pick(["1", "_1", "activated"]) == "activated"
    assert Scope(()).pick(["1"]) == "value"
