"""Four dimensions are an image's where its name says so, or where it is cut into patches: else those of heads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from longhand.capture.frontends.export import capture_export
from longhand.lower.ir import Buffer, Derivation, Derived
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from longhand.schedule.names.dimensions.dimension_names import DimNamer

_IMAGE = ("batch", "channels", "height", "width")
_HEADS = ("batch", "heads", "seq", "dim")


class Called(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function


class OfImage(Called):
    def forward(self, img: torch.Tensor) -> torch.Tensor:
        return self.function(img)


class OfAny(Called):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def _into_patches(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(2, 3, 4, 2, 4, 2).permute(0, 2, 4, 1, 3, 5).reshape(2, 16, 12).tanh()


@pytest.mark.parametrize(
    ("module", "wanted"),
    [
        (OfImage(lambda img: img.flatten(1).softmax(-1)), _IMAGE),
        (OfAny(_into_patches), _IMAGE),
        (OfAny(lambda x: x.softmax(-1)), _HEADS),
    ],
)
def test_words_of_an_argument(module: Called, wanted: tuple[str, ...]) -> None:
    options = Options(Target(Device.CPU))
    graph = capture_export(module, (torch.randn(2, 3, 8, 8),), {}, target=options.target)
    program = lower(graph, options)
    (given,) = (entry.node for entry in graph.inputs)
    assert DimNamer(graph, program.buffers).of(given, 4) == wanted


def test_a_copy_has_the_dimensions_of_its_value_in_whatever_shape_that_lies() -> None:
    options = Options(Target(Device.CPU))
    module = OfAny(lambda x: torch.nn.functional.max_pool2d(x.tanh(), 2))
    graph = capture_export(module, (torch.randn(2, 3, 8, 8),), {}, target=options.target)
    buffers = dict(lower(graph, options).buffers)
    (pooled,) = (node.name for node in graph.graph.nodes if "pool" in str(node.target))
    value = buffers.get(pooled) or next(iter(buffers.values()))
    shape = (2, 3, 4, 4)
    buffers[pooled] = dataclasses.replace(value, name=pooled, shape=(6, 16), stride=(16, 1))
    buffers["copied"] = Buffer(
        "copied",
        value.kind,
        value.dtype,
        shape,
        (48, 16, 4, 1),
        derived=Derived(Derivation.CONTIGUOUS, pooled),
    )
    words = DimNamer(graph, buffers).of("copied", 4)
    assert len(words) == 4 and words[:2] == ("batch", "channels")
