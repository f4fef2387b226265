"""A kernel is called after what it is: a function of the user's, or a formula whose operations are all there."""

import types
from pathlib import Path
from typing import cast

import pytest
import torch
from torch import nn

import longhand
from benchmarks.readability.units import text_of
from longhand.capture.graph import Role
from longhand.lower.ir import Pointwise, PointwiseOp
from longhand.schedule.names.meanings.kernel_formulas import name_of_more_than_copy
from longhand.schedule.names.words import snake_case
from longhand.schedule.plan import KernelPlan


class Messages(nn.Module):
    """Each edge's message is a function of its own, between rows that are read and sums that are scattered."""

    def __init__(self) -> None:
        super().__init__()
        self.film, self.lin = nn.Linear(8, 16), nn.Linear(8, 8)

    def message(self, x_j: torch.Tensor, beta_i: torch.Tensor, gamma_i: torch.Tensor) -> torch.Tensor:
        out = gamma_i * x_j + beta_i
        return torch.relu(out)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        beta, gamma = self.film(x).split(8, dim=-1)
        source, target = edge_index[0], edge_index[1]
        rows = self.lin(x).index_select(0, source)
        messages = self.message(rows, beta.index_select(0, target), gamma.index_select(0, target))
        return torch.zeros_like(x).index_add(0, target, messages)


def _generate(model: nn.Module, given: tuple[torch.Tensor, ...], out: Path, device: str = "cuda") -> set[str]:
    longhand.generate(model.eval(), given, out=out, device=device, arch="sm_90", run=False)
    return {path.stem for path in (out / "kernels").glob("*") if path.stem != "__init__"}


def test_messages_are_called_after_their_function(tmp_path: Path) -> None:
    """It was relu, beside three rows that are read, a product, a sum and a scattering."""
    given = torch.randn(6, 8), torch.randint(0, 6, (2, 9))
    kernels = _generate(Messages(), given, tmp_path / "unit")
    assert "message" in kernels and "relu" not in kernels


def test_edges_are_no_sequences(tmp_path: Path) -> None:
    """The ends of nine edges were two sequences of nine tokens."""
    given = torch.randn(6, 8), torch.randint(0, 6, (2, 9))
    _generate(Messages(), given, tmp_path / "unit")
    text = (tmp_path / "unit" / "model.py").read_text()
    assert "edge_index  int64 (2, n_edges=9)" in text and "seq" not in text


class Gated(nn.Module):
    """An activation times something: one number a row, or one for each of its own."""

    def __init__(self, n_gates: int) -> None:
        super().__init__()
        self.up, self.gate = nn.Linear(8, 8), nn.Linear(8, n_gates)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(self.up(x)) * self.gate(x)


@pytest.mark.parametrize(("n_gates", "is_gated"), [(1, False), (8, True)])
def test_only_a_product_with_as_many_is_gated(tmp_path: Path, n_gates: int, is_gated: bool) -> None:
    kernels = _generate(Gated(n_gates), (torch.randn(4, 8),), tmp_path / "unit")
    assert ("geglu" in kernels) == is_gated


def test_of_varying_sizes_a_product_is_gated(tmp_path: Path) -> None:
    """Symbolic sizes have no hash."""
    longhand.generate(
        Gated(8).eval(),
        (torch.randn(4, 8),),
        out=tmp_path / "unit",
        device="cpu",
        run=False,
        dynamic_shapes={"x": {0: torch.export.Dim("batch", min=2, max=64)}},
    )
    assert (tmp_path / "unit" / "kernels" / "geglu.cpp").exists()


