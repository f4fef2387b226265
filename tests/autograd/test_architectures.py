"""Gradients of real architectures against float64: at most twice as far off as eager's, or one ulp at their scale."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
import torch.utils._pytree as pytree
import transformers
from torch import nn

from longhand.backend import longhand_backend
from tests.models.hugging_face import MODELS

SEED = 3
DROPOUT = 0.1


ARCHITECTURES = {name: MODELS[name] for name in ("gpt2", "bert")}


def _step(model, run, inputs, dtype):
    """By name: results, gradients and buffers after one step with a seed."""
    given = {
        name: value.to(dtype) if value.is_floating_point() else value.clone()
        for name, value in inputs.items()
    }
    torch.manual_seed(SEED)
    results = [
        leaf
        for leaf in pytree.tree_leaves(
            dict(run(**given)) if isinstance(model, transformers.PreTrainedModel) else run(**given)
        )
        if isinstance(leaf, torch.Tensor)
    ]
    generator = torch.Generator().manual_seed(SEED)
    torch.autograd.backward(results, [torch.randn(r.shape, generator=generator).to(r.dtype) for r in results])
    found = {f"result {place}": result.detach() for place, result in enumerate(results)}
    found |= {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return found | {f"buffer {name}": buffer.clone() for name, buffer in model.named_buffers()}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("dropout", [DROPOUT, 0.0], ids=["dropout", "no dropout"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_gradients_are_as_good_as_eagers(name, dropout, dtype):
    torch.manual_seed(0)
    model, inputs = ARCHITECTURES[name]()
    model = model.to(dtype).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
        if hasattr(module, "attention_dropout") and isinstance(module.attention_dropout, float):
            module.attention_dropout = dropout
    exact_model, ours_model = copy.deepcopy(model).double(), copy.deepcopy(model)
    torch.compiler.reset()
    reports = []
    run = torch.compile(ours_model, backend=functools.partial(longhand_backend, report=reports.append))
    exact = _step(exact_model, exact_model, inputs, torch.float64)
    eager = _step(model, model, inputs, dtype)
    ours = _step(ours_model, run, inputs, dtype)
    assert reports and not [report.reason for report in reports if report.reason]
    assert ours.keys() == eager.keys()
    for key, theirs in eager.items():
        if not theirs.is_floating_point():
            assert torch.equal(ours[key], theirs), key
            continue
        ulp = torch.finfo(theirs.dtype).eps * exact[key].abs().max().item()
        allowed = max(2 * (theirs.double() - exact[key]).abs().max().item(), ulp)
        assert (ours[key].double() - exact[key]).abs().max().item() <= allowed, key
