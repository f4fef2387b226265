"""A statement is quoted where it is done, and where it says what is done there."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of


def kernels_of(files: dict[str, Any]) -> str:
    return "\n".join(str(text) for path, text in files.items() if path.startswith("kernels/"))


class Masked(nn.Module):
    """The mask is all ones, and asks nothing of the kernel."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(x.shape[0], x.shape[1])
        weights = torch.exp(x) ** 3
        weights = weights * mask[:, :, None]
        return torch.matmul(weights, y)


class ByDevice(nn.Module):
    """What the CPU needs otherwise; the model is captured there, whatever it is for."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(x) * 2
        counted = x.float() if x.device.type in ("cpu", "mps") else x.double()
        counted = torch.exp(counted) if x.device.type == "cpu" else torch.cos(counted)
        return counted.sin()


class Heads(nn.Module):
    """What differentiates a norm puts the gradient in the projection's order, and is no projection."""

    def __init__(self) -> None:
        super().__init__()
        self.k_proj = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        key_states = self.k_proj(x).view(2, 7, 4, 8).transpose(1, 2)
        rstd = torch.rsqrt(key_states.pow(2).mean(-1, keepdim=True) + 1e-5)
        return key_states * rstd


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_factor_of_ones_is_not_quoted(device: str) -> None:
    args = torch.randn(3, 5, 7), torch.randn(3, 7, 5)
    kernels = kernels_of(text_of((Masked().eval(), args, {}), device, train=False))
    assert "torch.exp(x) ** 3" in kernels and "weights * mask" not in kernels, kernels


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_view_of_what_a_library_makes_is_not_quoted_beside_what_is_done(device: str) -> None:
    files = text_of((Heads(), (torch.randn(2, 7, 32),), {}), device, train=True)
    heads = [text[:900] for path, text in files.items() if path.startswith("kernels/")]
    made = re.compile(r"d_key_states(\[.*\])? = ")
    quoting = [one for one in heads if made.search(one) and "rstd = torch.rsqrt" in one]
    assert quoting and not any("self.k_proj" in one for one in quoting), quoting


@pytest.mark.parametrize(("device", "is_quoted"), [("cpu", True), ("cuda", False)])
def test_the_branch_of_another_device_is_not_quoted(device: str, is_quoted: bool) -> None:
    files = text_of((ByDevice().eval(), (torch.randn(3, 5),), {}), device, train=False)
    text = kernels_of(files) + files["model.py"]
    assert "torch.tanh(x) * 2" in text
    assert ("x.device.type ==" in text) is is_quoted, text


class Recomputed(nn.Module):
    """The backward pass computes the first statement again, in the kernel that differentiates the second one."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        inner = torch.exp(x) + y
        return torch.sin(inner)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_beside_a_gradient_what_it_differentiates_is_quoted(device: str) -> None:
    args = torch.randn(5, 40, requires_grad=False), torch.randn(5, 40, requires_grad=True)
    backward = text_of((Recomputed(), args, {}), device, train=True)["backward.py"]
    assert "# Recomputed.forward    return torch.sin(inner)" in backward, backward  # what it differentiates
    assert "again: Recomputed.forward    return torch.sin" not in backward, backward


class Loss(nn.Module):
    """The forward pass computes the gradient of the logits, too, while it has them."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(32, 50, bias=False)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.head(torch.sin(x))
        return nn.functional.cross_entropy(logits, labels)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_forward_pass_computes_nothing_again(device: str) -> None:
    args = torch.randn(6, 32), torch.randint(50, (6,))
    assert "again: " not in text_of((Loss(), args, {}), device, train=True)["model.py"]


class Attended(nn.Module):
    """Its derivative needs the operands of both products again, each laid out otherwise than what is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(2, 7, 4, 8).transpose(1, 2) for part in self.proj(x).chunk(3, dim=-1))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * 0.5
        return torch.einsum("bhij,bhjd->bhid", torch.sin(scores), v)


def test_of_operands_that_are_made_again_it_is_said_each_time() -> None:
    backward = text_of((Attended(), (torch.randn(2, 7, 32),), {}), "cuda", train=True)["backward.py"]
    body = backward[backward.index("\ndef ") :]
    paragraphs = [one for one in body.split("\n\n") if " = saved.proj_out." in one and "kernels." in one]
    assert len(paragraphs) == 3, body
    for one in paragraphs:
        assert one.lstrip().startswith("# again"), one
        assert "again: Attended.forward    scores" not in one, one  # they are not computed again
    assert "# again, for Attended.forward    scores = " in body, body


class MaskedAttention(nn.Module):
    """The mask is kept; the bias that attention makes of it is longhand's own."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor, near: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        far = torch.ones_like(near).scatter(-1, places, False)
        mask = near & ~far
        q = self.proj(x).view(2, 7, 4, 8).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


def test_a_mask_that_was_kept_is_not_computed_again() -> None:
    args = torch.randn(2, 7, 32), torch.rand(2, 1, 7, 7) > 0.5, torch.randint(7, (2, 1, 7, 3))
    backward = text_of((MaskedAttention(), args, {}), "cuda", train=True)["backward.py"]
    assert "saved.mask," in backward and "_bias" in backward, backward  # made again, of what was kept
    assert "again: MaskedAttention.forward    mask" not in backward, backward
