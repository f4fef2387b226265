"""Statements of random programs about convolutions, in all of their forms, and about what resizes images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tests.fuzz.arguments import Content, Layout
from tests.fuzz.image_arguments import CHANNELS
from tests.fuzz.operands import is_float
from tests.fuzz.programs import Writer

_MOST_WORK = 6_000_000  # multiplications of one statement


def is_image(value: Tensor) -> bool:
    """(batch, channels, height, width)."""
    return value.dim() == 4 and is_float(value) and value.numel() > 0


def is_rows(value: Tensor) -> bool:
    """(batch, row, channels)."""
    return value.dim() == 3 and is_float(value) and value.numel() > 0


def _divisors(number: int, other: int) -> list[int]:
    return [d for d in range(1, min(number, other) + 1) if number % d == 0 and other % d == 0]


def _per_dim(writer: Writer, n_dims: int, choices: Sequence[int]) -> str:
    """One number for all dimensions, or one of each."""
    if writer.draw.random() < 0.8:
        return str(writer.draw.choice(choices))
    return str(tuple(writer.draw.choice(choices) for _ in range(n_dims)))


def _options(writer: Writer, n_dims: int, kernel: Sequence[int], groups: int) -> str:
    draw = writer.draw
    same = [size // 2 for size in kernel]
    words = []
    if draw.random() < 0.7:
        words.append(f"padding={tuple(same) if len(set(same)) > 1 else same[0]}")
    elif draw.random() < 0.6:
        words.append(f"padding={_per_dim(writer, n_dims, (0, 1, 2))}")
    if draw.random() < 0.3:
        words.append(f"stride={_per_dim(writer, n_dims, (1, 2, 3))}")
    if draw.random() < 0.15:
        words.append(f"dilation={_per_dim(writer, n_dims, (1, 2))}")
    if groups > 1:
        words.append(f"groups={groups}")
    return "".join(f", {word}" for word in words)


def _groups(writer: Writer, channels: int, out: int) -> int:
    kind = writer.draw.random()
    if kind < 0.6:
        return 1
    return writer.draw.choice(_divisors(channels, out)) if kind < 0.85 else _divisors(channels, out)[-1]


def _kernel(writer: Writer, n_dims: int) -> list[int]:
    size = writer.draw.choice((1, 1, 2, 3, 3, 3, 5))
    if writer.draw.random() < 0.85:
        return [size] * n_dims
    return [writer.draw.choice((1, 2, 3, 5)) for _ in range(n_dims)]


def _weight(writer: Writer, shape: Sequence[int], dtype: torch.dtype) -> str:
    layout = Layout.CHANNELS_LAST if writer.draw.random() < 0.15 else Layout.CONTIGUOUS
    return writer.weight(shape, Content.WEIGHT, layout=layout, dtype=dtype)


def _bias(writer: Writer, size: int, dtype: torch.dtype) -> str:
    return writer.weight([size], dtype=dtype) if writer.draw.random() < 0.5 else "None"


def _fits(value: Tensor, out: int, per_group: int, kernel: Sequence[int]) -> bool:
    work = value.numel() // value.shape[1] * out * per_group
    for size in kernel:
        work *= size
    return work <= _MOST_WORK


def _padded(writer: Writer, name: str, n_dims: int) -> str:
    """The images, at times with a border that F.pad makes."""
    draw = writer.draw
    if draw.random() < 0.85:
        return name
    edges = [draw.randint(0, 2) for _ in range(2 * n_dims)]
    mode = draw.choice(("constant", "reflect", "replicate", "circular"))
    return f'F.pad({name}, {tuple(edges)}, mode="{mode}")'


def convolution(writer: Writer) -> bool:
    """Over images."""
    x = writer.choose(is_image)
    return x is not None and _convolution(writer, x.name, writer[x], 2)


def convolution_of_rows(writer: Writer) -> bool:
    """Over rows, which are the positions of a line."""
    x = writer.choose(is_rows)
    if x is None:
        return False
    if writer.draw.random() < 0.5:
        return _convolution(writer, f"{x.name}.transpose(1, 2)", writer[x].transpose(1, 2), 1)
    return _convolution(writer, x.name, writer[x], 1)


def convolution_of_volumes(writer: Writer) -> bool:
    """Over images as volumes: one deep, or of images that follow each other."""
    x = writer.choose(is_image)
    if x is None:
        return False
    value = writer[x]
    batch, channels, height, width = value.shape
    forms = [f"{x.name}[:, :, None]"]
    if height % 2 == 0:
        forms.append(f"{x.name}.view({batch}, {channels}, 2, {height // 2}, {width})")
    if channels % 2 == 0:
        forms.append(f"{x.name}.unflatten(1, (-1, 2))")
    forms.append(f"{x.name}[None].transpose(1, 2)")
    if not writer.add(writer.draw.choice(forms), False):
        return False
    made = writer.known[-1]
    if not _convolution(writer, made.name, writer[made], 3):
        return True
    result = writer.known[-1]
    shape = tuple(writer[result].shape)
    back = [f"{result.name}.flatten(2, 3)", f"{result.name}.sum(2)", f"{result.name}.flatten(1, 2)"]
    return shape[0] > 0 and writer.add(writer.draw.choice(back), False)


def _convolution(writer: Writer, name: str, value: Tensor, n_dims: int) -> bool:
    draw, channels = writer.draw, value.shape[1]
    kernel = _kernel(writer, n_dims)
    is_transposed = draw.random() < 0.2
    out = channels if draw.random() < 0.4 else draw.choice(CHANNELS)
    groups = _groups(writer, channels, out)
    if not _fits(value, out, channels // groups, kernel):
        return False
    options = _options(writer, n_dims, kernel, groups)
    bias = _bias(writer, out, value.dtype)
    if is_transposed:
        weight = _weight(writer, [channels, out // groups, *kernel], value.dtype)
        more = ", output_padding=1" if "stride=2" in options and draw.random() < 0.5 else ""
        word = f"conv_transpose{n_dims}d"
        return writer.add(f"F.{word}({name}, {weight}, {bias}{options}{more})", False, is_bounded=True)
    weight = _weight(writer, [out, channels // groups, *kernel], value.dtype)
    images = _padded(writer, name, n_dims)
    if draw.random() < 0.05 and "stride" not in options:
        options = ', padding="same"' + (f", groups={groups}" if groups > 1 else "")
    return writer.add(f"F.conv{n_dims}d({images}, {weight}, {bias}{options})", False, is_bounded=True)


def pool(writer: Writer) -> bool:
    """The largest or the mean of windows."""
    x = writer.choose(is_image)
    if x is None:
        return False
    draw, value = writer.draw, writer[x]
    size = draw.choice(("2", "3", "(1, 2)", "(2, 1)", "(3, 2)"))
    more = draw.choice(("", "", ", stride=1", ", stride=2", ", stride=(2, 1)"))
    more += draw.choice(("", "", ", padding=1"))
    more += draw.choice(("", "", ", ceil_mode=True"))
    counted = draw.choice(
        ("", ", count_include_pad=False", ", count_include_pad=False", ", divisor_override=3")
    )
    to = draw.choice(("1", "2", "3", "(1, 2)", "(None, 1)"))
    forms = [
        f"F.avg_pool2d({x.name}, {size}{more}{counted})",
        f"F.avg_pool2d({x.name}, {size}{more}{counted})",
        f"F.adaptive_avg_pool2d({x.name}, {to})",
        f"F.lp_pool2d({x.name}.abs() + 0.1, 2, 2)",
        f"F.avg_pool1d({x.name}.flatten(2), 2)",
        f"F.avg_pool3d({x.name}[:, None], (1, 2, 2){more.replace('(2, 1)', '1')}).squeeze(1)",
    ]
    # Of two numbers that are nearly one, rounding would say which is the larger.
    if value.dtype.itemsize > 2:
        forms += [
            f"F.max_pool2d({x.name}, {size}{more})",
            f"F.max_pool2d({x.name}, {size}{more})",
            f"F.max_pool2d({x.name}, 3, stride=1, padding=1, dilation=1)",
            f"F.max_pool2d({x.name}, 2, stride=1, dilation=2)",
            f"F.adaptive_max_pool2d({x.name}, {to})",
            f"F.max_pool3d({x.name}[None], (1, 2, 2))[0]",
            f"F.max_pool1d({x.name}.flatten(2), 2)",
        ]
    return writer.add(draw.choice(forms), False, is_bounded=True)


def resize(writer: Writer) -> bool:
    """Other heights and widths, by what lies near or between, or out of channels."""
    x = writer.choose(is_image)
    if x is None:
        return False
    draw, value = writer.draw, writer[x]
    height, width = value.shape[2:]
    to = draw.choice((f"({height}, {2 * width})", "(3, 5)", f"({max(1, height // 2)}, {width + 1})", "4"))
    how = draw.choice((f"size={to}", f"size={to}", "scale_factor=2", "scale_factor=0.5", "scale_factor=1.5"))
    aligned = draw.choice(("", ", align_corners=True", ", align_corners=False"))
    grid = f"torch.tanh({x.name}[:, :2].permute(0, 2, 3, 1))" if value.shape[1] > 1 else ""
    mode = draw.choice(("bilinear", "nearest", "bicubic"))
    outside = draw.choice(("zeros", "border", "reflection"))
    forms = [
        f"F.interpolate({x.name}, {how})",
        f'F.interpolate({x.name}, {how}, mode="bilinear"{aligned})',
        f'F.interpolate({x.name}, {how}, mode="bicubic"{aligned})',
        f'F.interpolate({x.name}, {how}, mode="nearest-exact")',
        f'F.interpolate({x.name}, {how}, mode="area")',
        f'F.interpolate({x.name}, {how}, mode="bilinear", antialias=True)',
        f"F.pixel_shuffle({x.name}, 2)",
        f"F.pixel_unshuffle({x.name}, 2)",
        f"F.channel_shuffle({x.name}, 2)",
        f"F.unfold({x.name}, 2, stride={draw.choice((1, 2))})",
        f"F.unfold({x.name}, 3, padding=1)",
        f"F.fold(F.unfold({x.name}, 3, padding=1), ({height}, {width}), 3, padding=1)",
        f"F.fold(F.unfold({x.name}, 2, stride=2), ({height}, {width}), 2, stride=2)",
    ]
    if grid and mode != "nearest":
        forms.append(f'F.grid_sample({x.name}, {grid}, mode="{mode}", padding_mode="{outside}"{aligned})')
    return writer.add(draw.choice(forms), False, is_bounded=True)
