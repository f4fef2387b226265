"""Statements of random programs about rows of tokens: projections, heads, attention in many forms, losses."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from tests.fuzz.arguments import Argument, Content, Layout
from tests.fuzz.operands import is_float, is_whole
from tests.fuzz.programs import Writer
from tests.fuzz.statements import binary, join, norm, reduction, unary, view

_DIMS = (8, 12, 16, 24, 32)


def draw_token_arguments(draw: random.Random, train: bool) -> list[Argument]:
    """Rows of numbers or of tokens, and what masks them."""
    batch, seq, dim = draw.choice((1, 2, 2, 3)), draw.choice((1, 3, 4, 5, 8, 13, 16)), draw.choice(_DIMS)
    dtype = draw.choice((torch.float32,) * 7 + (torch.bfloat16, torch.float64))
    layouts = (Layout.CONTIGUOUS,) * 4 + (Layout.TRANSPOSED, Layout.SLICED, Layout.OFFSET)
    rows = Argument(
        "x0", dtype, (batch, seq, dim), draw.choice(layouts), trains=train and draw.random() < 0.7
    )
    other = draw.choice((seq, seq, 4, 7))
    choices = [
        Argument(
            "x1", dtype, (batch, other, dim), draw.choice(layouts), trains=train and draw.random() < 0.7
        ),
        Argument("x1", torch.bool, (batch, seq)),
        Argument("x1", torch.int64, (batch, seq)),
        Argument("x1", dtype, (seq, seq), trains=train and draw.random() < 0.5),
        Argument("x1", dtype, (1, 1, seq, seq), trains=False),
    ]
    found = [rows]
    for number, one in enumerate(draw.sample(choices, draw.randint(0, 2))):
        found.append(Argument(f"x{number + 1}", one.dtype, one.shape, one.layout, Content.NORMAL, one.trains))
    if train and not any(argument.trains for argument in found):
        found[0] = Argument("x0", dtype, rows.shape, rows.layout, trains=True)
    return found


def is_tokens(value: Tensor) -> bool:
    """(batch, row, channels)."""
    return value.dim() == 3 and is_float(value) and value.numel() > 0


def is_heads(value: Tensor) -> bool:
    """(batch, heads, row, channels)."""
    return value.dim() == 4 and is_float(value) and value.numel() > 0 and value.shape[1] <= 16


def _heads(writer: Writer, dim: int) -> int:
    return writer.draw.choice([n for n in (1, 2, 3, 4, 8) if dim % n == 0])


def linear(writer: Writer) -> bool:
    """A layer, and the same weight turned."""
    x = writer.choose(lambda t: is_float(t) and 1 < t.dim() < 5 and 0 < t.shape[-1] <= 128 and t.numel() > 0)
    if x is None:
        return False
    draw, dtype, size = writer.draw, writer[x].dtype, writer[x].shape[-1]
    out = draw.choice((size, size, 2 * size, *_DIMS))
    bias = writer.weight([out], dtype=dtype) if draw.random() < 0.5 else "None"
    weight = writer.weight([out, size], dtype=dtype)
    forms = [
        f"F.linear({x.name}, {weight}, {bias})",
        f"F.linear({x.name}, {weight}, {bias})",
        f"{x.name} @ {writer.weight([size, out], dtype=dtype)}",
        f"{x.name} @ {weight}.t()",
        f"F.linear(F.relu(F.linear({x.name}, {weight}, {bias})), {weight}.t())",
        f"F.linear({x.name}, F.normalize({weight}, dim=1), {bias})",
        f'torch.einsum("...d,ed->...e", {x.name}, {weight})',
        f"F.linear({x.name}, {weight}[: {max(1, out // 2)}])",
    ]
    return writer.add(draw.choice(forms), False, is_bounded=True)


def heads_of_rows(writer: Writer) -> bool:
    """Queries, keys and values out of one product, in one of the ways in which people write it; or heads alone."""
    x = writer.choose(lambda t: is_tokens(t) and t.shape[-1] <= 64)
    if x is None:
        return False
    draw, value = writer.draw, writer[x]
    batch, seq, dim = value.shape
    heads = _heads(writer, dim)
    per, dtype = dim // heads, value.dtype
    if draw.random() < 0.3:
        view_of = draw.choice((f"view({batch}, {seq}, {heads}, {per})", f"unflatten(2, ({heads}, {per}))"))
        order = draw.choice(("transpose(1, 2)", "permute(0, 2, 1, 3)", "transpose(1, 2).contiguous()"))
        return writer.add(f"{x.name}.{view_of}.{order}", x.is_exact)
    bias = writer.weight([3 * dim], dtype=dtype) if draw.random() < 0.5 else "None"
    if not writer.add(f"F.linear({x.name}, {writer.weight([3 * dim, dim], dtype=dtype)}, {bias})", False):
        return False
    made = writer.known[-1].name
    kind = draw.randrange(5)
    for place in range(3):
        forms = [
            f"{made}.chunk(3, -1)[{place}].view({batch}, {seq}, {heads}, {per}).transpose(1, 2)",
            f"{made}.view({batch}, {seq}, 3, {heads}, {per}).permute(2, 0, 3, 1, 4)[{place}]",
            f"{made}.view({batch}, {seq}, 3, {heads}, {per}).unbind(2)[{place}].transpose(1, 2)",
            f"{made}.view({batch}, {seq}, {heads}, {3 * per}).transpose(1, 2).chunk(3, -1)[{place}]",
            f"{made}[..., {place * dim}:{(place + 1) * dim}].reshape({batch}, {seq}, {heads}, {per}).transpose(1, 2)",
        ]
        writer.add(forms[kind], False)
    return True


def attention(writer: Writer) -> bool:
    """Of heads, by the library's call or by hand."""
    q = writer.choose(is_heads)
    if q is None:
        return False
    draw, value = writer.draw, writer[q]
    batch, heads, seq, per = value.shape

    def fits(t: Tensor) -> bool:
        return is_heads(t) and t.dtype is value.dtype and t.shape[:2] == value.shape[:2] and t.shape[3] == per

    k = writer.choose(fits) or q
    n_keys = writer[k].shape[2]
    v = writer.choose(lambda t: fits(t) and t.shape[2] == n_keys) or k
    three = f"{q.name}, {k.name}, {v.name}"
    scale = f"{per**-0.5:.4g}"
    device = f"device={q.name}.device"
    lower = f"torch.ones({seq}, {n_keys}, dtype=torch.bool, {device}).tril()"
    window = f"({lower} & torch.ones({seq}, {n_keys}, dtype=torch.bool, {device}).triu(-2))"
    scores = f"{q.name} @ {k.name}.transpose(-2, -1) * {scale}"
    forms = [
        f"F.scaled_dot_product_attention({three})",
        f"F.scaled_dot_product_attention({three}, is_causal=True)",
        f"F.scaled_dot_product_attention({three}, scale=0.3)",
        f"F.scaled_dot_product_attention({three}, attn_mask={lower})",
        f"F.scaled_dot_product_attention({three}, attn_mask={window})",
        f"torch.softmax({scores}, -1) @ {v.name}",
        f"F.dropout(({scores}).softmax(-1), 0.0, training=True) @ {v.name}",
        f'({scores}).masked_fill(~{lower}, float("-inf")).softmax(-1) @ {v.name}',
        f"({scores}).masked_fill(~{window}, torch.finfo({q.name}.dtype).min).softmax(-1) @ {v.name}",
        f"({scores}).float().softmax(-1).to({q.name}.dtype) @ {v.name}",
        f'torch.einsum("bhqk,bhkd->bhqd", torch.einsum("bhqd,bhkd->bhqk", {q.name}, {k.name}).softmax(-1), {v.name})',
        f"({scores}).softmax(-1)",
        f"F.normalize({q.name}, dim=-1) @ F.normalize({k.name}, dim=-1).transpose(-2, -1)",
        f"{q.name}.softmax(-1) @ ({k.name}.softmax(-2).transpose(-2, -1) @ {v.name})",
    ]
    table = writer.weight([1, heads, seq, n_keys], dtype=value.dtype)
    forms.append(f"F.scaled_dot_product_attention({three}, attn_mask={table})")
    forms.append(f"({scores} + {table}).softmax(-1) @ {v.name}")
    mask = writer.choose(lambda t: t.dtype is torch.bool and t.dim() == 2 and t.shape == (batch, n_keys))
    if mask is not None:
        keep = f"({mask.name} | (torch.arange({n_keys}, {device}) == 0))[:, None, None]"
        forms.append(f"F.scaled_dot_product_attention({three}, attn_mask={keep})")
        forms.append(f"F.scaled_dot_product_attention({three}, attn_mask={keep} & {lower})")
        forms.append(f'({scores}).masked_fill(~{keep}, float("-inf")).softmax(-1) @ {v.name}')
    bias = writer.choose(lambda t: is_float(t) and t.shape[-2:] == (seq, n_keys) and t.dtype is value.dtype)
    if bias is not None:
        forms.append(f"F.scaled_dot_product_attention({three}, attn_mask={bias.name})")
        forms.append(f"({scores} + {bias.name}).softmax(-1) @ {v.name}")
    if heads % 2 == 0:
        grouped = f"{q.name}, {k.name}[:, ::2], {v.name}[:, : {heads // 2}]"
        forms.append(f"F.scaled_dot_product_attention({grouped}, enable_gqa=True)")
        repeated = f"{k.name}[:, ::2].repeat_interleave(2, 1)"
        expanded = f"{v.name}[:, :{heads // 2}, None].expand(-1, -1, 2, -1, -1).flatten(1, 2)"
        forms.append(f"F.scaled_dot_product_attention({q.name}, {repeated}, {expanded})")
    return writer.add(draw.choice(forms), False, is_bounded=True)


