"""The garbage collector rests while a unit is compiled, and is left as it was."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest
import torch
from torch import nn

import longhand
from longhand.collection import no_collection


def test_it_is_left_as_it_was() -> None:
    with no_collection():
        with no_collection():
            assert not gc.isenabled()
        assert not gc.isenabled(), "another compilation is still going on"
    assert gc.isenabled()
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_after_an_error_too(tmp_path: object) -> None:
    class Wrong(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError

    with pytest.raises(Exception):  # noqa: B017 - whatever the stage makes of it
        longhand.generate(Wrong(), (torch.ones(2),), out=f"{tmp_path}/unit")
    assert gc.isenabled()


def test_it_rests_while_the_compiler_is_imported() -> None:
    """Or a fresh process spends as long on looking at what torch has made as on importing longhand."""
    program = """
import gc, torch, longhand
found = []
gc.callbacks.append(lambda phase, info: found.append(phase))
longhand.generate
assert found.count("start") <= 1, "afterwards, of what was made"
assert gc.isenabled()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
