"""All factories of the table by family.

``longhand generate benchmarks.architectures.catalog:timm/resnet --out DIR`` takes them, too.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
from collections.abc import Callable

import torch

from benchmarks.architectures.calls import repeatable
from benchmarks.architectures.diffusers_models import diffusers_factories
from benchmarks.architectures.example import Example, Factory
from benchmarks.architectures.graph_models import graph_factories
from benchmarks.architectures.other_models import (
    kornia_factories,
    monai_factories,
    segmentation_factories,
    vit_pytorch_factories,
    x_transformers_factories,
)
from benchmarks.architectures.transformers_models import transformers_factories
from benchmarks.architectures.vision_models import timm_factories, torchvision_factories

SEED = 0


@dataclasses.dataclass(frozen=True)
class Family:
    """Models that one package brings.

    Attributes:
        name: As on the command line.
        package: What must be installed.
        load: Imports it and returns the factories by name.
    """

    name: str
    package: str
    load: Callable[[], dict[str, Factory]]

    @property
    def is_installed(self) -> bool:
        """Whether the package can be found."""
        return importlib.util.find_spec(self.package) is not None


FAMILIES = {
    family.name: family
    for family in (
        Family("transformers", "transformers", transformers_factories),
        Family("timm", "timm", timm_factories),
        Family("torchvision", "torchvision", torchvision_factories),
        Family("diffusers", "diffusers", diffusers_factories),
        Family("segmentation", "segmentation_models_pytorch", segmentation_factories),
        Family("monai", "monai", monai_factories),
        Family("geometric", "torch_geometric", graph_factories),
        Family("x_transformers", "x_transformers", x_transformers_factories),
        Family("vit_pytorch", "vit_pytorch", vit_pytorch_factories),
        Family("kornia", "kornia", kornia_factories),
    )
}


def names_in(family: str) -> list[str]:
    """The rows of one family, as ``family/name``; none where its package is missing."""
    return [f"{family}/{name}" for name in _factories(family)] if FAMILIES[family].is_installed else []


def example(row: str, *, train: bool = False) -> Example:
    """Makes the model of ``family/name`` and its inputs, from a seed, with nothing random in its call.

    Args:
        row: As `names_in` has it.
        train: In training mode.

    Raises:
        KeyError: There is no such row.
        Exception: Whatever its package raises: the row cannot be made here.
    """
    family, _, name = row.partition("/")
    torch.manual_seed(SEED)
    return repeatable(_factories(family)[name](), train=train)


@functools.cache
def _factories(family: str) -> dict[str, Factory]:
    return FAMILIES[family].load()


def _called(row: str, *, train: bool) -> Example:
    """The model of a row after its first call, with what that keeps for the later ones."""
    module, args, kwargs = example(row, train=train)
    with torch.set_grad_enabled(train):
        module(*args, **kwargs)
    return module, args, kwargs


def __getattr__(name: str) -> Factory:
    """The factory of a row for ``MODULE:FACTORY``; of ``train/FAMILY/NAME`` in training mode, ``called/`` before both
    once it was called."""
    if name.startswith("called/"):
        name = name.removeprefix("called/")
        made = functools.partial(_called, name.removeprefix("train/"), train=name.startswith("train/"))
        if name.removeprefix("train/").partition("/")[0] in FAMILIES:
            return made
    is_training = name.startswith("train/")
    row = name.removeprefix("train/")
    if row.partition("/")[0] in FAMILIES and "/" in row:
        return functools.partial(example, row, train=is_training)
    raise AttributeError(name)
