"""Words from people: a part of a tensor goes by its variable, a kernel by what it is, and none says what is not so."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.readability.units import text_of
from longhand.capture.graph import Provenance
from longhand.lower.ir import Buffer, BufferKind, Derivation, Derived
from longhand.schedule.names.dimensions.dimension_names import DimNamer
from longhand.schedule.names.dimensions.dimension_propagation import _made
from longhand.schedule.names.dimensions.stated_sizes import words_of_reshape
from longhand.schedule.names.dimensions.walked_dimensions import one_of_counted
from longhand.schedule.names.value_rules import _word_of_bound


def unit(module: nn.Module, *args: torch.Tensor, device: str = "cuda", train: bool = False) -> dict[str, Any]:
    return text_of((module if train else module.eval(), args, {}), device, train=train)


def kernel(files: dict[str, Any], name: str) -> str:
    made = [path for path in files if path.startswith("kernels/") and not path.endswith("__init__.py")]
    assert f"kernels/{name}.py" in files, made
    return str(files[f"kernels/{name}.py"])


class Modulated(nn.Module):
    """A norm that is scaled and shifted by parts of one tensor, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 48)

    def forward(self, hidden: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
        shift, scale, gate = self.linear(emb).chunk(3, dim=1)
        hidden = hidden + gate[:, None] * hidden
        return F.layer_norm(hidden, (16,)) * (1 + scale[:, None]) + shift[:, None]


def test_a_part_of_a_tensor_has_the_users_word_and_so_has_where_it_begins() -> None:
    files = unit(Modulated(), torch.randn(2, 5, 16), torch.randn(2, 8))
    (text,) = (str(text) for path, text in files.items() if path.startswith("kernels/layer_norm"))
    for part in ("shift", "scale", "gate"):
        assert re.search(rf"\b{part} = tl\.load\(", text), text
    assert "scale_offset" in text and "gate_offset" in text and "shift_offset" not in text, text
    assert not re.search(r"\b(other|further|first|second)_linear", text), text


class Merged(nn.Module):
    """The four pixels of each square, side by side."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = image.sin()
        even = image[:, 0::2, 0::2, :]
        below = image[:, 1::2, 0::2, :]
        beside = image[:, 0::2, 1::2, :]
        odd = image[:, 1::2, 1::2, :]
        return torch.cat([even, below, beside, odd], -1).reshape(2, 16, 32)


def test_pieces_that_are_joined_have_the_users_words() -> None:
    files = unit(Merged(), torch.randn(2, 8, 8, 8))
    (text,) = (str(text) for path, text in files.items() if re.fullmatch(r"kernels/.*cat.*\.py", path))
    assert "cat(even, below, beside, odd)" in text, text
    assert "is_less" not in text and "chosen" not in text and "in_first_three" in text, text


class Pairs(nn.Module):
    """Rotary positions whose pairs lie side by side."""

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x_real, x_imag = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
        x_rotated = torch.stack([-x_imag, x_real], dim=-1).flatten(2)
        return x * cos + x_rotated * sin


def test_the_title_says_which_of_a_pair_is_read() -> None:
    files = unit(Pairs(), torch.randn(2, 6, 8), torch.randn(6, 8), torch.randn(6, 8))
    (text,) = (str(text) for path, text in files.items() if re.fullmatch(r"kernels/.*rotary.*\.py", path))
    title = text.partition("\n\n")[0]
    assert "-x_imag" in title and "x_real" in title, title
    assert "where(~" not in title, title


class Window(nn.Module):
    """Causal attention over a window, with a sink beside the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.sinks = nn.Parameter(torch.randn(4))
        self.projection = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.projection(x).view(2, 9, 4, 8).transpose(1, 2)
        place = torch.arange(9)
        mask = (place[None] <= place[:, None]) & (place[:, None] <= place[None] + 3)
        hidden = torch.where(mask, 0.0, -1e9)
        weights = (heads @ heads.transpose(2, 3)) * 0.25 + hidden
        sinks = self.sinks.view(1, 4, 1, 1).expand(2, 4, 9, 1)
        probabilities = torch.cat([weights, sinks], -1).softmax(-1)[..., :-1]
        return (probabilities @ heads).transpose(1, 2).reshape(2, 9, -1)


def test_a_bound_of_the_past_is_a_window_and_no_future() -> None:
    files = unit(Window(), torch.randn(2, 9, 32))
    text = kernel(files, "window_softmax")
    assert "in_window = " in text and "is_future" not in text, text
    assert "attended = torch.matmul(" in str(files["model.py"]), files["model.py"]


def test_positions_are_no_heads_before_the_size_of_all_heads() -> None:
    for shape in ("(batch, -1, self.all_head_size)", "(batch, -1, self.num_heads * self.head_dim)"):
        words = words_of_reshape(Provenance(f"y = x.view{shape}"), (2, 5, 24))
        assert "n_heads" not in words and "head_dim" not in words, words
    starred = words_of_reshape(Provenance("y = x.view(*x.shape[:-1], self.head_dim)"), (2, 5, 24))
    assert "n_heads" not in starred, starred
    assert words_of_reshape(Provenance("y = x.view(2, 5, -1, self.head_dim)"), (2, 5, 3, 8))[2] == "n_heads"


class LastToFirst(nn.Module):
    """An image that convolutions read with its channels last, and whose result is given back as it came."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 72, 3, padding=1)
        self.conv = nn.Conv2d(72, 72, 3, padding=1)
        self.head = nn.Conv2d(72, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.conv(F.relu(self.stem(x)))))


def test_a_kernel_that_goes_to_a_layout_and_from_it_is_called_after_neither() -> None:
    files = unit(LastToFirst(), torch.randn(2, 3, 8, 8))
    assert "out[batch, row, col] = x[batch, col, row]." in kernel(files, "transpose")
    assert "to_channels_last" not in str(files["model.py"])


class Units(nn.Module):
    """Attention of unit vectors."""

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_vectors_over_their_own_lengths_are_normalized(device: str) -> None:
    files = unit(Units(), torch.randn(2, 6, 8), torch.randn(2, 6, 8), device=device)
    assert "def reference" in kernel(files, "l2_normalize")
    assert not re.search(r"\bratio\b", str(files["model.py"])), files["model.py"]


class OtherLength(nn.Module):
    """A quotient by the length of something else."""

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return query / key.norm(dim=-1, keepdim=True).clamp_min(1e-6)


def test_what_is_over_the_length_of_something_else_is_not() -> None:
    files = unit(OtherLength(), torch.randn(2, 6, 8), torch.randn(2, 6, 8))
    assert not any("l2_normalize" in path for path in files)


class Weighted(nn.Module):
    """A convolution whose weight has its length as a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 6, 3), dim=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def test_weight_norm_has_its_name() -> None:
    files = unit(Weighted(), torch.randn(2, 4, 9))
    made = [path for path in files if "weight_norm" in path]
    assert made, sorted(files)
    assert not re.search(r"\b(ratio|product)\b", str(files["model.py"])), files["model.py"]


