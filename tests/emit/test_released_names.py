"""What ``del`` names: the variables that hold the memory that goes, not those that held it once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import longhand


def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    norm = torch.mm(x, w)
    total = torch.exp(norm)  # takes over norm's memory; the word is free
    norm = torch.mm(total, w)
    y = torch.mm(norm, w)
    for _ in range(3):
        y = torch.mm(y, w)
    other = torch.mm(total, y)
    for _ in range(3):
        other = torch.mm(other, w)
    return other


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_memory_that_was_taken_over_goes_by_its_new_name(emit: Any, device: str) -> None:
    text = str(emit(function, (torch.empty(4096, 4096), torch.empty(4096, 4096)), device=device)["model.py"])
    dropped = [name for line in re.findall(r"^ *del (.*)$", text, re.MULTILINE) for name in line.split(", ")]
    assert dropped.count("norm") == 1 and dropped.count("total") == 1, text


def test_a_call_within_a_function_drops_what_the_function_has(tmp_path: Path) -> None:
    """Not the first name of memory that the function was given, which only its caller knows."""
    config = transformers.T5Config(vocab_size=64, num_layers=2, dropout_rate=0.0, use_cache=False)
    model = transformers.T5Model(config).to(torch.bfloat16).train()
    example = {
        "input_ids": torch.randint(64, (16, 512)),
        "decoder_input_ids": torch.randint(64, (16, 128)),
    }
    out = tmp_path / "unit"
    longhand.generate(model, (), example, out=out, device="cuda", arch="sm_90", train=True, run=False)
    text = (out / "model.py").read_text()
    # What T5LayerFF does is what the module in it does: no function stands between them.
    assert "def t5_dense_act_dense(" in text and "def t5_layer_ff" not in text
