"""Parts of one tensor that a training call returns are taken outside, whichever frontend saw them taken."""

from __future__ import annotations

import pytest
import torch

from longhand.capture.bytecode.entry.entries import Capture
from longhand.capture.frontends.result_views import peel


def halves(x):
    return torch.tanh(x).transpose(0, 1).chunk(2, dim=0)


def first_and_last(x):
    parts = torch.exp(x).unbind(0)
    return parts[0], parts[-1]


@pytest.mark.parametrize("function", [halves, first_and_last])
@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
def test_parts_of_one_tensor(function, frontend):
    peeled = []

    def backend(module, inputs):
        peeled.append(peel(module))
        return peeled[-1].completed(peeled[-1].module)

    x = torch.randn(4, 6, requires_grad=True)
    if frontend == "dynamo":
        torch._dynamo.reset()
        results = torch.compile(function, backend=backend)(x)
    else:
        results = Capture(backend).call(function, (x,), {})
    (one,) = peeled
    assert [node.target for node in one.results] in ([torch.tanh], [torch.exp])
    for ours, eager in zip(results, function(x), strict=True):
        assert torch.equal(ours, eager)
        assert ours.untyped_storage().data_ptr() == results[0].untyped_storage().data_ptr()


def in_place(x):
    return torch.nn.functional.relu(x, inplace=True)


@pytest.mark.parametrize(
    ("function", "n_outside"),
    [
        (lambda x: torch.slice_copy(x, 0, 1, 2), 0),
        (lambda x: torch.ops.aten.slice(x, 0, 1, 2), 1),
        (lambda x: torch.linalg.diagonal(x), 1),
        (lambda x: torch.atleast_3d(x), 1),
        (in_place, 0),
    ],
)
def test_a_view_is_what_shares_memory_and_writes_nothing(function, n_outside):
    peeled = []

    def backend(module, inputs):
        peeled.append(peel(module))
        return module

    Capture(backend).call(function, (torch.randn(4, 6),), {})
    assert [len(one.views) if one else 0 for one in peeled] == [n_outside]


def argument_itself(x):
    return torch.nn.functional.dropout(x, 0.5, training=False), torch.exp(x)


def value_twice(x):
    y = torch.exp(x)
    return y, torch.nn.functional.dropout(y, 0.5, training=False)


@pytest.mark.parametrize("function", [argument_itself, value_twice])
def test_dropout_that_drops_nothing_gives_its_argument(function):
    """In a trace of Dynamo's it is a copy."""
    peeled = []

    def backend(module, inputs):
        peeled.append(peel(module))
        return peeled[-1].completed(peeled[-1].module)

    torch._dynamo.reset()
    x = torch.randn(4, 6, requires_grad=True)
    results = torch.compile(function, backend=backend)(x)
    (one,) = peeled
    assert [node.target for node in one.results] == [torch.exp]
    memory = {value.untyped_storage().data_ptr() for value in (x, *results)}
    assert len(memory) == 2