def rows_of_heads(writer: Writer) -> bool:
    """Heads side by side again."""
    x = writer.choose(is_heads)
    if x is None:
        return False
    batch, heads, seq, per = writer[x].shape
    forms = [
        f"{x.name}.transpose(1, 2).reshape({batch}, {seq}, {heads * per})",
        f"{x.name}.transpose(1, 2).flatten(2)",
        f"{x.name}.permute(0, 2, 1, 3).contiguous().view({batch}, {seq}, -1)",
        f"{x.name}.permute(0, 2, 3, 1).flatten(2)",
        f"{x.name}.mean(1)",
        f"{x.name}.flatten(0, 1)",
    ]
    return writer.add(writer.draw.choice(forms), False)


def rotation(writer: Writer) -> bool:
    """Positions turned into angles, in halves or in pairs."""
    x = writer.choose(lambda t: is_heads(t) and t.shape[-1] % 2 == 0)
    if x is None:
        return False
    draw, value = writer.draw, writer[x]
    seq, per = value.shape[2:]
    device = f"device={x.name}.device"
    steps = f"1.0 / (100.0 ** (torch.arange(0, {per}, 2, {device}).float() / {per}))"
    angles = f"torch.outer(torch.arange({seq}, {device}).float(), {steps})"
    if not writer.add(f"torch.cat([{angles}, {angles}], -1)", False):
        return False
    made = writer.known[-1].name
    half = per // 2
    first, second = f"{x.name}[..., :{half}]", f"{x.name}[..., {half}:]"
    cos, sin = f"{made}.cos().to({x.name}.dtype)", f"{made}.sin().to({x.name}.dtype)"
    pairs = f"torch.stack([-{x.name}[..., 1::2], {x.name}[..., ::2]], -1).flatten(-2)"
    forms = [
        f"{x.name} * {cos} + torch.cat([-{second}, {first}], -1) * {sin}",
        f"torch.cat([{first} * {cos}[:, :{half}] - {second} * {sin}[:, :{half}], {second}], -1)",
        f"{x.name} * {cos} + {pairs} * {sin}",
        f"{x.name} * {cos} + {x.name}.roll({half}, -1) * {sin}",
    ]
    return writer.add(draw.choice(forms), False)


