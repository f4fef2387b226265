"""Loops that sum by a condition, as g++ builds them with a unit's flags: g++ 12 got one in eighty wrong at -O3.

Its if-conversion takes another sum's values where equal expressions of two branches were brought before the branch
(-fcode-hoisting) and comparisons may be made where they are not asked for (-fno-trapping-math).
"""

from __future__ import annotations

import ctypes
import random
import shlex
import subprocess
from pathlib import Path

import pytest
import torch

import longhand
from tests.emit.cpp_kernels import runtime_in

N_LOOPS, N = 60, 50
CONDITIONS = (
    "s <= b",
    "s < b || std::isnan(b)",
    "s <= b || std::isnan(b)",
    "s > 0.f",
    "s >= b && t < 1.f",
    "s == s",
)
HEAD = """#include <cmath>
static inline float least(float a, float b) { return a < b || b != b ? a : b; }
"""
LOOP = """extern "C" void loop_{number}(const float *a, const float *g, double *sums, float one, float b, long n) {{
  double sum_0 = 0, sum_1 = 0, sum_2 = 0;
#pragma omp simd reduction(+ : sum_0, sum_1, sum_2)
  for (long i = 0; i < n; ++i) {{
    const float s = a[i] * one, t = g[i] * one;
    {body}
  }}
  sums[0] = sum_0, sums[1] = sum_1, sums[2] = sum_2;
}}
"""


def drawn_body(draw: random.Random) -> str:
    """Conditions, what is chosen by them, and three sums."""
    n_conditions = draw.randint(1, 2)
    lines = [f"const bool c{place} = {draw.choice(CONDITIONS)};" for place in range(n_conditions)]
    values = ["s", "t", "0.f", "b"]
    for place in range(draw.randint(1, 4)):
        condition = f"{'!' if draw.random() < 0.4 else ''}c{draw.randrange(n_conditions)}"
        first, second, form = draw.choice(values), draw.choice(values), draw.random()
        chosen, smaller = f"{condition} ? {first} : {second}", f"least({first}, {second})"
        made = chosen if form < 0.55 else smaller if form < 0.8 else f"{first} * {second}"
        lines.append(f"const float v{place} = {made};")
        values.append(f"v{place}")
    for place in range(3):
        condition = f"{'!' if draw.random() < 0.4 else ''}c{draw.randrange(n_conditions)}"
        first, second, form = draw.choice(values), draw.choice(values), draw.random()
        by_condition, product = f"{condition} ? 0.f : {first}", f"{first} * {second}"
        lines.append(f"sum_{place} += {by_condition if form < 0.4 else product if form < 0.8 else first};")
    return "\n    ".join(lines)


@pytest.mark.parametrize("seed", [1, 2])
def test_sums_by_a_condition_are_those_of_one_element_after_the_other(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    loops = [LOOP.format(number=number, body=drawn_body(draw)) for number in range(N_LOOPS)]
    (tmp_path / "loops.cpp").write_text(HEAD + "".join(loops))
    runtime = runtime_in(tmp_path)
    words = [*shlex.split(runtime.COMPILER), *runtime.FLAGS, "loops.cpp", "-o", "loops.so"]
    subprocess.run(words, check=True, cwd=tmp_path)
    library = ctypes.CDLL(str(tmp_path / "loops.so"))
    a, g = torch.randn(N) * 4, torch.randn(N)
    one, b = ctypes.c_float(1.0), ctypes.c_float(1.0)
    for number in range(N_LOOPS):
        loop, sums = library[f"loop_{number}"], torch.zeros(N + 1, 3, dtype=torch.float64)
        for place in range(N):
            loop(*(ctypes.c_void_p(x[place:].data_ptr()) for x in (a, g, sums)), one, b, ctypes.c_long(1))
        loop(*(ctypes.c_void_p(x.data_ptr()) for x in (a, g, sums[N])), one, b, ctypes.c_long(N))
        torch.testing.assert_close(sums[N], sums[:N].sum(0), rtol=1e-6, atol=1e-5, msg=loops[number])


@pytest.mark.parametrize("name", ["fmin", "fmax"])
def test_a_factor_of_both_sides_and_of_the_result_has_its_whole_gradient(name: str) -> None:
    """OpInfo's fmin: its compiled gradient was another sum's memory."""

    def scaled(one: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return getattr(torch, name)(a * one, b * one) * one

    given = [torch.ones(()), torch.randn(10, 5) * 5, torch.tensor(1.0)]
    d_out = torch.randn(10, 5)

    def gradients(run) -> tuple[torch.Tensor, ...]:
        leaves = [one.clone().requires_grad_() for one in given]
        return torch.autograd.grad(run(*leaves), leaves, d_out)

    torch.testing.assert_close(gradients(longhand.compile(scaled)), gradients(scaled), rtol=1e-4, atol=1e-4)
