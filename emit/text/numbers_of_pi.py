"""Numbers that formulas have pi in, as a person writes them: ``(2 / torch.pi) ** 0.5``, and not 0.7978845608028654."""

from __future__ import annotations

import math

# Exactly these floats, as Python computes them: gelu's and its derivative's, angles, and a normal density's.
_TEXTS: dict[float, str] = {
    math.pi: "torch.pi",
    2 * math.pi: "2 * torch.pi",
    math.pi / 2: "torch.pi / 2",
    1 / math.pi: "1 / torch.pi",
    (2 / math.pi) ** 0.5: "(2 / torch.pi) ** 0.5",
    2 * (2 / math.pi) ** 0.5: "2 * (2 / torch.pi) ** 0.5",
    1 / (2 * math.pi) ** 0.5: "1 / (2 * torch.pi) ** 0.5",
    (2 * math.pi) ** 0.5: "(2 * torch.pi) ** 0.5",
    2 / math.pi**0.5: "2 / torch.pi**0.5",
}


def pi_text(value: float) -> str | None:
    """The number with pi in it; None where it is another one.

    Every text has the value exactly; one that is a unit in the last place away has none.
    """
    text = _TEXTS.get(abs(value))
    if text is None or value > 0:
        return text
    return f"-{text}" if " " not in text else f"-({text})"
