"""Rows of the table of architectures that exercised something new; all: ``python -m benchmarks.architectures``."""

import pytest
import torch

from benchmarks.architectures import catalog
from benchmarks.architectures.compiled import compiled_result
from benchmarks.architectures.rows import Verdict
from longhand.options import Frontend


@pytest.mark.parametrize("name", ["bart", "falcon", "resnet"])
def test_inference_through_dynamo(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    example = catalog.example(f"transformers/{name}")
    result = compiled_result(example, torch.float32, Frontend.DYNAMO, train=False)
    torch.compiler.reset()
    assert result.verdict is Verdict.RIGHT, result
    assert result.numbers["share"] >= 0.6, result
