"""Hugging Face architectures that exercised something new; the whole list: ``python -m benchmarks.architectures``."""

import pytest
import torch

from benchmarks.architectures import measure


@pytest.mark.parametrize("name", ["bart", "falcon", "resnet"])
def test_architecture(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    row = measure(name)
    torch.compiler.reset()
    assert row.is_right, row
    assert row.share >= 0.6, row
    assert not [reason for reason in row.fallbacks if reason.startswith("eager")]
