"""What files say of themselves: titles, formulas and references as a person would write them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def apply_rotary(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return q * cos + rotate_half(q) * sin


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_rotation_reads_as_one(emit: Any, device: str) -> None:
    args = (torch.randn(2, 4, 40, 16), torch.randn(40, 16), torch.randn(40, 16))
    files = emit(apply_rotary, args, device=device)
    text = str(files["kernels/rotary.py"])
    assert "rotate_half(q)" in text.splitlines()[0]
    assert "torch.cat([-q[..., half:], q[..., :half]], dim=-1)" in text
    assert "arange" not in text.partition("def reference")[2] and "offset" not in text


def padded(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 3))


def joined(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.cat([a, torch.tanh(b)], dim=-1) * 2.0


@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        (padded, (torch.randn(30, 13),), "F.pad(x, (0, n_cols - n_filled))"),
        (joined, (torch.randn(30, 13), torch.randn(30, 20)), "torch.cat([a, "),
    ],
)
def test_what_is_put_together_has_its_pieces_in_the_reference(
    emit: Any, function: Any, args: Any, wanted: str
) -> None:
    files = emit(function, args)
    references = [str(text) for path, text in files.items() if path.startswith("kernels/")]
    assert any(wanted in text for text in references), references


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(48))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x + y
        return h, h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_norm_written_out_takes_its_eps_and_says_that_it_keeps_the_sum(emit: Any, device: str) -> None:
    files = emit(Norm().eval(), (torch.randn(6, 48), torch.randn(6, 48)), device=device)
    name = "add_and_rms_norm"
    source = str(files[f"kernels/{name}.{'cpp' if device == 'cpu' else 'py'}"])
    assert "1e-06" not in source and "eps" in source
    assert f"{name}: h = x + y; " in source
    assert re.search(r"kernels\.add_and_rms_norm\(.*eps=EPS\)", str(files["model.py"]))


def test_a_copy_is_not_cast_and_a_padded_weight_says_why(emit: Any) -> None:
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(32, 1537, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(x)

    x = torch.randn(1024, 32, dtype=torch.bfloat16)
    files = emit(Head().eval().bfloat16(), (x,), device="cuda")
    text = str(files["kernels/pad_head.py"])
    assert "float32" not in text and "cuBLAS" in text
    assert "return F.pad(weight, (0, 0, 0, n_rows - n_filled))" in text


def test_transposed_tensors_are_seen_as_they_lie_in_memory(emit: Any) -> None:
    files = emit(lambda x, y: x.t().contiguous() + y, (torch.randn(40, 72), torch.randn(72, 40)))
    (text,) = (str(t) for p, t in files.items() if re.match(r"kernels/[a-z]\w*\.py$", p))
    assert "return x.t() + y" in text


class Counted(nn.Module):
    """A norm that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4)
        self.conv = nn.Conv2d(4, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.conv(x)))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_counter_is_incremented(emit: Any, device: str) -> None:
    files = emit(Counted().train(), (torch.randn(2, 4, 8, 8),), device=device)
    assert "kernels.increment(self.norm.num_batches_tracked)" in str(files["model.py"])


def test_settings_of_library_calls_have_names_and_results_that_nothing_reads_none(emit: Any) -> None:
    files = emit(Counted().train(), (torch.randn(2, 4, 8, 8),), device="cpu")
    model = " ".join(str(files["model.py"]).split())
    assert "normed, _, _ = torch.native_batch_norm(" in model
    assert "training=True, momentum=0.1, eps=1e-5" in model


def test_statistics_that_nothing_reads_are_called_what_they_are(emit: Any) -> None:
    files = emit(Counted().train(), (torch.randn(2, 4, 8, 8),), device="cuda")
    model = str(files["model.py"])
    made = [line.split(" = ")[0].strip() for line in model.splitlines() if "empty" in line]
    assert {"norm_mean", "norm_rstd"} <= {*made}, model
    assert "native_batch_norm" not in model


