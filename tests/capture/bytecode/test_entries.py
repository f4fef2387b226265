"""What a capture keeps for one code object: entries, errors, limits."""

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
