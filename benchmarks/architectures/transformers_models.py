"""Every architecture of transformers that can be made from a configuration: by the rule of `shrinking`, or by hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import transformers
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from benchmarks.architectures import transformers_given as given
from benchmarks.architectures.example import Example, Factory
from benchmarks.architectures.shrinking import IMAGE, N_WORDS, shrunk
from benchmarks.architectures.transformers_settings import SETTINGS

_MOST_PARAMETERS = 20_000_000


def transformers_factories() -> dict[str, Factory]:
    """By model type; what is made by hand has its name, or one of its own where it is a variant."""

    def factory(name: str) -> Factory:
        def make() -> Example:
            module, kwargs = make_generic(name, **given.SETTINGS.get(name, {}))
            return without_ties(module), (), kwargs

        return make

    def by_hand(make: Callable[[], tuple[nn.Module, dict[str, Any]]]) -> Factory:
        def make_example() -> Example:
            module, kwargs = make()
            return without_ties(module), (), kwargs

        return make_example

    found = {name: factory(name) for name in MODEL_MAPPING_NAMES if name in CONFIG_MAPPING_NAMES}
    return found | {name: by_hand(make) for name, make in SETTINGS.items()}


def without_ties(module: nn.Module) -> nn.Module:
    """The module with random numbers for parameters that are all zero: those make equal what they scale.

    Which of equal values `topk` takes nobody promises: layout and device decide, and the results differ.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and parameter.numel() > 1 and not parameter.any():
                parameter.normal_(std=0.02)
    return module


def make_generic(
    name: str, n_layers: int | None = None, /, **settings: Any
) -> tuple[nn.Module, dict[str, Any]]:
    """The architecture of a model type, small, with inputs by the names of its forward's parameters.

    Args:
        name: The model type.
        n_layers: As `shrunk` takes it.
        settings: Of its configuration.

    Raises:
        Exception: Whatever the class raises, or ValueError: the rule does not fit it.
    """
    names = MODEL_MAPPING_NAMES[name]
    model_class = getattr(transformers, names if isinstance(names, str) else names[0])
    config = shrunk(getattr(transformers, CONFIG_MAPPING_NAMES[name]), n_layers, **settings)
    with torch.device("meta"):
        n_parameters = sum(p.numel() for p in model_class(config).parameters())
    if n_parameters > _MOST_PARAMETERS:
        raise ValueError(f"{n_parameters:,} parameters: the rule does not make it small")
    module = model_class(config).eval()
    failure: Exception | None = None
    only_in_eager: dict[str, Any] | None = None
    made = [given.INPUTS[name](config)] if name in given.INPUTS else _candidates(model_class, config)
    for inputs in made:
        try:
            with torch.no_grad():
                module(**inputs)
            if _runs_when_compiled(module, inputs):
                return module, inputs
            only_in_eager = only_in_eager or inputs
        except Exception as error:
            failure = failure or error
    if only_in_eager is not None:
        return module, only_in_eager
    raise failure or ValueError("forward takes no input that is known")


def _runs_when_compiled(module: nn.Module, inputs: dict[str, Any]) -> bool:
    """Whether the model's own code runs where it is told that it is compiled: some then make no mask by themselves."""
    try:
        with torch.no_grad(), mock.patch("torch.compiler.is_compiling", lambda: True):
            module(**inputs)
    except Exception:
        return False
    return True


def _candidates(model_class: type, config: Any) -> Iterator[dict[str, Any]]:
    """Random inputs by the names of forward's parameters: the main one alone, then all that are known."""
    parameters = inspect.signature(model_class.forward).parameters
    main = getattr(model_class, "main_input_name", "input_ids")
    known = {
        name: made
        for name, make in _INPUTS.items()
        if name in parameters and (made := make(config)) is not None
    }
    known |= {main: _INPUTS[main](config)} if main in _INPUTS else {}
    asked = [name for name in known if name == main or parameters[name].default is inspect.Parameter.empty]
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in known:
        asked.append("decoder_input_ids")
    found: list[list[str]] = []
    both = [name for name in ("input_ids", "pixel_values") if name in known]
    for names in (asked, ["input_ids"], both, [*asked, *_LENGTHS], list(known)):
        names = [name for name in dict.fromkeys(names) if name in known]
        if names and names not in found:
            found.append(names)
            yield {name: known[name] for name in names}
    if "input_features" in asked:
        yield {
            **{name: known[name] for name in asked},
            "input_features": known["input_features"].transpose(1, 2),
        }
    if "input_values" in asked:  # sound with a channel
        yield {**{name: known[name] for name in asked}, "input_values": known["input_values"][:, None]}
    if {"hidden_states", "grid_thw"} <= set(parameters):
        yield _patches(config)
    if "pixel_values" in asked:
        n_frames = getattr(config, "num_frames", None) or 4
        clip = known["pixel_values"][:, None].repeat(1, n_frames, 1, 1, 1)
        yield {**{name: known[name] for name in asked}, "pixel_values": clip}


def _patches(config: Any) -> dict[str, torch.Tensor]:
    """What the image half of a model reads that takes images of any size: the patches of two, side by side."""
    channels = getattr(config, "in_channels", None) or getattr(config, "in_chans", None) or 3
    size = channels * (getattr(config, "temporal_patch_size", None) or 1) * config.patch_size**2
    return {"hidden_states": torch.randn(16 + 32, size), "grid_thw": torch.tensor([[1, 4, 4], [1, 4, 8]])}


def _words(config: Any, length: int) -> torch.Tensor:
    text = getattr(config, "text_config", None) or config
    n_words = getattr(text, "vocab_size", None)
    return torch.randint(3, min(n_words if isinstance(n_words, int) else N_WORDS, N_WORDS) - 10, (2, length))


def _pixels(config: Any) -> torch.Tensor:
    vision = getattr(config, "vision_config", None) or config
    size = getattr(vision, "image_size", None) or IMAGE
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = getattr(vision, "num_channels", None) or getattr(vision, "in_channels", None) or 3
    return torch.randn(2, channels, height, width)


def _sound(config: Any) -> torch.Tensor:
    bins = getattr(config, "num_mel_bins", None)
    return torch.randn(2, getattr(config, "max_length", 64), bins) if bins else torch.randn(2, 1600)


def _features(config: Any) -> torch.Tensor:
    sound = getattr(config, "audio_config", None) or getattr(config, "encoder_config", None) or config
    bins = getattr(sound, "num_mel_bins", None) or getattr(sound, "feature_size", None) or 16
    return torch.randn(2, bins, 2 * (getattr(sound, "max_source_positions", None) or 30))


_INPUTS: dict[str, Callable[[Any], torch.Tensor]] = {
    "input_ids": lambda config: _words(config, 19),
    "decoder_input_ids": lambda config: _words(config, 7),
    "pixel_values": _pixels,
    "input_values": _sound,
    "input_features": _features,
    "attention_mask": lambda config: torch.ones(2, 19, dtype=torch.long),
    "input_lengths": lambda config: torch.tensor([60, 60]),
}
_LENGTHS = ("attention_mask", "input_lengths")
