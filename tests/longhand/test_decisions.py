"""What is decided by 16-bit floats is decided as in eager: they are rounded where memory would have rounded them."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import longhand

ROOT = Path(__file__).parents[2]
Results = tuple[torch.Tensor, ...]


def comparisons(x: torch.Tensor) -> Results:
    half = x.half()
    return half == x, half.float() == x, torch.where(x.bfloat16() == x, 1, 0), half >= (x + 1e-4).half()


def rounded(x: torch.Tensor) -> Results:
    thousands = (x * 1000).half()
    return thousands.floor(), thousands.float().ceil(), thousands.bfloat16().round(), thousands.float().frac()


def converted(x: torch.Tensor) -> Results:
    small = (x * 1e-8).half()  # most of it is none in 16 bits
    return (x * 1000).half().long(), (x * 1000).bfloat16().int(), small.bool(), torch.logical_not(small)


def signs(x: torch.Tensor) -> Results:
    small, large = (x * 1e-8).half(), (x * 1e5).half()
    return small.sign(), small > 0, large.isinf(), large.float().isfinite(), torch.signbit(small)


def remainders(x: torch.Tensor) -> Results:
    thousands = (x * 1000).half()
    return thousands.float() % 1, thousands // 1, torch.fmod((x * 100).bfloat16().float(), 1)


def places(x: torch.Tensor) -> Results:
    rows = x.bfloat16().view(10, 100)
    return torch.arange(2000)[(x.abs() * 100).bfloat16().long()], rows.argmax(1), rows.float().argmin(1)


def chains(x: torch.Tensor) -> Results:
    """A decision is made of each op before it, and eager rounds all of them."""
    half = x.half()
    scaled = ((half * 3 + 1) * 100).floor()
    centered = half.view(10, 100) - half.view(10, 100).mean(1, keepdim=True)
    return scaled, centered > 0.25, (half.float() - x) == 0, (x.bfloat16().exp() * 3).int()


def numbers(x: torch.Tensor) -> Results:
    """A number that 16 bits do not hold is rounded, too."""
    tenths = torch.full_like(x, 0.1).half()
    filled = torch.full((1000,), 0.1, dtype=torch.half)
    return tenths == 0.1, filled == tenths, filled.float() == 0.1, x.half() > torch.tensor(0.1), tenths <= 0.1


def quotients(x: torch.Tensor) -> Results:
    """So are a number that is divided, one that leaves a remainder, and a quotient that is cut off."""
    half, tenths, others = (x * 0.3).bfloat16(), *(torch.full_like(x, n).bfloat16() for n in (0.1, -0.7))
    cut = torch.div(x.half(), x.half().flip(0), rounding_mode="trunc")
    return half % 0.1, half.fmod(0.3), 0.7 % half, 0.7 // others, cut, F.hardshrink(tenths, 0.1)


DECIDED = [comparisons, rounded, converted, signs, remainders, places, chains, numbers, quotients]


def given() -> torch.Tensor:
    """Numbers between two that 16 bits hold."""
    return torch.randn(1000, generator=torch.Generator().manual_seed(0))


def assert_same(found: Results, expected: Results) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype is other.dtype
        assert torch.equal(one, other), f"{int((one != other).sum())} of {one.numel()}"


@pytest.mark.filterwarnings("error::longhand.errors.EagerWarning")
@pytest.mark.parametrize("function", DECIDED)
def test_decisions_are_those_of_eager(function: Callable[[torch.Tensor], Results]) -> None:
    x = given()
    assert_same(longhand.compile(function)(x), function(x))


@functools.cache
def interpreted(folder: Path) -> str:
    """Runs all of them in Triton's interpreter, in a process of its own; the names of those that differ."""
    for function in DECIDED:
        longhand.generate(
            function, (given(),), out=folder / f"unit_{function.__name__}", device="cuda", arch="sm_90"
        )
    program = folder / "program.py"
    program.write_text(PROGRAM)
    environment = dict(os.environ, TRITON_INTERPRET="1", OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))
    command = [sys.executable, str(program), *(function.__name__ for function in DECIDED)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAM = """
import sys
from pathlib import Path

from longhand.verify.interpretation import import_on_cpu, mend_interpreter
from tests.longhand import test_decisions

mend_interpreter()
for name in sys.argv[1:]:
    unit = getattr(import_on_cpu(f"unit_{name}", Path(__file__).parent / f"unit_{name}"), name)
    x = test_decisions.given()
    try:
        test_decisions.assert_same(unit(x), getattr(test_decisions, name)(x))
    except AssertionError as error:
        print(name, str(error).splitlines()[0])
"""


def test_decisions_of_triton_kernels_are_those_of_eager(tmp_path: Path) -> None:
    assert interpreted(tmp_path) == ""


def test_nothing_else_is_rounded(tmp_path: Path) -> None:
    """Sums of 16-bit floats that nothing is decided by keep their float32."""

    def summed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = x + y
        return torch.softmax(total * total.sigmoid(), dim=-1).clamp(0.1, 0.5)

    x = torch.randn(8, 64).half()
    for device, arch in (("cpu", None), ("cuda", "sm_90")):
        longhand.generate(summed, (x, x), out=tmp_path / device, device=device, arch=arch)
        texts = [path.read_text() for path in (tmp_path / device / "kernels").iterdir() if path.is_file()]
        assert not any("rounded_to_float16(" in text or ".to(tl.float16).to(" in text for text in texts)


class Same(torch.nn.Module):
    """One decision."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.half() == x


def test_a_kernel_says_that_it_rounds(tmp_path: Path) -> None:
    longhand.generate(Same(), (given().view(10, 100),), out=tmp_path / "unit", device="cpu")
    (text,) = [path.read_text() for path in (tmp_path / "unit" / "kernels").glob("*.cpp")]
    assert "half(x) == x" in text
    assert "rounded_to_float16(x_i) == x_i" in text
