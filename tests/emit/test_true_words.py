"""A word is true of the value that it stands for, and a formula of what the kernel computes."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of


def unit(module: nn.Module, *args: torch.Tensor, device: str = "cuda", train: bool = False) -> dict[str, str]:
    return text_of((module if train else module.eval(), args, {}), device, train=train)


def kernels_of(files: dict[str, Any]) -> str:
    return "\n".join(text for path, text in files.items() if path.startswith("kernels/"))


class Experts(nn.Module):
    """Tokens in the order of their experts, and back."""

    def __init__(self, top_k: int = 2) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(4, 16, 16))
        self.top_k = top_k

    def forward(self, hidden_states: torch.Tensor, router: torch.Tensor) -> torch.Tensor:
        top_k_weights, top_k_index = torch.topk(router, self.top_k, dim=-1)
        sample_weights = top_k_weights.reshape(-1)
        expert_ids, perm = torch.sort(top_k_index.reshape(-1))
        sample_weights_g = sample_weights[perm]
        selected = hidden_states.exp()[perm // self.top_k]
        out = torch.bmm(selected[:, None], self.up[expert_ids])[:, 0]
        weighted_out = out * sample_weights_g.unsqueeze(-1)
        inv_perm = torch.empty_like(perm)
        inv_perm[perm] = torch.arange(perm.size(0), device=perm.device)
        weighted_out = weighted_out[inv_perm]
        return weighted_out.view(hidden_states.shape[0], self.top_k, -1).sum(1)


@pytest.fixture(scope="module")
def experts() -> dict[str, str]:
    return unit(Experts(), torch.randn(19, 16), torch.randn(19, 4))


def test_a_variable_is_what_was_written_into_it_and_not_the_memory_before(experts: dict[str, str]) -> None:
    model = experts["model.py"]
    assert "inv_perm = initial_inv_perm.index_put((perm,), self.positions)" in model, model
    assert "index_put =" not in model and "inv_perm_table" not in model, model


def test_places_that_a_sort_made_are_not_checked(experts: dict[str, str]) -> None:
    text = kernels_of(experts)
    assert not re.search(r"wrapped|in_table|has_place|nan|table_size", text), text
    assert "perm // TOP_K" in text and "floor_quotient" not in text, text
    assert "tl.static_range(top_k)" in text, text  # the sum of a token's experts stays in registers


class Written(nn.Module):
    """What is changed in place goes by the user's variable; what is written into a part of it does not."""

    def forward(self, x: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        kept = x.exp()
        kept[where] = x.sin()[:4]
        kept = kept.cos()
        kept[:, 2:5] = x[:, :3].tanh()
        kept.mul_(x)
        return kept.softmax(-1)


def test_what_is_changed_in_place_keeps_its_variable() -> None:
    model = unit(Written(), torch.randn(6, 8), torch.tensor([0, 2, 3, 5]))["model.py"]
    assert re.search(r"kept = kept\.index_put\(\(where,\), \w+\[:4\]\)", model), model
    assert "index_put = " not in model and "slice_scatter" not in model, model


class Edges(nn.Module):
    """The length of a gradient of an image, whose border is repeated."""

    def forward(self, image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        padded = nn.functional.pad(image.exp(), (1, 1, 1, 1), "replicate")
        both = nn.functional.conv2d(padded, weight)
        gx, gy = both[:, 0], both[:, 1]
        return torch.sqrt(gx * gx + gy * gy + 1e-6)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_two_parts_of_a_tensor_are_told_apart_and_rows_come_before_columns(device: str) -> None:
    text = kernels_of(unit(Edges(), torch.randn(2, 1, 8, 8), torch.randn(2, 1, 3, 3), device=device))
    assert re.search(r"= sqrt\(gx\*\*2 \+ gy\*\*2 \+ eps\)", text), text
    assert re.search(r"exp\(image\[clamp\(row - 1, 0, 7\), clamp\(col - 1, 0, 7\)\]\)|clamp\(row", text), text
    places = re.findall(r"\[clamp\((\w+) - 1, 0, 7\), clamp\((\w+) - 1, 0, 7\)\]", text)
    assert places and set(places) == {("row", "col")}, text


def test_a_place_that_is_looked_up_has_a_line_ahead_of_the_row_that_it_points_to() -> None:
    files = unit(Experts(), torch.randn(19, 16), torch.randn(19, 4), device="cpu")
    text = files["kernels/make_selected.cpp"]
    assert re.search(
        r"row_index = trunc_divide<int64_t>\(perm\[row\], TOP_K\);\n.*hidden_states_row = ", text
    ), text


def test_a_copy_into_another_layout_stands_under_what_it_is_made_for(experts: dict[str, str]) -> None:
    lines = experts["model.py"].splitlines()
    for number, line in enumerate(lines):
        if line.endswith(".contiguous()"):
            following = "\n".join(lines[number:]).partition("\n\n")[0]
            assert "kernels." in following, experts["model.py"]


class Gathered(nn.Module):
    """A sum that begins with 0, and a module that returns torch's function which is called as it is."""

    class Own(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.softmax(x, dim=-1)

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.softmax = Gathered.Own()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.softmax(x / 4.0 + torch.zeros(1, 8))

    def __init__(self) -> None:
        super().__init__()
        self.self = Gathered.Inner()

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        weights = self.self(x)
        total = 0
        for place in range(2):
            total = total + x * gate[place]
        return total.cos() @ weights


def test_no_zero_is_added_and_nothing_is_called_self() -> None:
    files = unit(Gathered(), torch.randn(8, 8), torch.randn(2, 8, 8))
    text = kernels_of(files)
    assert "+ 0.0" not in text, text
    assert not re.search(r"\bself(_\w+)?\b = |\bself_ptr|softmax_self|\bself\b,", text), text
    assert "softmax_self" not in files["model.py"], files["model.py"]
