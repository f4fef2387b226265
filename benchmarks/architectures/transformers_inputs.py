"""What a forward of transformers is called with: random tensors by the names of its parameters."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from benchmarks.architectures.shrinking import IMAGE, N_WORDS
from benchmarks.architectures.transformers_asked import ASKED, patches, setting

__all__ = ["candidates"]

Inputs = dict[str, torch.Tensor]
_N_FRAMES = 4
_LARGER = (64, 128, 256)


def candidates(model_class: type, config: Any) -> Iterator[dict[str, Any]]:
    """Random inputs by the names of forward's parameters: the main one alone, then all that are known."""
    parameters = inspect.signature(model_class.forward).parameters
    main = getattr(model_class, "main_input_name", "input_ids")
    main = main if isinstance(main, str) else main[0]
    known = {
        name: made
        for name, make in _INPUTS.items()
        if name in parameters and (made := make(config)) is not None
    }
    known |= {main: _INPUTS[main](config)} if main in _INPUTS else {}
    asked = [name for name in known if name == main or parameters[name].default is inspect.Parameter.empty]
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in known:
        asked.append("decoder_input_ids")
    tried: list[list[str]] = []
    both = [name for name in ("input_ids", "pixel_values") if name in known]
    for names in (asked, ["input_ids"], both, [*asked, *_LENGTHS], list(known)):
        names = [name for name in dict.fromkeys(names) if name in known]
        if names and names not in tried:
            tried.append(names)
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
    yield from _asked_for(config, parameters, known)


def _asked_for(config: Any, parameters: Mapping[str, inspect.Parameter], known: Inputs) -> Iterator[Inputs]:
    """What a forward has no default for, alone and with what else it can take: one thing, or two of one kind each."""
    known = {name: make(config) for name, make in ASKED.items() if name in parameters} | known
    if "input_features_mask" in known and "input_features" in known:
        known["input_features_mask"] = torch.ones(2, known["input_features"].shape[-1], dtype=torch.long)
    required = [
        name
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        and name != "self"
    ]
    asked = {name: known[name] for name in required if name in known}
    if "input_ids" in known:  # a word, and what is heard at the same time
        n_books = setting(config, "num_codebooks", "num_quantizers")
        for n_streams in (n_books, n_books + 1) if n_books else ():
            words = torch.randint(3, 30, (*known["input_ids"].shape, n_streams))
            yield {**asked, "input_ids": words}
    if len(asked) == len(required):
        if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in known:
            asked["decoder_input_ids"] = known["decoder_input_ids"]
        if "input_values" in known:  # a sound of several windows
            yield {**asked, "input_values": torch.randn(2, 1, 6400)}
        more = list(_more(known, required))
        yield from ({**asked, **one} for one in more)
        if "pixel_values" in known and known["pixel_values"].ndim == 4:  # of several frames; larger ones
            n_frames = setting(config, "num_frames") or _N_FRAMES
            clip = known["pixel_values"][:, None].repeat(1, n_frames, 1, 1, 1)
            yield from ({**asked, **one, "pixel_values": clip} for one in more)
        if "pixel_values" in asked or known.keys() == {"pixel_values"}:
            for side in _LARGER:
                yield {**asked, "pixel_values": torch.randn(2, known["pixel_values"].shape[1], side, side)}
    yield from patches(config, list(parameters))


def _more(known: Inputs, required: list[str]) -> Iterator[Inputs]:
    """Nothing, one input, and two that belong to two kinds of data."""
    others = [name for name in known if name not in required]
    if required:
        yield {}
    for name in others:
        yield {name: known[name]}
    data = [name for name in others if "mask" not in name]
    for first, second in itertools.combinations(data, 2):
        yield {first: known[first], second: known[second]}
    if "input_features" in others + required:  # time before frequencies, and with a channel
        words = {name: value for name, value in known.items() if name == "input_ids"}
        turned = known["input_features"].transpose(1, 2)
        yield {**words, "input_features": turned}
        yield {**words, "input_features": turned[:, None]}


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
