"""The gradients of convolutions: one short call each, of runtime.py's, which is right for all that one may be."""

import pytest
import torch
from torch import nn

import longhand
from tests.same_gradients import assert_same_gradients


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=(2, 1), padding=1, bias=False)
        self.grouped = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4)
        self.up = nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1, groups=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(torch.tanh(self.grouped(torch.relu(self.first(x)))))


class Lines(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.narrow = nn.Conv1d(4, 6, 5, padding=2)
        self.deep = nn.Conv3d(2, 3, 3, stride=2, padding=(1, 0, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.deep(torch.sigmoid(self.narrow(x)).view(2, 2, 3, 5, 7))


CASES = {"images": (Images, (2, 3, 9, 7)), "lines": (Lines, (2, 4, 35))}
CALLS = {
    "images": (
        "convolution_backward(",
        "padding=2, groups=4, dilation=2, wanted=(True, True, True)",
        "stride=2, padding=1, output_padding=1, groups=2, transposed=True, wanted=(True, True, True)",
        "stride=(2, 1), padding=1, wanted=(False, True, False)",
    ),
    "lines": ("stride=2, padding=(1, 0, 1)", "padding=2"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("is_input_differentiated", [False, True])
def test_gradients_are_the_models(case, is_input_differentiated, tmp_path):
    torch.manual_seed(0)
    make, shape = CASES[case]
    model = make()
    x = torch.randn(shape, requires_grad=is_input_differentiated)
    longhand.generate(model, (x,), out=tmp_path / case, device="cpu", train=True)
    text = (tmp_path / case / "backward.py").read_text()
    assert "torch.ops.aten.convolution_backward" not in text and "bias_sizes" not in text
    if not is_input_differentiated:
        flat = " ".join(text.split())
        assert all(" ".join(part.split()) in flat for part in CALLS[case])
    x = torch.randn(shape, requires_grad=is_input_differentiated)  # others than those that were captured
    assert_same_gradients(model, tmp_path / case, x, rtol=1e-4, atol=1e-5)