def pieces(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return torch.cat([a, b, c], dim=-1)


def pieces_and_twice(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    whole = torch.cat([a, b], dim=-1)
    return whole, whole * 2


@pytest.mark.parametrize(("function", "n_args", "is_copy"), [(pieces, 3, True), (pieces_and_twice, 2, False)])
def test_what_is_only_moved_stays_in_its_dtype(emit: Any, function: Any, n_args: int, is_copy: bool) -> None:
    args = tuple(torch.randn(30, 12, dtype=torch.bfloat16) for _ in range(n_args))
    files = emit(function, args, device="cuda")
    text = "".join(str(text) for path, text in files.items() if path.startswith("kernels/"))
    assert ("tl.float32" not in text) == is_copy
    assert ("arithmetic in float32" not in text) == is_copy


def counters(step: torch.Tensor, lr: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    step = step + 1
    decay = 1 - lr * 0.01
    step_size = lr / (1 - 0.9**step)
    root = (1 - 0.999**step).sqrt()
    return decay, step_size / root


def test_a_title_of_many_results_is_still_a_formula(emit: Any) -> None:
    files = emit(counters, (torch.tensor(3.0), torch.tensor(1e-3)))
    titles = [str(text).splitlines()[0] for path, text in files.items() if path.endswith(".cpp")]
    assert any("decay = 1 - lr * 0.01" in title for title in titles), titles


class PreNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class OtherNormAtEnd(nn.Module):
    """Layers that end in no norm: the one behind them is of another kind."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(PreNorm() for _ in range(4))
        self.norm = nn.RMSNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def test_a_sum_that_a_layer_leaves_to_the_next_is_said(emit: Any) -> None:
    torch.manual_seed(0)
    text = str(emit(OtherNormAtEnd().eval(), (torch.randn(2, 7, 16),), device="cuda")["model.py"])
    assert (
        "The layer's input is x + down_out: the layer before leaves that sum to the first kernel here."
        in text
    )


BETA, SMALL = 0.875, 1e-3


def averaged(mean: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (mean * BETA + x * (1 - BETA)) * 0.25


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_numbers_have_the_users_names(emit: Any, device: str) -> None:
    files = emit(averaged, (torch.randn(30, 12), torch.randn(30, 12)), device=device)
    ending = ".cpp" if device == "cpu" else ".py"
    texts = [
        str(t)
        for p, t in files.items()
        if p.startswith("kernels/") and p.endswith(ending) and "BETA" in str(t)
    ]
    assert len(texts) == 1
    body = texts[0].partition("def averaged" if device == "cuda" else "#pragma")[2] or texts[0]
    assert "ONE_MINUS_BETA" in body and "0.25" in body
    assert re.search(r"\bBETA = (tl\.constexpr\()?0\.875", texts[0])
    assert re.search(r"ONE_MINUS_BETA = (tl\.constexpr\()?0\.125", texts[0])
    assert "SMALL" not in texts[0]


def test_all_numbers_of_a_launch_go_by_name() -> None:
    generated = Path(__file__).resolve().parents[2] / "generated"
    text = re.sub(r"\s+", " ", (generated / "gpt_train_cuda/backward.py").read_text())
    call = re.search(r"kernels\.\w+\( (d_q, d_k, d_v, .*?)\)", text)
    assert call is not None and "=" not in call[1].partition(" n_rows=")[0]
    assert call[1].endswith(
        "n_cols=qkv_dim, d_q_stride=dim, d_k_stride=dim, d_v_stride=dim, d_q_end=dim, d_k_end=2 * dim, "
    )
    model = (generated / "gpt_cpu/model.py").read_text()
    assert "kernels.gelu(widen_out, hidden, n_elements=hidden.numel())" in model
    assert "n_rows=batch * seq, n_cols=dim, eps=EPS" in re.sub(r"\s+", " ", model)


class ByHand(nn.Module):
    """Attention as einsum writes it: several copies and sums, all of one type."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(24, 72)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).view(2, 10, 3, 4, 6).permute(2, 0, 3, 1, 4)
        weights = torch.einsum("blxd,blyd->blxy", q, k).softmax(dim=-1)
        return torch.einsum("bhxy,bhyd->bhxd", weights, v).transpose(1, 2).reshape(2, 10, 24)


def test_no_kernel_is_told_apart_by_a_type_that_all_have(emit: Any) -> None:
    files = emit(ByHand().eval(), (torch.randn(2, 10, 24),), device="cuda")
    kernels = [name for name in files if name.startswith("kernels/")]
    assert sum("permute" in name for name in kernels) > 1, kernels
    assert not [name for name in kernels if "fp32" in name], kernels


def padded_convolution(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.conv2d(F.pad(x, (2, 3, 2, 3)), weight, stride=2)


def test_a_pad_along_two_axes_is_called_one(emit: Any) -> None:
    files = emit(padded_convolution, (torch.randn(2, 3, 64, 64), torch.randn(64, 3, 7, 7)), device="cuda")
    (line,) = (line for line in str(files["README.md"]).splitlines() if line.startswith("| [`pad"))
    assert "= pad(x)." in line, line