def test_many_convolutions_in_a_row_have_no_longer_and_longer_words() -> None:
    word: str | None = "input_length"
    for _ in range(5):
        word = _made(f"padded_{word}")
    assert word == "n_frames"
    assert _made("padded_out_height") == "out_height" == _made("height")


@pytest.mark.parametrize(
    ("looks_back", "distance", "word"),
    [
        (True, 0, "is_causal"),
        (True, -1, "is_past"),
        (True, 3, "in_window"),
        (True, -4, "is_before_window"),
        (False, -1, "is_future"),
        (False, 0, "is_not_past"),
        (False, 7, "in_window"),
    ],
)
def test_what_a_bound_of_places_says(looks_back: bool, distance: int, word: str) -> None:
    assert list(_word_of_bound(looks_back, distance)) == [word]


def test_what_is_counted_has_an_index() -> None:
    words = ("n_heads", "num_attention_heads", "num_key_value_heads", "heads", "n_patches", "n_kv_heads")
    found = ["head", "head", "key_value_head", "head", "patch", "kv_head"]
    assert list(map(one_of_counted, words)) == found
    assert [one_of_counted(word) for word in ("head_dim", "n_is", "batch")] == [None] * 3


def test_a_copy_of_a_transposed_view_has_not_the_words_of_what_it_is_of() -> None:
    def buffer(name: str, shape: tuple[int, ...], derived: Derived | None = None) -> Buffer:
        strides = tuple(torch.empty(shape).stride())
        return Buffer(name, BufferKind.INTERMEDIATE, torch.float32, shape, strides, derived=derived)

    copies = Derived(Derivation.CONTIGUOUS, "q")
    buffers = {
        "q": buffer("q", (2, 4, 19, 8)),
        "moved": buffer("moved", (2, 19, 4, 8), copies),
        "same": buffer("same", (2, 4, 19, 8), copies),
    }
    words = DimNamer.__new__(DimNamer)
    words._words = {"q": ("batch", "n_heads", "seq", "head_dim")}
    words._buffers, words._shapes, words._twins = buffers, {"q": (2, 4, 19, 8)}, {}
    assert words.of("same", 4) == ("batch", "n_heads", "seq", "head_dim")
    assert words.of("moved", 4) == (None,) * 4


