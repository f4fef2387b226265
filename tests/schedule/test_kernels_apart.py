"""Of kernels of the same math the one that does least has the plain name; the others say what they do besides."""

from __future__ import annotations

import re

import pytest
import torch
from torch import fx, nn

from benchmarks.readability.units import text_of
from longhand.capture.graph import Provenance
from longhand.schedule.names.shared.telling_apart import _work
from longhand.schedule.names.words import undifferentiated


class RootMeanSquareRMSNorm(nn.Module):
    """A norm in two functions, as Gemma's."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))

    def _norm(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._norm(x) * (1.0 + self.weight)


class Sandwich(nn.Module):
    """Norms before and behind what is added to the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = RootMeanSquareRMSNorm(32), RootMeanSquareRMSNorm(32)
        self.last, self.linear = RootMeanSquareRMSNorm(32), nn.Linear(32, 32, bias=False)
        self.other = nn.Linear(32, 32, bias=False)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        normed = self.before(hidden_states)
        hidden_states = hidden_states + self.behind(self.linear(normed) * self.other(normed).sin())
        return self.last(hidden_states).exp()


def repeat_kv(hidden_states: torch.Tensor, n_rep: int) -> torch.Tensor:
    batch, heads, seq, dim = hidden_states.shape
    hidden_states = hidden_states[:, :, None, :, :].expand(batch, heads, n_rep, seq, dim)
    return hidden_states.reshape(batch, heads * n_rep, seq, dim)


class Grouped(nn.Module):
    """Products whose keys and values are shared by several heads."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(32, 32), nn.Linear(32, 16), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (part(x).view(2, 8, -1, 8).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = query @ repeat_kv(key, 2).transpose(2, 3)
        return torch.sigmoid(scores) @ repeat_kv(value, 2)


class Rows(nn.Module):
    """Rows that are read in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.out = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, perm: torch.Tensor) -> torch.Tensor:
        states_g = self.linear(x)
        selected_states_g = states_g[perm]
        return self.out(selected_states_g)