def tokens(writer: Writer) -> bool:
    """Rows of a table of weights, at times with positions added."""
    index = writer.choose(lambda t: is_whole(t) and t.dim() == 2, exact=True)
    x = writer.choose(is_tokens)
    if x is None:
        return False
    seq, dim = writer[x].shape[1:]
    dtype = writer[x].dtype
    table = writer.weight([11, dim], dtype=dtype)
    positions = writer.weight([seq, dim], dtype=dtype)
    forms = [
        f"{x.name} + {positions}",
        f"{x.name} + F.embedding(torch.arange({seq}, device={x.name}.device), {positions})",
    ]
    forms.append(
        f"torch.cat([{writer.weight([1, 1, dim], dtype=dtype)}.expand({len(writer[x])}, -1, -1), {x.name}], 1)"
    )
    forms.append(f"{x.name} @ {table}.t()")
    if index is not None:
        forms += [f"F.embedding({index.name} % 11, {table})", f"{table}[{index.name} % 11]"]
        forms.append(f"F.embedding({index.name} % 11, {table}, padding_idx=3)")
    return writer.add(writer.draw.choice(forms), False, is_bounded=True)


def norm_of_rows(writer: Writer) -> bool:
    """Norms with weights, and residual sums before them."""
    x = writer.choose(is_tokens)
    if x is None:
        return False
    draw, value = writer.draw, writer[x]
    dim, dtype = value.shape[-1], value.dtype
    weight, bias = writer.weight([dim], dtype=dtype), writer.weight([dim], dtype=dtype)
    other = writer.choose(lambda t: t.shape == value.shape and t.dtype is dtype) or x
    wide = f"{x.name}.float()"
    forms = [
        f"F.layer_norm({x.name}, ({dim},), {weight}, {bias})",
        f"F.layer_norm({x.name} + {other.name}, ({dim},), {weight}, {bias})",
        f"F.rms_norm({x.name}, ({dim},), {weight})",
        f"{weight} * ({wide} * torch.rsqrt({wide}.pow(2).mean(-1, keepdim=True) + 1e-5)).to({x.name}.dtype)",
        f"{x.name} * (1 + {weight}) + {bias}",
        f"{x.name} + {other.name} * {weight}",
        f"F.group_norm({x.name}.transpose(1, 2), 2, {weight}, {bias}).transpose(1, 2)",
        f"{x.name} + {other.name}",
    ]
    return writer.add(draw.choice(forms), False)