def _with_places(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    distance = torch.arange(5)[:, None] * 1.0 - (torch.arange(5)[None, :] + (1.0 - 5)) * 1.0
    Rh = rows[distance.long()]
    Rw = columns[distance.long()]
    return x @ Rh.transpose(1, 2) + (x + 1) @ Rw.transpose(1, 2)


class Places(nn.Module):
    """Rows of two tables, in one kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.rel_pos_h = nn.Parameter(torch.randn(9, 16))
        self.rel_pos_w = nn.Parameter(torch.randn(9, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _with_places(x, self.rel_pos_h, self.rel_pos_w)


def test_rows_of_tables_have_the_tables_words(tmp_path: Path) -> None:
    """It was add_scale_sub_gather."""
    kernels = _generate(Places(), (torch.randn(5, 3, 16),), tmp_path / "unit")
    assert "gather_rel_pos" in kernels and not any("sub" in one for one in kernels)


def test_film_is_a_word() -> None:
    assert snake_case("FiLMConv") == "film_conv"


class Moved(nn.Module):
    """Heads go back behind the tokens, and nobody says that they are heads."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(24, 24)

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mixed = torch.bmm(x, x.transpose(1, 2)).view(2, 4, 6, 6).transpose(1, 2).reshape(2, 6, 24)
        return self.proj(mixed), torch.relu(y.t().contiguous() + z)


def test_what_changes_order_is_no_copy(tmp_path: Path) -> None:
    """It was `copy`, as if nothing changed; what the user transposes and adds to something is `transpose_add_relu`."""
    given = torch.randn(8, 6, 5), torch.randn(640, 480), torch.randn(480, 640)
    assert {"permute", "transpose_add_relu"} == _generate(Moved(), given, tmp_path / "unit")


class Either(nn.Module):
    """Two kernels of one formula: one takes either of two tensors that are stacked."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = torch.relu(x)
        b = torch.relu(torch.stack([y, z], 1)).sum(1)
        return a, b


def test_what_takes_either_of_two_tensors_pads_nothing(tmp_path: Path) -> None:
    """It was `relu_padded`."""
    given = torch.randn(3, 100), torch.randn(5, 70), torch.randn(5, 70)
    assert {"relu", "relu_joined"} == _generate(Either(), given, tmp_path / "unit")


def test_what_normalizes_is_no_copy() -> None:
    """Of rows in a new order, and of what a norm's derivative reads of them, it was `copy_keep_normalized`."""
    value = Pointwise(PointwiseOp.MUL, (0, 1), torch.float32, name=Role.NORMALIZED)
    plan = cast(KernelPlan, types.SimpleNamespace(body=(value,), pointers=()))
    assert name_of_more_than_copy("copy", plan) == "normalize"
    assert [name_of_more_than_copy(name, plan) for name in ("copying", "recopy", "add")] == [
        "copying",
        "recopy",
        "add",
    ]


class Picked(nn.Module):
    """A softmax whose derivative is read in another layout than it is made in: two kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Conv2d(48, 27, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(self.maps(x.transpose(1, 2).unsqueeze(-1)).flatten(2), dim=-1)
        return weights @ x


def test_what_is_on_the_way_to_a_gradient_is_said(tmp_path: Path) -> None:
    """One was `d_softmax`, and the other, which makes the gradient, `transpose_d_softmax`."""
    given = (torch.randn(2, 65, 48),)
    longhand.generate(Picked().train(), given, out=tmp_path / "unit", train=True, run=False)
    kernels = {path.stem for path in (tmp_path / "unit" / "kernels").glob("*.cpp")}
    assert {"d_softmax", "d_softmax_product_and_sums"} <= kernels, kernels


class Patches(nn.Module):
    """Rows and columns of windows are counted, and nothing is added to what is taken from there."""

    def __init__(self) -> None:
        super().__init__()
        self.unfold = nn.Unfold(kernel_size=4, stride=2)
        self.proj = nn.Linear(48, 8)

    def forward(self, img: torch.Tensor) -> torch.Tensor:
        return self.proj(self.unfold(img).transpose(1, 2))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_counting_places_is_no_addition(device: str) -> None:
    files = text_of((Patches().eval(), (torch.randn(2, 3, 16, 16),), {}), device, train=False)
    kernels = [path for path in files if path.startswith("kernels/")]
    assert any("gather" in path for path in kernels), kernels
    assert not any("add" in path for path in kernels), kernels


class OfFirstRow(nn.Module):
    """The norm of one row in each image: its gradient is put among zeros by a kernel that is given all sums."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(96, 96)
        self.head = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.proj(x) + x
        return self.head(x[:, 0])


def test_the_steps_of_a_norms_derivative_are_called_so() -> None:
    args = (torch.randn(2, 65, 96, requires_grad=True),)
    files = text_of((OfFirstRow(), args, {}), "cuda", train=True)
    kernels = {path for path in files if path.startswith("kernels/") and "d_layer_norm" in path}
    assert kernels >= {"kernels/d_layer_norm_first_step.py", "kernels/d_layer_norm_last_step.py"}, kernels
    assert "kernels/d_layer_norm.py" not in kernels, kernels