class Joined(nn.Module):
    """A normalized value beside itself as it was."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return torch.cat([y.mean(-1, keepdim=True) * y * self.weight, y], dim=-1)


def test_what_is_joined_behind_something_as_long_is_no_half() -> None:
    files = unit(Joined(), torch.randn(3, 5, 8))
    titles = [str(text).partition("\n\n")[0] for path, text in files.items() if path.startswith("kernels/")]
    assert not any("[:half]" in title for title in titles), titles


class Attention(nn.Module):
    """Written out, with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(32, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        n_heads, head_dim = 4, 8
        q = self.query(self.norm(x)).view(batch, seq, n_heads, head_dim).transpose(1, 2)
        mask = torch.ones(seq, seq).tril().bool()
        scores = (q @ q.transpose(2, 3)) / 3.0 + torch.where(mask, 0.0, -1e9)
        weights = scores.softmax(-1)
        merged = (weights @ q).transpose(1, 2).contiguous()
        return merged.view(batch, seq, n_heads * head_dim), weights.detach()


class Rounded(nn.Module):
    """A norm whose normalized value is rounded before it is weighted, after a sum that is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32).bfloat16())

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x + y
        wide = h.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return h, normed.to(x.dtype) * self.weight


def test_a_norm_that_is_rounded_before_its_weight_is_one() -> None:
    files = unit(Rounded(), *(torch.randn(4, 32).bfloat16() for _ in range(2)))
    assert "def reference" in kernel(files, "add_and_rms_norm")


class Turned(nn.Module):
    """An image whose lines and columns change places."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, h, w, c = x.shape
        return x.view(batch, h, w, c).transpose(1, 2).reshape(batch, w * h, c)


def test_the_lines_of_an_image_are_no_heads() -> None:
    files = unit(Turned(), torch.randn(2, 5, 6, 8))
    assert not any("heads" in path for path in files), sorted(files)


def test_attention_that_is_written_out_has_the_fields_words() -> None:
    files = unit(Attention(), torch.randn(2, 9, 32))
    assert "causal" in kernel(files, "causal_softmax") and kernel(files, "merge_heads")


def test_differences_in_backward_passes_are_no_differences() -> None:
    files = unit(Attention(), torch.randn(2, 9, 32, requires_grad=True), train=True)
    text = "\n".join(str(text) for path, text in files.items() if path.startswith("kernels/"))
    assert "d_scores = " in text and "less_means = " in text, text
    assert not re.search(r"\bdifference = ", text)
