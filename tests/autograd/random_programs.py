"""Random functions that train: views, in-place writes, shared inputs, detached values, results of any kind.

A program is text, so that a seed that fails can be read and run by itself. Its arguments are two matrices, a weight and
a frozen vector, and a buffer that it may write into.
"""

from __future__ import annotations

import random

ROWS, COLS = 4, 6
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


def program(seed: int) -> str:
    """The text of a function ``program(x, y, w, v, buffer)``."""
    draw = random.Random(seed)
    made = ["x", "y"]  # what may be read
    own: list[str] = []  # what may be written into: made here
    lines: list[str] = []

    def one() -> str:
        return draw.choice(made[-4:] if draw.random() < 0.7 else made)

    for number in range(draw.randint(3, 9)):
        kind = draw.random()
        word = f"h{number}"
        if kind < 0.4:
            lines.append(f"{word} = {_filled(draw.choice(_UNARY), one())}")
        elif kind < 0.6:
            lines.append(f"{word} = {_filled(draw.choice(_BINARY), one(), one())}")
        elif kind < 0.8 and own:
            lines.append(_filled(draw.choice(_IN_PLACE), draw.choice(own[-2:]), one()))
            continue
        elif kind < 0.86:
            lines.append(_filled(draw.choice(_OF_BUFFER), one()))
            continue
        elif kind < 0.92:
            lines += ["with torch.no_grad():", f"    {word} = {_filled(draw.choice(_UNARY), one())}"]
        else:
            lines.append(f"{word} = {one()} * buffer")
        made.append(word)
        own.append(word)
    results = [_filled(draw.choice(_RESULTS), one()) for _ in range(draw.randint(0, 3))]
    returned = ", ".join([f"{made[-1]} * 1", *results])
    return "\n    ".join(["def program(x, y, w, v, buffer):", *lines, f"return {returned},"]) + "\n"


def _filled(template: str, *words: str) -> str:
    return template.format(*words, rows=ROWS, cols=COLS)
