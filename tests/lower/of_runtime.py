"""What units call in an operator's place, from the one text that they have of it: runtime.py's templates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

TEMPLATES = Path(__file__).resolve().parents[2] / "templates" / "runtime"


def _names(part: str) -> dict[str, Any]:
    """What a part of runtime.py defines; it must need no plan."""
    text = (TEMPLATES / f"{part}.py.jinja").read_text()
    assert "{{" not in text and "{%" not in text
    found: dict[str, Any] = {}
    exec(compile(text, f"{part}.py.jinja", "exec"), found)
    return found


_CONVOLUTIONS = _names("convolutions")


def _convolution_backward(
    d_out, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, wanted
):
    return _CONVOLUTIONS["convolution_backward"](
        d_out,
        x,
        weight,
        stride=tuple(stride),
        padding=tuple(padding),
        dilation=tuple(dilation),
        groups=groups,
        transposed=transposed,
        output_padding=tuple(output_padding),
        wanted=tuple(wanted),
    )


OF_RUNTIME = {torch.ops.aten.convolution_backward.default: _convolution_backward}
