"""Statements of random programs about images and their rows: norms over channels, memory formats, residuals."""

from __future__ import annotations

from tests.fuzz.arguments import Content, Role
from tests.fuzz.convolutions import (
    convolution,
    convolution_of_rows,
    convolution_of_volumes,
    is_image,
    is_rows,
    pool,
    resize,
)
from tests.fuzz.operands import is_float
from tests.fuzz.programs import Writer
from tests.fuzz.statements import binary, join, norm, reduction, unary, view


def norm_of_channels(writer: Writer) -> bool:
    """Batch, group, instance and layer norms, with weights or without."""
    x = writer.choose(is_image)
    if x is None:
        return False
    draw, value = writer.draw, writer[x]
    batch, channels = value.shape[:2]
    dtype = value.dtype
    weight = bias = "None"
    if draw.random() < 0.75:
        weight, bias = writer.weight([channels], dtype=dtype), writer.weight([channels], dtype=dtype)
    groups = draw.choice([d for d in range(1, channels + 1) if channels % d == 0])
    last = f"F.layer_norm({x.name}.permute(0, 2, 3, 1), ({channels},), {weight}, {bias})"
    kinds = [
        f"F.group_norm({x.name}, {groups}, {weight}, {bias})",
        # Of one image eager's derivative on the CPU is wrong where its gradient lies by rows.
        f"F.instance_norm({x.name}, weight={weight if batch > 1 else None}, bias={bias if batch > 1 else None})",
        f"F.layer_norm({x.name}, {tuple(value.shape[1:])})",
        last,
        f"{last}.permute(0, 3, 1, 2)",
        f"{last}.permute(0, 3, 1, 2).contiguous()",
        f"F.layer_norm({x.name}.flatten(2).transpose(1, 2), ({channels},), {weight}, {bias})",
        f"F.local_response_norm({x.name}, 3)",
        f"F.normalize({x.name}, dim=1)",
        f"F.rms_norm({x.name}.movedim(1, -1), ({channels},)).movedim(-1, 1)",
        f"F.softmax({x.name}, 1)",
        f"F.batch_norm({x.name}, None, None, {weight}, {bias}, training=True)",
    ]
    if draw.random() < 0.4:
        mean = writer.weight([channels], role=Role.BUFFER, dtype=dtype)
        variance = writer.weight([channels], Content.POSITIVE, Role.BUFFER, dtype=dtype)
        # In training it writes into both.
        training = draw.random() < 0.5 and mean not in writer.needed
        kinds = [f"F.batch_norm({x.name}, {mean}, {variance}, {weight}, {bias}, training={training})"]
    return writer.add(draw.choice(kinds), False, is_bounded=True)


