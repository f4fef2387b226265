"""What the forward pass keeps for the backward: no more than torch.compile's partitioner or eager keep."""

from __future__ import annotations

import pytest

from benchmarks.saved_bytes import EXAMPLES, count


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_more_is_kept_than_by_torch_compile_and_eager(name):
    found = count(name)
    assert 0 < found["longhand"] <= found["torch.compile"]
    # Of the ResNet block eager keeps what its convolutions, norms and ReLUs read, and nothing else.
    assert found["longhand"] < found["eager"] or name == "resnet_block_train"
    assert found["longhand"] <= found["eager"]
