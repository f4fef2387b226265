"""Random functions that train: views, in-place writes, shared inputs, detached values, results of any kind.

A program is text, so that a seed that fails can be read and run by itself. Its arguments are two matrices, a weight and
a frozen vector, and a buffer that it may write into.
"""

from __future__ import annotations

import random

ROWS, COLS = 4, 6
# From here on programs have every kind of statement; earlier seeds stay what they were.
FIRST_WIDE = 100_000
_UNARY = [
    "{0}.sin()",
    "torch.tanh({0})",
    "torch.relu({0})",
    "torch.sigmoid({0}) * {0}",
    "F.gelu({0})",
    "F.softmax({0}, -1)",
    "F.layer_norm({0}, ({cols},), v, v + 1)",
    "F.dropout({0}, 0.4, True)",
    "({0} * 0.5).exp()",
    "{0}.square().mean(-1, keepdim=True) + {0}",
    "{0} - {0}.amax(-1, keepdim=True)",
    "torch.cat([{0}[1:], {0}[:1]])",
    "{0}.cumsum(0)",
    "{0}.detach() * 2 + {0}",
    "{0} * v",
    "{0} @ w",
    "F.linear({0}, w, v)",
    "{0}.view(-1).flip(0).view({rows}, {cols})",
    "{0}.t().contiguous().t()",
    "{0}.reshape(2, -1).roll(1, 0).reshape({rows}, {cols})",
    "{0}[torch.tensor([1, 1, 0, 3])]",
    "{0}.clone()",
]
_BINARY = [
    "{0} + {1}",
    "{0} * {1}",
    "{0} - 0.5 * {1}",
    "torch.where({0} > {1}, {0}, {1} * 2)",
    "torch.maximum({0}, {1})",
    "({0} @ {1}.t()).softmax(-1) @ {1}",
    "{0} / (1 + {1}.abs())",
    "torch.stack([{0}, {1}]).mean(0)",
]
_IN_PLACE = [
    "{0}.mul_(1.5)",
    "{0}.add_({1})",
    "{0}[1:3].mul_(2)",
    "{0}[0] = {1}[1]",
    "{0}.t()[2].add_({1}[0, 0])",
    "{0}[:, ::2].copy_({1}[:, 1::2])",
    "{0}.relu_()",
    "{0}.view(-1)[3:9].sub_({1}.reshape(-1)[:6])",
    "{0}.masked_fill_({1} > 0.7, 0.1)",
    "{0}.unbind(0)[1].zero_()",
]
_OF_BUFFER = [
    "buffer.add_(1)",
    "buffer.copy_({0}.detach())",
    "buffer[0].mul_({0}.detach()[1])",
    "buffer.t()[1].add_(2)",
]
_RESULTS = [
    "{0}",
    "{0}.t()",
    "{0}[1:3]",
    "{0}.sum()",
    "{0}.view(-1)",
    "{0} > 0",
    "{0}.argmax(-1)",
    "{0}.detach()",
    "x",
    "x[1]",
    "buffer",
    "buffer * 2",
    "None",
    "3",
    "{0}.shape[0]",
    "w.t()",
]
_WIDE_UNARY = [
    "{0}[:]",
    "{0}.detach()",
    "{0}.data * 1",
    "{0}.view_as({0})",
    "{0}.expand_as({0})",
    "{0}.contiguous()",
    "{0}.clamp(-0.5, 0.5)",
    "{0}.sign() * {0}",
    "{0}.abs().sqrt()",
    "{0}.round()",
    "{0}.sort(-1).values",
    "{0}.topk(3).values.repeat(1, 2)",
    "{0}.max(-1, keepdim=True).values + {0}",
    "{0}.masked_fill({0} > 0.3, 0.0)",
    "torch.where({0} > 0, {0}, 0.5)",
    "{0} * (torch.arange({cols}) > 2)",
    "{0}.masked_fill(torch.arange({cols}) > torch.arange({rows})[:, None], 0.0)",
    "{0}.tril()",
    "{0}.t().reshape({rows}, {cols})",
    "{0}[:, [2, 0, 1, 1, 5, 3]]",
    "{0}[torch.arange({rows})]",
    "{0}[{0}.argmax(0)[:{rows}]]",
    "{0}.gather(1, {0}.argsort(1))",
    "{0}.scatter(0, torch.zeros(1, {cols}, dtype=torch.int64), {0}[1:2])",
    "{0}.index_add(0, torch.tensor([0, 0]), {0}[2:])",
    "F.pad({0}, (1, -1))",
    "{0}.unfold(1, 2, 2).sum(-1).repeat(1, 2)",
    "{0}.var(-1, keepdim=True) + {0}",
    "{0} / ({0}.norm() + 1)",
    "{0}.logsumexp(0, keepdim=True) - {0}",
    "{0} ** 2",
    "{0} % 0.7",
    "{0}.cummax(0).values",
    "{0}.prod(0, keepdim=True) * {0}",
    "torch.nan_to_num({0})",
    "{0}.to(torch.complex128).mul(1j).imag",
    "{0} * {0}.shape[0] + len({0})",
    "torch.stack([{0}, {0} * 2]).unbind(0)[1]",
    "{0}.split(2)[0].repeat(2, 1)",
    "F.embedding(torch.tensor([0, 3, 1, 1]), {0}, padding_idx=1)",
]
_WIDE_IN_PLACE = [
    "{0} += {1}",
    "{0} *= {1}",
    "{0}[{1} > 0] = 0.5",
    "{0}[torch.tensor([0, 2])] = {1}[:2]",
    "{0}[[0, 0]] += 1",
    "{0}[..., -1] *= 2",
    "{0}[:, 1:].t().sub_(1)",
    "{0}.copy_({1})",
    "{0}.fill_(0.3)",
    "{0}.zero_().add_({1})",
    "{0}.diagonal().zero_()",
    "{0}.index_fill_(0, torch.tensor([1]), 2)",
    "{0}.scatter_(0, torch.zeros(1, {cols}, dtype=torch.int64), {1}[:1].clone())",
    "{0}.clamp_(min=-0.2).mul_(3)",
    "{0}.detach().add_(0)",
    "{0}.data.mul_(1.5)",
    "F.relu({0}, inplace=True)",
    "{0}.chunk(2, -1)[1].neg_()",
    "{0}.flatten()[2:5].exp_()",
]
_WIDE_OF_BUFFER = [
    "buffer.data.add_(1)",
    "buffer *= 2",
    "buffer[:] = {0}.detach()",
    "buffer[[1, 3]] = buffer[[3, 1]]",
    "torch.add(buffer, 1, out=buffer)",
    "buffer.lerp_({0}.detach(), 0.5)",
]
_WIDE_RESULTS = [
    "{0}[:]",
    "{0}.view_as({0})",
    "{0}.unbind(0)[1]",
    "{0}.sort(-1).indices",
    "{0}.expand(2, {rows}, {cols})",
    "{0}.isnan().any()",
    "{0}.item() if {0}.numel() == 1 else None",
    "x[:]",
    "x.detach()",
    "x.t().t()",
    "x.data",
    "y",
    "y.view(-1)",
    "w",
    "buffer[:]",
    "buffer.detach()",
    "buffer[0]",
    "v.expand(2, {cols})",
    "v + 0",
]


