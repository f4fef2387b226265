"""Trees of modules as the models of torchvision and monai have them, in training: odd names, lists with gaps, one class
in every stage. Each unit is generated and tried against eager.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from benchmarks.readability.units import text_of


def conv_norm(n_in: int, n_out: int, *behind: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(n_in, n_out, 1, bias=False), nn.BatchNorm2d(n_out), *behind)


class DashedBlock(nn.Module):
    """A residual block whose branch is a Sequential with names, as RegNet's."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.proj = conv_norm(n_in, n_out) if n_in != n_out else None
        self.f = nn.Sequential(OrderedDict(a=conv_norm(n_in, n_out, nn.ReLU()), c=conv_norm(n_out, n_out)))
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        residual = x if self.proj is None else self.proj(x)
        return self.activation(residual + self.f(x))


class Dashed(nn.Module):
    """Stages whose blocks have names that are no attributes: ``block2-1``."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, bias=False)
        self.stages = nn.Sequential(
            OrderedDict(
                block1=nn.Sequential(OrderedDict({"block1-0": DashedBlock(8, 8)})),
                block2=nn.Sequential(
                    OrderedDict({"block2-0": DashedBlock(8, 16), "block2-1": DashedBlock(16, 16)})
                ),
                block3=nn.Sequential(OrderedDict({"class": DashedBlock(16, 24)})),
            )
        )
        self.fc = nn.Linear(24, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.stages(self.stem(x)).mean((2, 3)))


class EncoderBlock(nn.Module):
    """A block whose feed-forward part is a Sequential of which only some members hold anything, as torchvision's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln_1, self.mix, self.ln_2 = nn.LayerNorm(width), nn.Linear(width, width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.0), nn.Linear(2 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.mix(self.ln_1(x)).tanh()
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Blocks that one function makes, in a model that needs nothing else of torch.nn."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.layers = nn.Sequential(
            OrderedDict((f"encoder_layer_{n}", EncoderBlock(width)) for n in range(3))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1))


class Fire(nn.Module):
    def __init__(self, n_in: int, n_squeezed: int, n_out: int) -> None:
        super().__init__()
        self.squeeze, self.squeeze_activation = nn.Conv2d(n_in, n_squeezed, 1), nn.ReLU(inplace=True)
        self.expand1x1, self.expand1x1_activation = nn.Conv2d(n_squeezed, n_out, 1), nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(n_squeezed, n_out, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        wide = self.expand3x3_activation(self.expand3x3(x))
        return torch.cat([self.expand1x1_activation(self.expand1x1(x)), wide], 1)


class SqueezeNet(nn.Module):
    """A Sequential with members that hold nothing; only its backward pass has a loop over some of the others."""

    def __init__(self) -> None:
        super().__init__()
        pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        fires = [Fire(16, 8, 12), Fire(24, 8, 12), Fire(24, 8, 16), Fire(32, 8, 16)]
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True), pool, Fire(8, 4, 8), Fire(16, 4, 8), pool, *fires
        )
        self.head = nn.Conv2d(32, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x)).relu().mean((2, 3))


class Excitation(nn.Module):
    def __init__(self, n_channels: int) -> None:
        super().__init__()
        self.avg_pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Sequential(nn.Linear(n_channels, 4), nn.ReLU(), nn.Linear(4, n_channels), nn.Sigmoid())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c = x.shape[:2]
        y = self.avg_pool(x).view(b, c)
        y = self.fc(y).view([b, c, 1, 1])
        return x * y


class ExcitedBlock(nn.Module):
    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.conv1, self.conv3 = conv_norm(n_in, n_out, nn.ReLU(inplace=True)), conv_norm(n_out, n_out)
        self.se_layer = Excitation(n_out)
        self.project = conv_norm(n_in, n_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        residual = self.project(x)
        x = self.se_layer(self.conv3(self.conv1(x)))
        return (x + residual).relu()


class Excited(nn.Module):
    """Stages of one block: a function takes a ``y`` of the next stage and one of its own, as monai's SENet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, bias=False)
        for n in range(4):
            setattr(self, f"layer{n + 1}", nn.Sequential(ExcitedBlock(8 + 8 * n, 16 + 8 * n)))
        self.fc = nn.Linear(40, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x)))))
        return self.fc(x.mean((2, 3)))


MODELS = [
    pytest.param(Dashed, (2, 3, 10, 10), id="names with dashes"),
    pytest.param(Encoder, (2, 5, 8), id="functions that make lists"),
    pytest.param(SqueezeNet, (2, 3, 41, 41), id="a list with gaps"),
    pytest.param(Excited, (2, 3, 10, 10), id="one word for two"),
]


@pytest.mark.parametrize(("make", "shape"), MODELS)
def test_a_unit_with_its_backward_pass_is_right(
    make: Callable[[], nn.Module], shape: tuple[int, ...], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    longhand.generate(make().train(), (torch.randn(shape),), out=tmp_path / "unit", train=True)
    assert (tmp_path / "unit" / "backward.py").is_file()


@pytest.mark.parametrize(("make", "shape"), MODELS)
def test_the_python_for_a_gpu_is_whole(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    """It is proven as it is written."""
    assert "backward.py" in text_of((make().train(), (torch.randn(shape),), {}), "cuda", train=True)
