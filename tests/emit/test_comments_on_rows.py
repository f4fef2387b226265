"""A pointer of which no shape says what is read has a comment, too: rows a stride apart, or computed places."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from benchmarks.readability.units import text_of


class Joined(nn.Module):
    """Reads two tensors as halves of longer rows."""

    def forward(self, v: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return torch.cat([v, h], -1)


class Turned(nn.Module):
    """Reads what it is given from both ends of half a row."""

    def forward(self, angles: torch.Tensor) -> torch.Tensor:
        return torch.cat([angles, angles]).cos()


def kernel_of(module: nn.Module, device: str, *given: torch.Tensor) -> str:
    files = text_of((module.eval(), given, {}), device, train=False)
    ending = ".cpp" if device == "cpu" else ".py"
    return next(
        text
        for path, text in files.items()
        if path.startswith("kernels/") and path.endswith(ending) and "__init__" not in path
    )


@pytest.mark.parametrize(
    ("device", "comment"),
    [("cpu", "  // rows of v_stride elements"), ("cuda", "  # float32, rows of v_stride elements")],
)
def test_rows_a_stride_apart(device: str, comment: str) -> None:
    assert comment in kernel_of(Joined(), device, torch.randn(6, 40), torch.randn(6, 40))


def test_places_that_a_condition_chooses() -> None:
    assert "# float32, read at computed places" in kernel_of(Turned(), "cuda", torch.randn(64))


class JoinedImages(nn.Module):
    """Joins parts of the channels of images with all of them."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.cat([x[:, :3], y[:, 2:5]], 1), x], 1).sin()


@pytest.mark.parametrize(
    ("device", "comment"),
    [
        ("cpu", "  // read along batch, row and col, in part"),
        ("cuda", "  # float32, read along batch, row and col, in part"),
    ],
)
def test_a_piece_of_what_is_joined_says_along_what_it_lies(device: str, comment: str) -> None:
    text = kernel_of(JoinedImages(), device, torch.randn(2, 7, 5, 5), torch.randn(2, 7, 5, 5))
    assert text.count(comment) == 2, text


class Gated(nn.Module):
    """Reads two parts of each row of a tensor with a long name."""

    def forward(self, experts_selected_hidden_states_gate_up: torch.Tensor) -> torch.Tensor:
        gate, up = experts_selected_hidden_states_gate_up.chunk(2, -1)
        return nn.functional.silu(gate) * up


def test_what_is_said_of_a_long_name_fits_its_line() -> None:
    text = kernel_of(Gated(), "cuda", torch.randn(6, 80))
    (line,) = [one for one in text.splitlines() if "# float32, 2 parts, (n_rows, n_cols) each" in one]
    assert max(map(len, text.splitlines())) <= 110, line


class OfLast(nn.Module):
    """Reads the last of what is stacked, by a name so long that its offset's does not fit beside it."""

    def forward(self, hidden_states_of_all_the_layers_in_turn: torch.Tensor) -> torch.Tensor:
        return hidden_states_of_all_the_layers_in_turn[-1].softmax(-1)


@pytest.mark.parametrize(("device", "mark"), [("cpu", "//"), ("cuda", "# float32,")])
def test_a_part_is_never_said_to_be_the_whole(device: str, mark: str) -> None:
    """The unit's runtime would refuse the tensor, of which the kernel takes a part."""
    stacked = torch.randn(3, 5, 24)
    text = kernel_of(OfLast(), device, stacked)
    assert f"{mark} (n_rows, n_cols), from its offset on" in text


class OfImages(nn.Module):
    """Reads some channels of images by strides, by a name so long that no shape fits beside it."""

    def forward(self, upsampled_hidden_states_of_the_decoder_and_encoder: torch.Tensor) -> torch.Tensor:
        return (
            upsampled_hidden_states_of_the_decoder_and_encoder[1, :, 3:7, 2:9, 1:].sin().permute(3, 0, 1, 2)
        )


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_shape_that_does_not_fit_is_not_told(device: str) -> None:
    text = kernel_of(OfImages(), device, torch.randn(2, 5, 9, 12, 6))
    assert max(map(len, text.splitlines())) <= 110
    assert re.search(r"(//|# float32,) by strides, from its offset on$", text, re.M), text


@pytest.mark.filterwarnings("error::longhand.errors.EagerWarning")
def test_a_part_is_taken_of_a_tensor_with_a_long_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stacked = torch.randn(3, 5, 24)
    torch.testing.assert_close(longhand.compile(OfLast())(stacked), OfLast()(stacked))