def gated(writer: Writer) -> bool:
    """What stands between two layers."""
    x = writer.choose(lambda t: is_tokens(t) and t.shape[-1] % 2 == 0)
    if x is None:
        return False
    forms = [
        f"F.gelu({x.name})",
        f'F.gelu({x.name}, approximate="tanh")',
        f"F.silu({x.name}.chunk(2, -1)[0]) * {x.name}.chunk(2, -1)[1]",
        f"F.glu({x.name}, -1)",
        f"F.relu({x.name}).square()",
        f"{x.name}.tanh() * {x.name}.mean(1, keepdim=True)",
        f"F.dropout({x.name}, 0.0, training=True)",
        f"F.silu({x.name}[..., ::2]) * {x.name}[..., 1::2]",
    ]
    return writer.add(writer.draw.choice(forms), False)


def classes(writer: Writer) -> bool:
    """The loss at the end of a model: of every row, of all but the first, of the mean."""
    x = writer.choose(is_tokens)
    if x is None:
        return False
    draw, (batch, seq, dim) = writer.draw, writer[x].shape
    device = f"device={x.name}.device"
    labels = f"torch.arange({batch * seq}, {device}) * 3 % {dim}"
    options = draw.choice(
        ("", ", label_smoothing=0.1", ", ignore_index=3", ', reduction="sum"', ', reduction="none"')
    )
    forms = [
        f"F.cross_entropy({x.name}.view(-1, {dim}), {labels}{options})" if writer[x].is_contiguous() else "0",
        f"F.cross_entropy({x.name}.reshape(-1, {dim}).float(), {labels}{options})",
        f"F.cross_entropy({x.name}.transpose(1, 2), ({labels}).view({batch}, {seq}){options})",
        f"F.cross_entropy({x.name}.mean(1), ({labels})[:{batch}]{options})",
        f"F.cross_entropy({x.name}[:, 0], ({labels})[:{batch}]{options})",
    ]
    if seq > 1:
        shifted = f"({labels}).view({batch}, {seq})[:, 1:].reshape(-1)"
        forms.append(f"F.cross_entropy({x.name}[:, :-1].reshape(-1, {dim}), {shifted}{options})")
    return writer.add(draw.choice(forms), False)


ATTENTION_STATEMENTS = (
    *(linear, linear, linear, heads_of_rows, heads_of_rows, heads_of_rows, heads_of_rows),
    *(attention,) * 12,
    *(rows_of_heads, rows_of_heads, rows_of_heads, rotation, rotation, tokens, tokens),
    *(norm_of_rows, norm_of_rows, norm_of_rows, gated, gated, classes),
    *(unary, binary, view, join, norm, reduction),
)
