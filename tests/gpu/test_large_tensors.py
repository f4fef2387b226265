"""Tensors of more than 2**31 elements, in every schedule: what 32 bits cannot count. Some 30 GB of memory, a minute.

Most numbers are zero and the last ones are not, so that sums are exact and what is not reached shows.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import longhand

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

BIG = 2**31
i8, bf16 = torch.int8, torch.bfloat16
NEEDED_BYTES = 40 * 2**30


@pytest.fixture(autouse=True)
def _memory() -> Iterator[None]:
    if not torch.cuda.is_available() or torch.cuda.mem_get_info()[0] < NEEDED_BYTES:
        pytest.skip("needs a GPU with 40 GiB of free memory")
    yield
    gc.collect()
    torch.cuda.empty_cache()


def marked(*shape: int, dtype: torch.dtype = i8) -> Tensor:
    """Zeros with a few numbers at the beginning, around 2**31 and at the end."""
    x = torch.zeros(shape, dtype=dtype, device="cuda")
    flat = x.view(-1)
    for start in (0, min(BIG, flat.numel()) - 50, flat.numel() - 100):
        piece = flat[start : start + 100]
        piece.copy_(torch.arange(1, 1 + len(piece), device="cuda") % 13)
    return x


def row(n: int, dtype: torch.dtype) -> Tensor:
    return (torch.arange(n, device="cuda") % 11).to(dtype)


@dataclasses.dataclass(frozen=True)
class Case:
    """A function of large tensors.

    Attributes:
        function: It.
        make: Makes its arguments.
        mark: What its kernel's text must hold: how it is walked.
    """

    function: Callable[..., object]
    make: Callable[[], tuple[Tensor, ...]]
    mark: str = "_kernel["


def foreach(xs: list[Tensor]) -> list[Tensor]:
    return torch._foreach_add(xs, 3)


CASES: dict[str, Case] = {
    "flat": Case(lambda x: x + 1, lambda: (marked(BIG + 5000),)),
    "flat just below": Case(lambda x: x + 1, lambda: (marked(BIG - 100),)),
    "flat 2**32": Case(lambda x: x + 1, lambda: (marked(2 * BIG + 1),)),
    "rows and a value for each": Case(
        lambda x, r: x + r[:, None], lambda: (marked(2**21 + 1, 1100), row(2**21 + 1, i8))
    ),
    "more rows than 2**31": Case(lambda x: x[:, :2] + 1, lambda: (marked(BIG + 7, 3),)),
    "blocks beyond a grid's second side": Case(
        lambda x, r: x + r[:, None], lambda: (marked(3, 2**30 + 1), row(3, i8)), "block // col_blocks"
    ),
    "a slice of a wider tensor": Case(lambda x: x[:, :46341] + 1, lambda: (marked(46341, 116341),)),
    "flip": Case(lambda x: x.flip(0) + 1, lambda: (marked(BIG + 10),)),
    "flip of rows": Case(lambda x: x.flip(0) + 1, lambda: (marked(70001, 50000),)),
    "transpose": Case(lambda x: x.t().contiguous() + 1, lambda: (marked(50001, 60001),), "TILE"),
    "a batch of transposes": Case(
        lambda x: x.transpose(1, 2).contiguous() + 1, lambda: (marked(40001, 200, 300),), "TILE"
    ),
    "short rows": Case(
        lambda x: F.softmax(x, -1), lambda: (marked(2**21 + 3, 1100, dtype=bf16),), "next_power_of_2"
    ),
    "long rows": Case(
        lambda x: x - x.amax(1, keepdim=True),
        lambda: (marked(40001, 60000, dtype=bf16),),
        "for start in range",
    ),
    "a sum of all, just below": Case(lambda x: x.sum(), lambda: (marked(46340**2, dtype=bf16),), "n_splits"),
    "a sum of all": Case(lambda x: x.sum(), lambda: (marked(BIG + 77, dtype=bf16),), "n_splits"),
    "the place of the largest": Case(lambda x: (x * 2).argmax(), lambda: (marked(BIG + 77, dtype=bf16),)),
    "sums of few long rows": Case(
        lambda x: x.sum(1), lambda: (marked(200, 2**23 + 3_000_005, dtype=bf16),), "n_splits"
    ),
    "columns": Case(lambda x: x.sum(0), lambda: (marked(200, 2**23 + 3_000_005, dtype=bf16),)),
    "a batch of columns": Case(lambda x: x.sum(1), lambda: (marked(2**19 + 1, 50, 96, dtype=bf16),)),
    "columns of many rows": Case(
        lambda x: x.sum(0), lambda: (marked(2**25 + 9, 96, dtype=bf16),), "n_splits"
    ),
    "rows, and sums of columns": Case(
        lambda x: (x - x.amax(1, keepdim=True), (x - x.amax(1, keepdim=True)).sum(0)),
        lambda: (marked(2**21 + 1, 1100, dtype=bf16),),
    ),
    "rows of a large table": Case(
        lambda table, at: F.embedding(at, table) + 1,
        lambda: (marked(2**21 + 5, 1100, dtype=bf16), 2**21 + 4 - torch.arange(64, device="cuda")),
    ),
    "numbers that are positions": Case(
        lambda x: ((torch.arange(x.shape[0], device=x.device) * 3) % 7).to(i8) + x, lambda: (marked(BIG + 9),)
    ),
    "a join": Case(lambda x, y: torch.cat([x, y]) + 1, lambda: (marked(BIG - 5), marked(1000))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_large_tensor(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    given = case.make()
    longhand.generate(case.function, given, out=tmp_path / "unit", device="cuda")
    text = "".join(path.read_text() for path in sorted((tmp_path / "unit" / "kernels").glob("*.py")))
    assert "int64" in text and case.mark in text
    found = longhand.load(tmp_path / "unit")(*given)
    compare(found, case.function(*given))


def test_a_list_with_a_large_tensor(tmp_path: Path) -> None:
    given = ([marked(100), marked(BIG + 33), marked(7)],)
    longhand.generate(foreach, given, out=tmp_path / "unit", device="cuda")
    compare(longhand.load(tmp_path / "unit")(*given), foreach(*given))


def compare(found: object, expected: object) -> None:
    """Tensor by tensor: whole numbers alike, others within one part in a hundred of the largest."""
    pairs = zip(
        torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected), strict=True
    )
    for ours, theirs in pairs:
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if not ours.dtype.is_floating_point:
            assert torch.equal(ours, theirs)
            continue
        pieces = zip(ours.reshape(-1).split(2**28), theirs.reshape(-1).split(2**28), strict=True)
        worst = max(float((a.float() - b.float()).abs().max()) for a, b in pieces)
        assert worst <= 0.01 * max(1.0, float(theirs.abs().max()))
