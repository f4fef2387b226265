"""A reference shows the parts of a row that its kernel reads as slices, and a table of both halves joined to itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import longhand
from longhand.verify.checking import check_kernels


def packed(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def apart(x: Tensor) -> Tensor:
    """The second part begins later than the first one ends."""
    return x[:, :16].sigmoid() - x[:, 24:40] * 2


def overlapping(x: Tensor) -> Tensor:
    return x[:, :32].exp() * x[:, 8:]


def of_a_table(freqs: Tensor, x: Tensor) -> Tensor:
    angle = torch.cat((freqs, freqs), dim=-1)
    return x * angle.cos() + angle.sin()


def shared_by_rows(freqs: Tensor) -> Tensor:
    angle = torch.arange(6, device=freqs.device)[:, None] * torch.cat((freqs, freqs), dim=-1)
    return angle.cos()


X = torch.randn(6, 40)
CASES = {
    "packed": (packed, (X,), ("[:, :n_cols]", "[:, up_offset:]")),
    "apart": (apart, (X,), ("[:, :n_cols]", "_offset:]")),
    "overlapping": (overlapping, (X,), ("[:, :n_cols]", "_offset:]")),
    "of a table": (of_a_table, (torch.randn(6, 20), X), (".repeat(1, 2)",)),
    "shared by rows": (shared_by_rows, (torch.randn(20),), (".repeat(2)",)),
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("case", CASES)
def test_parts_of_rows_are_slices(case: str, device: str, emit: Any) -> None:
    function, args, wanted = CASES[case]
    files = emit(function, args, device=device)
    (text,) = (
        str(text)
        for path, text in files.items()
        if path.startswith("kernels/") and path.endswith(".py") and "def reference(" in str(text)
    )
    text = text.partition("def reference(")[2].partition("\n\n\n")[0]
    for words in wanted:
        assert words in text
    assert "torch.where" not in text and "_stride" not in text


@pytest.mark.parametrize("case", CASES)
def test_the_reference_holds(case: str, tmp_path: Path) -> None:
    function, args, _ = CASES[case]
    longhand.generate(function, args, out=tmp_path / "unit", device="cpu")
    torch.testing.assert_close(longhand.load(tmp_path / "unit")(*args), function(*args))
    checks = check_kernels(tmp_path / "unit").kernels
    assert checks and all(check.is_right for check in checks)


def gathered(table: Tensor, places: Tensor, order: Tensor) -> Tensor:
    return table[places[order]][:, :48] * 2


def repeated(x: Tensor) -> Tensor:
    return x[:, None].expand(6, 4, 64).reshape(24, 64).contiguous()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_is_read_where_data_say_has_a_place_and_a_mask_by_name(device: str, tmp_path: Path) -> None:
    args = (torch.randn(9, 64), torch.randint(9, (12,)), torch.randint(12, (7,)))
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(gathered, args, out=tmp_path, device=device, arch=arch, run=False)
    texts = [path.read_text() for path in (tmp_path / "kernels").glob("*.py")]
    (text,) = [text.partition("def reference(")[2] for text in texts if "def reference(" in text]
    assert "torch.where" in text and "torch.where(" not in text.replace("= torch.where(", "").replace(
        "return torch.where(", ""
    ), text
    assert text.count(" >= 0") == len({line for line in text.splitlines() if " >= 0" in line}), text


def test_a_copy_says_along_what_it_is_the_same(tmp_path: Path) -> None:
    longhand.generate(repeated, (torch.randn(6, 64),), out=tmp_path, device="cpu")
    texts = "".join(path.read_text() for path in (tmp_path / "kernels").glob("*.py"))
    assert ", the same for each " in texts, texts
