"""What programs of images are given: images in several memory formats, some of their rows, and what scales channels."""

from __future__ import annotations

import random

import torch

from tests.fuzz.arguments import Argument, Content, Layout

# Two of them are more than convolutions take before longhand lays their images channels last.
CHANNELS = (1, 2, 3, 4, 6, 8, 12, 66, 68, 72)
_SIDES = (1, 2, 3, 4, 5, 6, 7, 8)
_LAYOUTS = (
    *(Layout.CONTIGUOUS, Layout.CONTIGUOUS, Layout.CONTIGUOUS, Layout.CHANNELS_LAST, Layout.CHANNELS_LAST),
    *(Layout.TRANSPOSED, Layout.SLICED, Layout.OFFSET, Layout.PART_OF_CHANNELS),
)


def draw_image_arguments(draw: random.Random, train: bool) -> list[Argument]:
    """Images, then up to three tensors that fit them."""
    batch, channels = draw.choice((1, 2, 2, 3)), draw.choice(CHANNELS)
    height = draw.choice(_SIDES)
    width = height if draw.random() < 0.6 else draw.choice(_SIDES)
    dtype = draw.choice((torch.float32,) * 7 + (torch.bfloat16, torch.float64))
    shapes = [
        (batch, channels, height, width),
        (batch, channels, height, width),
        (batch, height * width, channels),
        (batch, height, width, channels),
        (batch, channels, 1, 1),
        (channels, 1, 1),
    ]
    chosen = [shapes[0], *draw.sample(shapes[1:], draw.randint(0, 2))]
    found = []
    for number, shape in enumerate(chosen):
        trains = train and (number == 0 or draw.random() < 0.7)
        if train and number == 0 and draw.random() < 0.3:
            trains = False  # pictures have no gradient: weights have
        layout = draw.choice(_LAYOUTS)
        found.append(Argument(f"x{number}", dtype, shape, layout, Content.NORMAL, trains))
    return found
