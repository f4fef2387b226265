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
LINES, KERNELS = "lines, 8 of 2 layers (%)", "kernels, 8 of 2 layers (%)"
MOST = {LINES: 130, KERNELS: 130}  # what is no regression, whatever it was
# The first thirty of transformers that a number of layers can be asked of, in the order of random.Random(20261126) over
# the sorted rows of the big table; five of them with a backward pass. Each is read for one device, in turns.
DEEP = (
    "transformers/vit_mae",
    "train/transformers/gpt_bigcode",
    "transformers/timesformer",
    "transformers/exaone",
    "transformers/gpt_neox_japanese",
    "transformers/apertus1p5_text",
    "transformers/mgp-str",
    "transformers/fuyu",
    "train/transformers/blenderbot-small",
    "transformers/prophetnet",
    "transformers/unlimited_ocr",
    "transformers/mellum",
    "train/transformers/xlm",
    "transformers/lasr_encoder",
    "transformers/ovis2",
    "transformers/flava",
    "transformers/aria",
    "transformers/internvl_vision",
    "transformers/sarvam_moe",
    "train/transformers/gemma4_audio",
    "transformers/laguna",
    "transformers/minicpmv4_7",
    "transformers/gptj",
    "transformers/deberta-v2",
    "transformers/muse_spark_text",
    "transformers/imagegpt",
    "train/transformers/deepseek_v3",
    "transformers/blt",
    "transformers/starcoder2",
    "transformers/inkling2_loop",
)


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

    @property
    def percentages(self) -> dict[str, int]:
        """How long the unit of many layers is, and how many kernels it has, in percent of the one of few."""
        pairs = {LINES: self.lines, KERNELS: self.kernels}
        return {word: round(100 * many / max(few, 1)) for word, (few, many) in pairs.items()}


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
