"""The gradients that a backward pass returns; those of layers are told together, in a loop over the layers."""

from __future__ import annotations

from collections.abc import Sequence

from longhand.schedule.named_plan import GradientGroup, GradientsAlike, GradientsOfLoop


def write_gradients(groups: Sequence[GradientGroup], texts: Sequence[str]) -> list[str]:
    """What is returned, in order.

    Args:
        groups: Which gradients are told together.
        texts: How each result of the backward graph is reached.
    """
    return [_written(group, texts) for group in groups]


def _written(group: GradientGroup, texts: Sequence[str]) -> str:
    match group:
        case GradientsOfLoop(word, first, last, step):
            steps = f", {step}" if step > 1 else ""
            layers = (
                f"range(len({word}))" if first == 0 and step == 1 else f"range({first}, {last + 1}{steps})"
            )
            return f"*(gradient for layer in {layers} for gradient in {word}[layer])"
        case GradientsAlike(first, n_layers):
            layers = f"range({first}, {first + n_layers})" if first else f"range({n_layers})"
            return f"*(gradient for layer in {layers} for gradient in ({', '.join(_slices(group))}))"
    return texts[group]


def _slices(alike: GradientsAlike) -> list[str]:
    """``d_blocks[layer][0]``, ``*d_blocks[layer][2:9]``"""
    entries = alike.entries
    slices = []
    begin = 0
    while begin < len(entries):
        word, later, place = entries[begin]
        end = begin
        while end < len(entries) and entries[end] == (word, later, place + end - begin):
            end += 1
        layer = f"layer {'+' if later > 0 else '-'} {abs(later)}" if later else "layer"
        is_single = end == begin + 1
        slices.append(
            f"{word}[{layer}][{place}]" if is_single else f"*{word}[{layer}][{place}:{place + end - begin}]"
        )
        begin = end
    return slices