class Gated(nn.Module):
    """The gate and what it is for: of two layers, and of one."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.both = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(16, 64)
        self.down, self.out = nn.Linear(32, 16), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))
        gate, up = self.both(first).chunk(2, dim=-1)
        return self.out(nn.functional.silu(gate) * up)


class Images(nn.Module):
    """Batch norms whose results are activated, one with a shortcut and one of joined channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(n, 8, 3, padding=1, bias=False) for n in (8, 8, 16))
        self.bn1, self.bn2, self.bn3 = (nn.BatchNorm2d(n) for n in (8, 8, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.relu(self.bn1(self.first(x)))
        out = torch.relu(self.bn2(self.second(out)) + x)
        return self.third(torch.relu(self.bn3(torch.cat([out, x], 1)))).mean((2, 3))


class Gelu(nn.Module):
    """A gelu that is computed again in the backward pass; a norm with a factor for each channel, and one without."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(16, 64), nn.Linear(64, 16), nn.LayerNorm(16)
        self.other, self.gamma = nn.LayerNorm(16), nn.Parameter(torch.ones(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.down(nn.functional.gelu(self.up(self.norm(x))))
        return self.down(nn.functional.gelu(self.up(self.other(x * self.gamma) * self.gamma)))


def kernels(module: nn.Module, *args: torch.Tensor, train: bool) -> list[str]:
    files = text_of((module, args, {}), "cuda", train=train)
    names = (
        path.removeprefix("kernels/").removesuffix(".py") for path in files if path.startswith("kernels/")
    )
    return sorted(name for name in names if name != "__init__")


@pytest.fixture(scope="module")
def sandwich() -> list[str]:
    return kernels(Sandwich(), torch.randn(2, 8, 32), train=True)


def test_a_norm_is_called_as_what_it_is_in_both_passes(sandwich: list[str]) -> None:
    """They were d_norm, d_norm_and_sum, d_root_mean_square_rms_norm_short ..."""
    assert "d_rms_norm_weight" in sandwich
    assert not any("root_mean" in name or "d_norm" in name for name in sandwich), sandwich


def test_what_a_kernel_does_besides_is_said(sandwich: list[str]) -> None:
    says_nothing = ("_short", "_and_sum", "_and_parts", "_nested", "_batched", "_strided", "_flat", "_pair")
    assert not [name for name in sandwich if name.endswith(says_nothing)], sandwich
    assert any(name.startswith("rms_norm") for name in sandwich)


@pytest.mark.parametrize(
    ("module", "shape", "wanted"),
    [(Images, (2, 8, 8, 8), "d_batch_norm_relu"), (Gelu, (2, 4, 16), "d_gelu")],
)
def test_a_derivative_has_the_order_of_the_forward_pass_and_lists_no_results(
    module: type[nn.Module], shape: tuple[int, ...], wanted: str
) -> None:
    """They were d_relu_d_batch_norm_weight_and_bias, gelu_and_d_gelu, d_layer_norm_with_gamma."""
    names = kernels(module(), torch.randn(shape), train=True)
    assert wanted in names, names
    listing = re.compile(r"_with_|_several|_pair$|_and_d_|^d_.*_(d_|and_)")
    assert not [name for name in names if listing.search(name)], names
    assert max(map(len, names)) <= 30, names


def test_a_derivative_that_is_one_operation_is_told_without_its_sign() -> None:
    """It was d_batch_norm_d_avg_pool2d."""
    graph = fx.Graph()
    node = graph.call_function(torch.ops.aten.avg_pool2d_backward.default, ())
    node.meta["provenance"] = Provenance()
    assert undifferentiated(_work(node)) == "avg_pool2d"


def test_a_sum_is_the_derivative_of_the_function_that_repeats() -> None:
    """They were column_sum and column_sum_rows."""
    names = kernels(Grouped(), torch.randn(2, 8, 32), train=True)
    assert "d_repeat_kv" in names, names
    assert not [name for name in names if name.startswith("column_sum_") and name.endswith("rows")]


def test_rows_that_are_added_up_are_called_after_what_they_are_of() -> None:
    """It was index_put."""
    names = kernels(Rows(), torch.randn(6, 16), torch.randperm(6), train=True)
    assert "make_d_states_g" in names and "index_put" not in names, names


def test_halves_of_one_tensor_are_packed() -> None:
    """It was swiglu_short, of the one that is given one tensor and not two."""
    names = kernels(Gated().eval(), torch.randn(4, 16), train=False)
    assert {"swiglu", "swiglu_packed"} <= {*names}, names


class Placed(nn.Module):
    """A norm of rows that positions pick from a table, and the same of rows that are given."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weights", torch.randn(11, 32))
        self.first, self.last, self.linear = nn.LayerNorm(32), nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        mask = ids.ne(1).int()
        places = (torch.cumsum(mask, dim=1).type_as(mask) * mask).long() + 1
        positions = self.weights.index_select(0, places.view(-1)).view(*ids.shape, 32).detach()
        hidden_states = self.linear(self.last(x)) * 3.0 + positions
        return hidden_states + self.linear(self.first(hidden_states))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_whole_numbers_pick_is_gathered(device: str) -> None:
    given = torch.randint(0, 11, (2, 5)), torch.randn(2, 5, 32)
    names = {
        path for path in text_of((Placed(), given, {}), device, train=False) if path.startswith("kernels/")
    }
    assert "kernels/layer_norm_gathered.py" in names, names


class Halved(nn.Module):
    """Stages without a word of their own, which stand in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Sequential(*(Block(dim) for _ in range(6))) for dim in (16, 24))
        self.widen = nn.Linear(16, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.stages[1](self.widen(self.stages[0](x)))


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(dim), nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.linear(self.norm(x)).tanh()


def test_a_list_in_a_list_is_called_after_its_place() -> None:
    texts = text_of((Halved(), (torch.randn(2, 5, 16),), {}), "cuda", train=True)
    backward = texts["backward.py"]
    assert "saved.stage_0" in backward and "saved.stage_1" in backward
    assert not re.search(r"\b(saved_|d_)?_\d", backward)


class Sums(nn.Module):
    """Sums of few rows and of many, each by a linear layer that two calls share in one place and not in the other."""

    def __init__(self) -> None:
        super().__init__()
        self.few, self.many = nn.Linear(8, 24), nn.Linear(8, 24)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.few(x).sum(0), self.many(y).sum(0)


def test_a_sum_of_few_rows_says_so_whichever_is_called_first() -> None:
    """It was column_sum, beside column_sum_strided."""
    few, many = torch.randn(3, 8), torch.randn(500, 8)
    for given in ((few, many), (many, few)):
        assert kernels(Sums(), *given, train=False) == ["column_sum", "column_sum_few_rows"]


class Gates(nn.Module):
    """A norm of what is added with a gate, which is kept for later; the same that is not kept, and a plain one."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(3))
        self.linear, self.gate = nn.Linear(32, 32, bias=False), nn.Parameter(torch.randn(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.linear(self.norms[0](x)) * self.gate
        x = x + self.linear(self.norms[1](x)) * self.gate
        return self.linear(self.norms[2](x))


def test_a_norm_of_a_sum_and_one_that_keeps_it_are_told_apart() -> None:
    """The second one was called after its place, and the third one layer_norm_keep_more."""
    assert kernels(Gates(), torch.randn(4, 32), train=False) == [
        "layer_norm",
        "layer_norm_keep_sum",
        "layer_norm_of_sum",
    ]


class Biased(nn.Module):
    """What is added to a stream before a norm: all of a tensor, and the bias of a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.other = nn.LayerNorm(16), nn.LayerNorm(16)
        self.conv, self.linear = nn.Conv2d(16, 16, 7, padding=3, groups=16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        x = x + self.linear(self.norm(x))
        return x + self.linear(self.other(x))


def test_a_bias_that_is_added_before_a_norm_is_told_from_a_tensor() -> None:
    """That of the tensor was called after the class that it is in."""
    x = torch.randn(2, 8, 8, 16)
    names = kernels(Biased(), x, train=False)
    assert {"add_and_layer_norm", "add_and_layer_norm_of_bias"} <= {*names}, names