def program(seed: int) -> str:
    """The text of a function ``program(x, y, w, v, buffer)``."""
    draw = random.Random(seed)
    is_wide = seed >= FIRST_WIDE
    unary, in_place = (
        (_UNARY, _IN_PLACE) if not is_wide else (_UNARY + _WIDE_UNARY, _IN_PLACE + _WIDE_IN_PLACE)
    )
    of_buffer = _OF_BUFFER + _WIDE_OF_BUFFER * is_wide
    of_results = _RESULTS + _WIDE_RESULTS * is_wide
    made = ["x", "y"]  # what may be read
    own: list[str] = []  # what may be written into: made here
    lines: list[str] = []

    def one() -> str:
        return draw.choice(made[-4:] if draw.random() < 0.7 else made)

    for number in range(draw.randint(3, 9)):
        kind = draw.random()
        word = f"h{number}"
        if kind < 0.4:
            lines.append(f"{word} = {_filled(draw.choice(unary), one())}")
        elif kind < 0.6:
            lines.append(f"{word} = {_filled(draw.choice(_BINARY), one(), one())}")
        elif kind < 0.8 and own:
            lines.append(_filled(draw.choice(in_place), draw.choice(own[-2:]), one()))
            continue
        elif kind < 0.86:
            lines.append(_filled(draw.choice(of_buffer), one()))
            continue
        elif kind < 0.92:
            lines += ["with torch.no_grad():", f"    {word} = {_filled(draw.choice(unary), one())}"]
        else:
            lines.append(f"{word} = {one()} * buffer")
        made.append(word)
        own.append(word)
    if is_wide and draw.random() < 0.3:  # a branch that the values of a call decide
        lines += [f"if flag:\n        {made[-1]} = {_filled(draw.choice(unary), one())}"]
    results = [_filled(draw.choice(of_results), one()) for _ in range(draw.randint(0, 3))]
    returned = ", ".join([f"{made[-1]} * 1", *results])
    flag = ", flag=False" if is_wide else ""
    return "\n    ".join([f"def program(x, y, w, v, buffer{flag}):", *lines, f"return {returned},"]) + "\n"


def _filled(template: str, *words: str) -> str:
    return template.format(*words, rows=ROWS, cols=COLS)
