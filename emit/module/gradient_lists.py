"""The gradients of parameters, by their names: ``{"embed.weight": d_embed_weight, **of_layers("h", d_h)}``."""

from __future__ import annotations

from collections.abc import Sequence

from longhand.emit.text.quoting import python_string
from longhand.schedule.named_plan import GradientGroup, OneGradient

OF_LAYERS = "of_layers"  # runtime.py's


def write_gradients(groups: Sequence[GradientGroup], texts: Sequence[str]) -> str:
    """The dictionary, in order.

    Args:
        groups: One gradient each, or all those of some layers.
        texts: How each result of the backward graph is reached.
    """
    return f"{{{', '.join(_written(group, texts) for group in groups)}}}"


def _written(group: GradientGroup, texts: Sequence[str]) -> str:
    if isinstance(group, OneGradient):
        return f"{python_string(group.path)}: {texts[group.place]}"
    return f"**{OF_LAYERS}({python_string(group.owner)}, {group.word})"