def layout(writer: Writer) -> bool:
    """The same images, laid out otherwise."""
    x = writer.choose(is_image)
    if x is None:
        return False
    draw, value = writer.draw, writer[x]
    _, channels, height, width = value.shape
    first, half = draw.randrange(channels), max(1, channels // 2)
    forms = [
        f"{x.name}.to(memory_format=torch.channels_last)",
        f"{x.name}.contiguous(memory_format=torch.channels_last)",
        f"{x.name}.contiguous()",
        f"{x.name}.permute(0, 2, 3, 1)",
        f"{x.name}.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)",
        f"{x.name}.permute(0, 3, 1, 2)",
        f"{x.name}.transpose(2, 3)",
        f"{x.name}.transpose(1, 3).contiguous()",
        f"{x.name}[:, {first}:]",
        f"{x.name}[:, ::2]",
        f"{x.name}[:, :, ::2, 1:]",
        f"{x.name}.chunk(2, 1)[{draw.choice((0, -1))}]",
        f"torch.cat({x.name}.chunk(2, 1)[::-1], 1)",
        f"torch.cat([{x.name}.split({half}, 1)[0], {x.name}.split({half}, 1)[-1] * 2], 1)",
        f"torch.cat([{x.name}, {x.name}.flip(2)], 1)",
        f"{x.name}[:, :1].expand(-1, {draw.choice((2, 4, 72))}, -1, -1)",
        f"{x.name}.mean((2, 3), keepdim=True).expand_as({x.name})",
        f"{x.name}.roll((-1, -1), (2, 3))",
        f"{x.name}.flip({draw.choice((1, 2, 3))})",
        f"F.pad({x.name}, (0, 1, 1, 0))",
        f"{x.name}.repeat(1, 2, 1, 1)",
        f"{x.name}.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)",
        f"{x.name}.unflatten(1, (2, -1)).sum(1)",
        f"{x.name}.reshape(-1, {channels}, 1, {height * width})",
        f"F.dropout({x.name}, 0.0, training=True)",
        f"F.dropout2d({x.name}, 0.0, training=True)",
        f"{x.name}.as_strided({tuple(value.shape)}, {tuple(value.contiguous().stride())})"
        if value.is_contiguous()
        else f"{x.name}.clone(memory_format=torch.contiguous_format)",
    ]
    return writer.add(draw.choice(forms), x.is_exact, is_bounded=True)


def rows_of_images(writer: Writer) -> bool:
    """Pixels, or windows of them, as rows."""
    x = writer.choose(is_image)
    if x is None:
        return False
    draw, value = writer.draw, writer[x]
    batch, channels, height, width = value.shape
    forms = [
        f"{x.name}.flatten(2).transpose(1, 2)",
        f"{x.name}.flatten(2).transpose(1, 2).contiguous()",
        f"{x.name}.permute(0, 2, 3, 1).reshape({batch}, -1, {channels})",
        f"{x.name}.permute(0, 2, 3, 1).reshape(1, -1, {channels})",
        f"{x.name}.flatten(2).permute(2, 0, 1)",
        f"{x.name}.flatten(2)",
        f"{x.name}.flatten(0, 1)",
        f"{x.name}.mean((2, 3))[:, None]",
    ]
    for high in (2, 3):
        if height % high == 0 and width % 2 == 0:
            cut = f"view({batch}, {channels}, {height // high}, {high}, {width // 2}, 2)"
            forms.append(f"{x.name}.{cut}.permute(0, 2, 4, 3, 5, 1).reshape(-1, {high * 2}, {channels})")
            forms.append(
                f"{x.name}.reshape{cut[4:]}.permute(0, 2, 4, 3, 5, 1).reshape(-1, {high * 2}, {channels})"
            )
            forms.append(
                f"{x.name}.{cut}.permute(0, 3, 5, 2, 4, 1).flatten(3, 4).flatten(1, 2).flatten(0, 1)"
            )
    return writer.add(draw.choice(forms), x.is_exact, is_bounded=True)


def images_of_rows(writer: Writer) -> bool:
    """Rows as images again: in the order of pixels, or of windows."""
    x = writer.choose(is_rows)
    if x is None:
        return False
    draw, value = writer.draw, writer[x]
    batch, n_rows, channels = value.shape
    high = draw.choice([d for d in range(1, n_rows + 1) if n_rows % d == 0])
    wide = n_rows // high
    forms = [
        f"{x.name}.transpose(1, 2).reshape({batch}, {channels}, {high}, {wide})",
        f"{x.name}.transpose(1, 2).unflatten(2, ({high}, {wide}))",
        f"{x.name}.transpose(1, 2).contiguous().view({batch}, {channels}, {high}, {wide})",
        f"{x.name}.view({batch}, {high}, {wide}, {channels}).permute(0, 3, 1, 2)",
        f"{x.name}.reshape({batch}, {high}, {wide}, {channels}).permute(0, 3, 1, 2).contiguous()",
        f"{x.name}.view({batch}, {high}, {wide}, {channels})",
        f"{x.name}.reshape({batch}, {channels}, {high}, {wide})",
        f"{x.name}.transpose(1, 2).reshape({batch * channels}, 1, {high}, {wide})",
    ]
    if batch % 4 == 0:
        windows = f"view({batch // 4}, 2, 2, {high}, {wide}, {channels})"
        shape = f"{batch // 4}, {channels}, {2 * high}, {2 * wide}"
        forms.append(f"{x.name}.{windows}.permute(0, 5, 1, 3, 2, 4).reshape({shape})")
        forms.append(f"{x.name}.{windows}.permute(0, 5, 3, 1, 4, 2).reshape({shape})")
        rows = f"{batch // 4}, {2 * high}, {2 * wide}, {channels}"
        forms.append(f"{x.name}.{windows}.permute(0, 1, 3, 2, 4, 5).reshape({rows}).permute(0, 3, 1, 2)")
    return writer.add(draw.choice(forms), x.is_exact, is_bounded=True)


def linear(writer: Writer) -> bool:
    """The last dimension's numbers times a matrix."""
    x = writer.choose(lambda t: is_float(t) and 2 < t.dim() < 5 and t.numel() > 0)
    if x is None:
        return False
    size, dtype = writer[x].shape[-1], writer[x].dtype
    out = writer.draw.choice((size, size, 2 * size, 4, 8))
    bias = writer.weight([out], dtype=dtype) if writer.draw.random() < 0.6 else "None"
    if writer[x].numel() * out > 4_000_000:
        return False
    return writer.add(
        f"F.linear({x.name}, {writer.weight([out, size], dtype=dtype)}, {bias})", False, is_bounded=True
    )


def residual(writer: Writer) -> bool:
    """Sums and products of values of one shape that may lie otherwise, and of channels with a number for each."""
    x = writer.choose(lambda t: is_float(t) and t.dim() in (3, 4))
    if x is None:
        return False
    draw, value = writer.draw, writer[x]
    alike = writer.choose(lambda t: t.shape == value.shape and is_float(t)) or x
    both = f"{x.name}", f"{alike.name}"
    forms = [
        "{0} + {1}",
        "{1} + F.relu({0})",
        "{0} * {1}.sigmoid()",
        "{0} + 0.5 * {1}",
        "torch.cat([{0}, {1}], 1)",
        "torch.where({0} > 0.1, {1}, {0})" if x.is_exact else "{1} - {0}",
    ]
    if value.dim() == 4:
        channels = value.shape[1]
        w = writer.weight([channels, 1, 1], dtype=value.dtype)
        forms += [
            f"{{0}} * {w} + {{1}}",
            "{0} * {1}.mean((2, 3), keepdim=True).sigmoid()",
            f"{{0}} + {writer.weight([1, channels, *value.shape[2:]], dtype=value.dtype)}",
            "{0} + {1}.amax((2, 3), keepdim=True)" if value.dtype.itemsize > 2 else "{0} * {1}",
        ]
    return writer.add(draw.choice(forms).format(*both), False)


def activation(writer: Writer) -> bool:
    """What stands between layers."""
    x = writer.choose(lambda t: is_float(t) and t.dim() > 2)
    if x is None:
        return False
    draw, value = writer.draw, writer[x]
    words = [
        "relu",
        "gelu",
        "silu",
        "leaky_relu",
        "hardswish",
        "relu6",
        "mish",
        "sigmoid",
        "hardsigmoid",
        "elu",
    ]
    forms = [f"F.{word}({x.name})" for word in words]
    if value.dim() == 4:
        forms.append(f"F.prelu({x.name}, {writer.weight([value.shape[1]], dtype=value.dtype)})")
        forms.append(f"F.glu({x.name}, 1)")
    return writer.add(draw.choice(forms), False)


IMAGE_STATEMENTS = (
    *(convolution,) * 7,
    *(convolution_of_rows, convolution_of_volumes, pool, pool, pool, resize, resize),
    *(norm_of_channels,) * 4,
    *(layout,) * 5,
    *(rows_of_images, rows_of_images, images_of_rows, images_of_rows, images_of_rows),
    *(linear, linear, residual, residual, residual, residual, activation, activation, activation),
    *(unary, binary, view, join, norm, reduction),
)
