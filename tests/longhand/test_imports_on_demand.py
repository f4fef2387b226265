"""What `longhand.generate` brings along, and what it imports only where a call asks for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Own capture from bytecode, what runs behind longhand.compile, and minimum cuts of training.
ON_DEMAND = ("longhand.capture.bytecode.frames", "longhand.compiled", "torch._dynamo", "networkx")
PROGRAM = f"""
import sys, torch, longhand
longhand.generate
print(*[name for name in sys.modules if name.startswith({ON_DEMAND!r})])
"""


def test_a_call_of_one_graph_does_without_own_capture_and_dynamo() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, timeout=120, stdout=subprocess.PIPE, text=True
    )
    assert found.stdout.split() == []


def test_what_is_asked_for_is_there(tmp_path: Path) -> None:
    """In a process that has nothing else of it: own capture, a call of several graphs, and a backward pass."""
    program = f"""
import torch, longhand

def broken(x):
    y = x * 2
    torch._dynamo.graph_break()
    return y + 1

def whole(x):
    return torch.sin(x) + 1

x = torch.ones(3)
longhand.generate(whole, (x,), out={str(tmp_path / "own")!r}, frontend="bytecode", run=False)
parts = longhand.generate(
    broken, (x,), out={str(tmp_path / "parts")!r}, frontend="bytecode", allow_breaks=True, run=False
)
assert len(parts.graphs) == 2, parts
longhand.generate(torch.nn.Linear(3, 2), (x,), out={str(tmp_path / "trained")!r}, train=True, run=False)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
