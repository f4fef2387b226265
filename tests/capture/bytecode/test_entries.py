"""What a capture keeps for one code object: entries, errors, limits."""

import re
import subprocess
import sys
from collections import Counter

import pytest
import torch
from torch import nn

from longhand.capture.bytecode.entry.entries import Capture
from tests.capture.bytecode.behaviours import X
from tests.capture.bytecode.running import Captured, outcome


def prints_in_the_middle(x):
    y = x + 1
    print("middle", end="")
    return y * 2


def test_fullgraph_names_the_break(hook):
    from_capture = outcome(Captured(prints_in_the_middle, fullgraph=True), (X,))
    assert from_capture[0] == "raises" and "print() writes" in from_capture[2] and __file__ in from_capture[2]


def test_a_capture_is_a_plain_object(hook):
    assert Capture(lambda module, inputs: module.forward).codes == {}


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(block(x))
        return x


def entry_of(module):
    """What capture made of a call of a module's forward."""
    captured = Captured(module.forward)
    with torch.no_grad():
        assert torch.equal(captured(X), module(X))
    (entries,) = captured.capture.codes.values()
    return entries.captured[-1]


def test_the_graph_gets_what_the_guards_found(hook):
    """A path to a weight is walked once a call; it was walked again from its root for the graph."""
    made = entry_of(Branch())
    assert made.source.count("['weight']") == made.source.count("['bias']") == 3
    assert made.source.count("['blocks']") == 1


def test_an_entry_keeps_only_what_is_read_again(hook):
    made = entry_of(Branch())
    words = Counter(re.findall(r"\bv\d+\b", made.source))
    assert words and min(words.values()) >= 2


@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward", "full_backward_pre"])
def test_a_hook_that_comes_later_is_seen(hook, kind):
    module, calls = Branch(), []
    captured = Captured(module.forward)
    x = X.clone().requires_grad_()
    captured(x).sum().backward()
    handle = getattr(module.blocks[1], f"register_{kind}_hook")(lambda *seen: calls.append(kind))
    captured(x).sum().backward()
    assert calls == [kind]
    handle.remove()
    captured(x).sum().backward()
    assert calls == [kind]


_ASKS = """
from longhand.capture.bytecode.skips import reason_to_skip
from longhand.telling import tracebacks
print(reason_to_skip(tracebacks.hide_own_frames.__code__))
"""


def test_no_code_of_longhand_is_captured(tmp_path):
    """Where it is installed: its rooms stand inside the package."""
    asked = subprocess.run([sys.executable, "-c", _ASKS], cwd=tmp_path, capture_output=True, text=True)
    if "No module named" in asked.stderr:
        pytest.skip("longhand is not installed here")
    assert asked.stdout.strip() == "longhand's own code", asked.stderr
