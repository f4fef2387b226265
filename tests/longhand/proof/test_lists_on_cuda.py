"""A CUDA unit that takes lists of tensors is run once before it is kept, where there is no GPU, too."""

import warnings

import torch

import longhand


def scaled(params, grads):
    """One step for all tensors of a list, in place."""
    for param, grad in zip(params, grads, strict=True):
        param.mul_(0.75).add_(grad, alpha=-0.5)


def test_lists_of_tensors_are_interpreted(tmp_path):
    params, grads = ([torch.randn(5, 3), *(torch.randn(7) for _ in range(7))] for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as: not run
        longhand.generate(scaled, (params, grads), out=tmp_path / "unit", device="cuda", arch="sm_90")
    assert "check_tensors(" in (tmp_path / "unit" / "model.py").read_text()
