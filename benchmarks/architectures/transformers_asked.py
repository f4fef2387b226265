"""Inputs that few forwards of transformers ask for, by name; and inputs mended by what a forward says of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from benchmarks.architectures.shrinking import named_value

__all__ = ["ASKED", "completed", "corrections", "patches", "setting"]

Inputs = dict[str, torch.Tensor]
_N_FRAMES, _N_PATCHES, _N_WORDS_ASKED = 4, 16, 6


def setting(config: Any, *names: str) -> int | None:
    """The first whole number that a configuration, or one in it, has by one of the names."""
    for one in _all_of(config):
        for name in names:
            value = vars(one).get(type(one).attribute_map.get(name, name))
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    return None


def _all_of(config: Any) -> Iterator[Any]:
    """A configuration and those in it, the outer ones first."""
    waiting = [config]
    while waiting:
        one = waiting.pop(0)
        yield one
        waiting += [value for value in vars(one).values() if hasattr(value, "to_dict")]


# What errors of PyTorch tell of an axis: its size, and the one that it should have.
_WIDTHS_TOLD = (
    (r"cannot be multiplied \(\d+x(?P<before>\d+) and (?P<after>\d+)x\d+\)", -1),
    (r"expected input\[[\d, ]+\] to have (?P<after>\d+) channels, but got (?P<before>\d+) channels", 1),
    (
        r"expected input with shape \[\*, (?P<after>\d+)\], but got input of size\[[\d, ]*?(?P<before>\d+)\]",
        -1,
    ),
    (
        r"tensor a \((?P<before>\d+)\) must match .* b \((?P<after>\d+)\) at non-singleton dimension (?P<axis>\d)",
        None,
    ),
    (r"spectrogram frames \((?P<before>\d+)\) must be a multiple of .*? \((?P<multiple>\d+)\)", -1),
    (r"multiple of .*? \((?P<multiple>\d+)\), but got (?P<before>\d+)", -1),
    (r"length (?P<before>\d+) is not a multiple of (?P<multiple>\d+)", -1),
)


def completed(config: Any, error: Exception) -> bool:
    """Gives a configuration the setting that an error says it lacks: what another in it has, or what its name tells.

    Checkpoints have it in their files, and no class has a default. Whether there was something to give.
    """
    match = re.search(r"'(\w+Config)' object has no attribute '(\w+)'", str(error))
    if match is None:
        return False
    others = (getattr(one, match[2], None) for one in _all_of(config))
    value = next((other for other in others if isinstance(other, int | float)), named_value(match[2]))
    lacking = [
        one for one in _all_of(config) if type(one).__name__ == match[1] and not hasattr(one, match[2])
    ]
    for one in lacking if value is not None else ():
        setattr(one, match[2], value)
    return bool(lacking) and value is not None


def _side(config: Any) -> int:
    for one in _all_of(config):
        size = getattr(one, "image_size", None) or getattr(one, "img_size", None)
        if size:
            return int(size[0] if isinstance(size, list | tuple) else size)
    return 32


def _words(config: Any, length: int) -> torch.Tensor:
    return torch.randint(3, min(setting(config, "vocab_size") or 99, 99) - 10, (2, length))


def _boxes(config: Any) -> torch.Tensor:
    low = torch.rand(2, 19, 2) / 2
    return torch.cat([low, low + torch.rand(2, 19, 2) / 2], -1)


def _bins(config: Any) -> int:
    return setting(config, "num_mel_bins", "input_feat_size", "feature_size", "mel_bins", "n_mels") or 16


def _wide(config: Any) -> int:
    return setting(config, "hidden_size", "d_model", "dim") or 64


def _n_latents(config: Any) -> int:
    return setting(config, "latent_query_num", "num_query_tokens") or 4


def _video(config: Any) -> torch.Tensor:
    frames = setting(config, "num_frames", "frames_per_clip", "max_num_frames") or _N_FRAMES
    side = _side(config)
    return torch.randn(2, min(frames, 2 * _N_FRAMES), 3, side, side)


ASKED: dict[str, Callable[[Any], torch.Tensor]] = {
    "action_embeds": lambda config: torch.randn(2, setting(config, "chunk_size") or 8, _wide(config)),
    "audio_codes": lambda config: torch.randint(
        0, 8, (2, setting(config, "num_quantizers", "num_codebooks") or 8, 12)
    ),
    "audio_mel": lambda config: torch.randn(2, 64, _bins(config)),
    "audio_mel_mask": lambda config: torch.zeros(2, 64, dtype=torch.bool),
    "bbox": _boxes,
    "classes_attention_mask": lambda config: torch.ones(4, 19, dtype=torch.long),
    "classes_input_ids": lambda config: _words(config, 19).repeat(2, 1),
    "classes_structure": lambda config: torch.tensor([2, 2]),
    "context_hidden_states": lambda config: torch.randn(2, 19, _wide(config)),
    "decoder_input_values": lambda config: torch.randn(2, 7, _bins(config)),
    "encoder_hidden_states": lambda config: torch.randn(2, 5, _wide(config)),
    "hidden_states": lambda config: torch.randn(2, 19, _wide(config)),
    "image": lambda config: torch.randn(2, 3, _side(config), _side(config)),
    "image_embeds_position_mask": lambda config: torch.arange(19).lt(_n_latents(config)).repeat(2, 1),
    "inputs_embeds": lambda config: torch.randn(2, 19, _wide(config)),
    "input_features_mask": lambda config: torch.ones(
        2, 2 * (setting(config, "max_source_positions") or 30), dtype=torch.long
    ),
    "latents": lambda config: torch.randn(2, _wide(config), 12),
    "noise_embeds": lambda config: torch.randn(2, 7, _wide(config)),
    "past_values": lambda config: torch.randn(2, 2 * (setting(config, "context_length") or 32)),
    "pixel_values_videos": _video,
    "qformer_input_ids": lambda config: _words(config, _N_WORDS_ASKED),
    "task_inputs": lambda config: _words(config, setting(config, "task_seq_len") or 19),
    "tasks_attention_mask": lambda config: torch.ones(2, 19, dtype=torch.long),
    "tasks_input_ids": lambda config: _words(config, 19),
}

# The patches of two images, of four rows, side by side, and how many they are.
_GRIDS: dict[str, list[list[int]]] = {
    "grid_thw": [[1, 4, 4], [1, 4, 8]],
    "image_grid_thw": [[1, 4, 4], [1, 4, 8]],
    "merge_sizes": [[2], [2]],
    "target_sizes": [[4, 4], [4, 8]],
}


def patches(config: Any, names: list[str]) -> Iterator[Inputs]:
    """What the image half of a model reads that takes images of any size, in the layouts that there are."""
    size = setting(config, "patch_size") or 16
    channels = setting(config, "in_channels", "in_chans", "num_channels") or 3
    frames = setting(config, "temporal_patch_size") or 1
    merged = size * (setting(config, "spatial_merge_size") or 1)
    grids = {name: torch.tensor(_GRIDS[name]) for name in names if name in _GRIDS}
    grids |= {"merge_sizes": grids["merge_sizes"].flatten()} if "merge_sizes" in grids else {}
    main = next((name for name in ("pixel_values", "hidden_states") if name in names), None)
    if main is None:
        return
    for shape in (
        (48, channels * frames * size**2),
        (48, channels, size, size),
        (48, merged, merged, channels),
        (1, channels, size, 48 * size),
    ):
        yield {main: torch.randn(shape), **grids}
    if "pixel_position_ids" in names:
        places = torch.cartesian_prod(torch.arange(4), torch.arange(4)).repeat(2, 1, 1)
        yield {main: torch.randn(2, _N_PATCHES, channels * size**2), "pixel_position_ids": places}


def corrections(config: Any, inputs: Inputs, error: Exception) -> list[Inputs]:
    """The inputs with the size that an error says one misses, in each way that it may mean; none if it says nothing.

    The first layer that reads an input knows how wide it has to be, whatever the setting is called.
    """
    text = " ".join(str(error).split())
    for pattern, axis in _WIDTHS_TOLD:
        if match := re.search(pattern, text):
            told, before = match.groupdict(), int(match["before"])
            multiple = int(told.get("multiple") or 1)
            after = int(told.get("after") or -(-before // multiple) * multiple)
            return _resized(inputs, int(told["axis"]) if axis is None else axis, before, after)
    if match := re.search(r"doesn't match model \((\d+)(?:\*(\d+))?\)", text):
        high, wide = int(match[1]), int(match[2] or match[1])
        names = [name for name, value in inputs.items() if name.startswith("pixel_values") and value.ndim > 3]
        return [{**inputs, **{name: torch.randn(*inputs[name].shape[:-2], high, wide) for name in names}}]
    if match := re.search(r"(image|video|audio) tokens do not match\D+(\d+)\D+(\d+)", text):
        return _with_words_for(config, inputs, match[1], int(match[3]))
    images = inputs.get("pixel_values")
    if "5D tensor of shape (batch_size, 2" in text and images is not None and images.ndim == 4:
        return [{**inputs, "pixel_values": images[:, None].repeat(1, 2, 1, 1, 1)}]  # two images to compare
    return []


def _with_words_for(config: Any, inputs: Inputs, kind: str, n_features: int) -> list[Inputs]:
    """As many words that stand for parts of an image as the image has parts."""
    word = setting(config, f"{kind}_token_id", f"{kind}_token_index")
    if word is None or "input_ids" not in inputs:
        return []
    words = inputs["input_ids"]
    n_each = n_features // len(words)
    parts = torch.full((len(words), n_each), word)
    longer = torch.cat([words[:, :1], parts, words[:, 1:]], 1)
    same = {name: torch.ones_like(longer) for name in ("attention_mask",) if name in inputs}
    return [{**inputs, **same, "input_ids": longer}]


def _resized(inputs: Inputs, axis: int, before: int, after: int) -> list[Inputs]:
    """All inputs that have one size at an axis with another, and each of them alone."""
    fitting: Inputs = {}
    masks: Inputs = {}
    for name, value in inputs.items():
        if -value.ndim <= axis < value.ndim and value.shape[axis] == before:
            shape = [*value.shape[:axis], after, *value.shape[axis:][1:]]
            if value.is_floating_point():
                fitting[name] = torch.randn(shape)
            elif name.endswith("_mask"):
                masks[name] = torch.ones(shape, dtype=value.dtype)
    if not fitting:
        return []
    alone = [{**inputs, name: value} for name, value in fitting.items()] if len(fitting) > 1 else []
    return [{**inputs, **fitting}, *([{**inputs, **fitting, **masks}] if masks else []), *alone]
