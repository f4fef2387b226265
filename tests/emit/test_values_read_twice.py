"""Values that are read twice at every step: their formulas double with each, and no one may write them all out."""

from __future__ import annotations

import subprocess
import sys

import pytest

N_STEPS = 40
PROGRAM = """
import sys

import torch

from benchmarks.readability.units import text_of


class Iterated(torch.nn.Module):
    def forward(self, x, places):
        for _ in range({n_steps}):
            x, places = x * x + x, (places * places + places) % 7
        return x[places]


given = torch.randn(7, 5), torch.randint(0, 7, (3,))
texts = text_of((Iterated(), given, {{}}), sys.argv[1], train=False)
print(sum(path.startswith("kernels/") for path in texts))
"""


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_value_that_doubles_forty_times_is_written(device: str) -> None:
    """In a process of its own: what walks through all readings never ends."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(n_steps=N_STEPS), device],
        check=True,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert int(done.stdout.split()[-1]) > 1
