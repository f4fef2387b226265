"""How much longer a unit becomes where its model has 8 layers in place of 2: equal layers are one function."""

from __future__ import annotations

import dataclasses

import torch

from benchmarks.architectures import catalog
from benchmarks.architectures.calls import repeatable
from benchmarks.architectures.example import Example
from benchmarks.architectures.transformers_models import make_generic, without_ties
from benchmarks.architectures.vision_models import deep_timm
from benchmarks.readability.text import UnitText
from benchmarks.readability.units import TRAINED, text_of

FEW, MANY = 2, 8
MOST = 1.3  # times as long


@dataclasses.dataclass(frozen=True)
class Growth:
    """One model, shallow and deep, for one device.

    Attributes:
        few: The unit of `FEW` layers.
        many: The unit of `MANY`.
    """

    few: UnitText
    many: UnitText

    @property
    def lines(self) -> tuple[int, int]:
        """Lines of model.py and backward.py, of few layers and of many."""
        return _n_lines(self.few), _n_lines(self.many)

    @property
    def kernels(self) -> tuple[int, int]:
        """How many kernels there are, of few layers and of many."""
        return len(self.few.kernels), len(self.many.kernels)


def growth(model: str, device: str) -> Growth:
    """Prints a model's unit twice.

    Args:
        model: ``transformers/NAME`` or ``timm/NAME``, with ``train/`` before it in training.
        device: ``cpu`` or ``cuda``.

    Raises:
        Exception: Whatever the model's package raises: it has no number of layers, or does not take these.
        LonghandError: It cannot be compiled.
    """
    is_trained = model.startswith(TRAINED)
    row = model.removeprefix(TRAINED)
    few, many = (
        UnitText(model, device, text_of(deep_example(row, n, train=is_trained), device, train=is_trained))
        for n in (FEW, MANY)
    )
    return Growth(few, many)


def deep_example(row: str, n_layers: int, *, train: bool) -> Example:
    """A row of the big table with a number of layers.

    Raises:
        Exception: Whatever its package raises.
    """
    family, _, name = row.partition("/")
    torch.manual_seed(catalog.SEED)
    if family == "timm":
        return repeatable(deep_timm(name, n_layers), train=train)
    module, kwargs = make_generic(name, n_layers)
    return repeatable((without_ties(module), (), kwargs), train=train)


def _n_lines(unit: UnitText) -> int:
    return sum(text.count("\n") for text in unit.wrappers.values())
