"""Who lays a piece of a join out anew does not join; where a kernel does, what it computes is what is quoted."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.emit.test_names_by_callers import Turned


class Windows(nn.Module):
    """Normalized images in windows, each behind a token."""

    def __init__(self) -> None:
        super().__init__()
        self.g, self.tokens = nn.Parameter(torch.ones(1, 6, 1, 1)), nn.Parameter(torch.randn(6))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        mean = image.mean(dim=1, keepdim=True)
        x = (image - mean) * self.g
        x = x.unflatten(2, (2, 4)).unflatten(4, (2, 4)).permute(0, 2, 4, 1, 3, 5).reshape(-1, 6, 16)
        w = self.tokens[None, :, None].expand(x.shape[0], -1, -1)
        return torch.cat((w, x), dim=-1)


def test_a_piece_is_no_join(emit: Any) -> None:
    files = emit(Windows().eval(), (torch.randn(3, 6, 8, 8),), device="cuda")
    kernels = {path: str(text) for path, text in files.items() if path.startswith("kernels/")}
    assert [path for path, text in kernels.items() if "torch.cat((w, x)" in text] == ["kernels/cat.py"]
    assert any(".permute(0, 2, 4, 1, 3, 5).reshape(-1," in text.split('"""')[1] for text in kernels.values())


def test_what_a_joining_kernel_computes_is_quoted(emit: Any) -> None:
    given = torch.randn(3, 10, 16), torch.arange(20).reshape(10, 2)
    text = str(emit(Turned().eval(), given, device="cuda")["model.py"])
    above = text[: text.index("kernels.make_cos_and_sin(")].splitlines()
    quoted = [line for line in above if "# Angles." in line]
    assert "freqs.sin()" in quoted[-1]
