"""The units that are read: small models with random weights, by transformers and by hand, as text for cpu and sm_90."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from pathlib import Path

import torch

from benchmarks.architectures import catalog
from benchmarks.architectures.calls import repeatable
from benchmarks.architectures.example import Example
from benchmarks.readability.text import UnitText
from longhand.frontends import capture_call
from longhand.options import Device, Frontend
from longhand.pipeline import plan_and_text
from longhand.targets import options_for
from longhand.telling.clock import Clock
from tests.models.handwritten import HANDWRITTEN

ARCH = "sm_90"
BY_HAND = "by_hand"
TRAINED = "train/"
# What transformers brings and what people write: decoders, encoders, images, recurrence, experts, graphs, losses.
MODELS = (
    "transformers/t5",
    "transformers/bloom",
    "transformers/gpt_neox",
    "transformers/gemma2",
    "transformers/mamba",
    "transformers/modernbert",
    "transformers/deberta-v2",
    "transformers/convnext",
    "by_hand/Lstm",
    "by_hand/SelectiveScan",
    "by_hand/RadianceField",
    "by_hand/VectorQuantizer",
    "by_hand/BucketBias",
    "by_hand/GraphAttention",
    "train/transformers/opt",
    "train/by_hand/RotaryAttention",
)


def unit_text(model: str, device: str) -> UnitText:
    """Captures, plans and prints one model; nothing is written to disk or built.

    Raises:
        KeyError: There is no such model.
        LonghandError: It cannot be compiled.
    """
    is_trained = model.startswith(TRAINED)
    example = _example(model.removeprefix(TRAINED), train=is_trained)
    return UnitText(model, device, text_of(example, device, train=is_trained))


def text_of(example: Example, device: str, *, train: bool) -> dict[str, str]:
    """The files that a call's unit would have, text by path; nothing is written to disk or built.

    Args:
        example: The model and its arguments.
        device: ``cpu`` or ``cuda``.
        train: With a backward pass.

    Raises:
        LonghandError: It cannot be compiled.
    """
    module, args, kwargs = example
    arch = ARCH if device == Device.CUDA.value else None
    options = dataclasses.replace(
        options_for(device, arch, None, ()), train=train, frontend=Frontend.BYTECODE
    )
    capture = functools.partial(capture_call, module, args, kwargs, options)
    with tempfile.TemporaryDirectory() as empty, torch.set_grad_enabled(train):
        _, _, files = plan_and_text(capture, options, Path(empty), Clock())
    return {path: text for path, text in files.items() if isinstance(text, str)}


def _example(row: str, *, train: bool) -> Example:
    family, _, name = row.partition("/")
    if family != BY_HAND:
        return catalog.example(row, train=train)
    torch.manual_seed(catalog.SEED)
    module, args = HANDWRITTEN[name]()
    return repeatable((module, args, {}), train=train)
