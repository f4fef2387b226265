"""The gradients of parameters, by their names: ``{"embed.weight": d_embed_weight, **of_layers("h", d_h)}``."""

from __future__ import annotations

from collections.abc import Sequence

from longhand.emit.text.quoting import python_string
from longhand.schedule.named_plan import GradientGroup, GradientsInTurn, GradientsOfModule, OneGradient

OF_LAYERS = "of_layers"  # runtime.py's
OF_MODULE = "of_module"


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
    if isinstance(group, GradientsOfModule):
        return f"**{OF_MODULE}({python_string(group.path)}, {group.word})"
    if isinstance(group, GradientsInTurn):
        return _in_turn(group)
    without = f"[{', '.join(map(python_string, group.without))}]"
    given = [python_string(group.owner), group.word, *([f"without={without}"] if group.without else [])]
    return f"**{OF_LAYERS}({', '.join(given)})"


def _in_turn(group: GradientsInTurn) -> str:
    """``**{f"h.{n}.norm.bias": d_h[n + 1]["bias"] for n in range(0, 9, 3)}``"""
    step = f", {group.layers.step}" if group.layers.step != 1 else ""
    start = f"{group.layers.start}, " if group.layers.start or step else ""
    behind = f"n + {group.shift}" if group.shift > 0 else f"n - {-group.shift}" if group.shift else "n"
    name = python_string(f"{group.owner}.{{n}}.{group.path}")
    each = f"{group.word}[{behind}][{python_string(group.key)}]"
    return f"**{{f{name}: {each} for n in range({start}{group.layers.stop}{step})}}"
