"""Tensors of a list that a call writes and never reads have words in model.py, too."""

import torch

import longhand
from longhand.emit.unit.loading import load_unit


def copies(targets, sources):
    torch._foreach_copy_(targets, sources)


def test_tensors_of_a_list_that_are_written_alone(tmp_path):
    given = [torch.zeros(3), torch.zeros(4)], [torch.rand(3), torch.rand(4)]
    longhand.generate(copies, given, out=tmp_path / "unit", run=False)
    load_unit(tmp_path / "unit")(*given)
    assert all(torch.equal(one, other) for one, other in zip(*given, strict=True))
