"""Statements of random programs about whole rows: some of nothing but -inf, maxima of other values, losses of classes;
and writes by an operator of the user's own."""

from __future__ import annotations

import torch

from tests.fuzz.operands import dim_of, is_float, is_whole
from tests.fuzz.programs import Writer


@torch.library.custom_op("longhand_fuzz::add_to", mutates_args=("x",))
def add_to(x: torch.Tensor, y: torch.Tensor) -> None:
    """An operator that writes, of which nobody knows what."""
    x.add_(y)


add_to.register_fake(lambda x, y: None)

_INF = 'float("inf")'


def masked_row(writer: Writer) -> bool:
    """Rows of which some elements, or all, are one special number."""
    x = writer.choose(lambda t: is_float(t) and t.dim() > 0 and t.numel() > 0)
    if x is None:
        return False
    draw, n_rows = writer.draw, writer[x].shape[0]
    # Not all of the rows: what no gradient reaches has none here, and zeros in eager.
    which = draw.choice((0, 1)) if n_rows > 1 else 1
    rows = f"torch.arange({n_rows}, device={x.name}.device) % {draw.choice((2, 3))} == {which}"
    condition = f"({rows}).reshape(-1{', 1' * (writer[x].dim() - 1)})"
    number = draw.choice((f"-{_INF}", f"-{_INF}", _INF, 'float("nan")', "0", "-0.0", "1e30"))
    return writer.add(f"{x.name}.masked_fill({condition}, {number})", x.is_exact)


def beside_maximum(writer: Writer) -> bool:
    """What is written with a row's maximum by hand: logsumexp, softmax, and what is less than another's maximum."""
    x = writer.choose(lambda t: is_float(t) and t.dim() > 0 and 0 not in t.shape)
    if x is None:
        return False
    y = writer.choose(lambda t: t.shape == writer[x].shape and t.dtype is writer[x].dtype) or x
    a = dim_of(writer, writer[x])
    kept = f"{x.name}.amax({a}, keepdim=True)"
    forms = (
        f"({y.name} - {kept}).exp().sum({a})",
        f"({y.name} - {kept}).amax({a})",
        f"{x.name}.amax({a}) + ({x.name} - {kept}).exp().sum({a}).log()",
        f"({x.name} - {kept}).exp() / ({x.name} - {kept}).exp().sum({a}, keepdim=True)",
        f"{y.name} - {kept}",
        f"{y.name} * ({kept} - {x.name}.amin({a}, keepdim=True))",
        f"{x.name}.std({a}, correction={writer.draw.choice((0, 1, 2))})",
        f"{x.name}.norm({writer.draw.choice(('1', '2', '3', _INF, '-' + _INF, '0'))}, {a})",
    )
    return writer.add(writer.draw.choice(forms), False)


def loss(writer: Writer) -> bool:
    """Losses of classes, with large logits too, and between two tensors."""
    draw = writer.draw
    x = writer.choose(lambda t: is_float(t) and t.dim() > 0 and t.numel() > 0)
    if x is None:
        return False
    index = writer.choose(lambda t: is_whole(t) and t.numel() > 0, exact=True)
    n_rows = writer[x].shape[0]
    n_classes = writer[x].numel() // n_rows
    first = f"{index.name}.reshape(-1)[:1].long()" if index is not None else "1"
    labels = f"({first} + torch.arange({n_rows}, device={x.name}.device)) % {n_classes}"
    rows, large = f"{x.name}.reshape({n_rows}, -1)", draw.choice(("", " * 0.1 + 300"))
    reduction = f'reduction="{draw.choice(("mean", "sum", "none"))}"'
    options = draw.choice(("", ", label_smoothing=0.1", f", ignore_index={draw.randrange(n_classes)}"))
    forms = [
        f"F.cross_entropy({rows}{large}, {labels}, {reduction}{options})",
        f"F.cross_entropy({rows}{large}, {labels}, {reduction}{options})",
        f"F.cross_entropy({rows}{large}, {rows}.softmax(1), {reduction})",
        f"F.nll_loss(({rows}{large}).log_softmax(1), {labels}, {reduction})",
        f"({rows}{large}).log_softmax(1).gather(1, ({labels})[:, None])",
        f"F.mse_loss({x.name}, {x.name} * 0.5, {reduction})",
        f"F.smooth_l1_loss({x.name}, {x.name}.flip(0), {reduction})",
        f"F.huber_loss({x.name}, {x.name}.flip(0), {reduction})",
        f"F.binary_cross_entropy_with_logits({x.name}, {x.name}.sigmoid(), {reduction})",
        f"F.kl_div({rows}.log_softmax(1), {rows}.softmax(1), {reduction})",
    ]
    return writer.add(draw.choice(forms), False)


def written_by_operator(writer: Writer) -> bool:
    """Into a new tensor, most of which are known before: zeros, positions, a copy."""
    x = writer.choose(lambda t: t.dtype is not torch.bool and t.numel() > 0)
    if x is None:
        return False
    value = writer[x]
    word = str(value.dtype).removeprefix("torch.")
    shape, device = tuple(value.shape), f"device={x.name}.device"
    starts = [
        f"torch.zeros({shape}, dtype=torch.{word}, {device})",
        f"torch.full({shape}, 3, dtype=torch.{word}, {device})",
        f"{x.name} * 2",
        f"{x.name}.clone()",
    ]
    if value.dim() == 1:
        starts.append(f"torch.arange({shape[0]}, {device}).to(torch.{word})")
    if not writer.add(writer.draw.choice(starts), False):
        return False
    made = writer.known[-1]
    return writer.write(f"torch.ops.longhand_fuzz.add_to({made.name}, {x.name})", made, False)
