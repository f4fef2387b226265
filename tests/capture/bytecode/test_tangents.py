"""Whether a tensor has a tangent is known where no level of forward-mode derivatives is open; elsewhere it is asked."""

import torch
import torch.autograd.forward_ad as forward_ad

from tests.capture.bytecode.running import Captured

X = torch.linspace(-2, 2, 6)


def by_tangent(x):
    if forward_ad.unpack_dual(x).tangent is None:
        return x * 2
    return x * 3


def both_parts(x):
    value, tangent = forward_ad.unpack_dual(x)
    return value + 1, tangent


def breaks(captured):
    return [event.text for event in captured.events if event.kind.value in ("break", "skip")]


def test_outside_of_a_level_there_is_none(hook):
    for function in (by_tangent, both_parts):
        captured = Captured(function)
        for _ in range(2):
            torch.testing.assert_close(captured(X), function(X))
        assert not breaks(captured) and captured.count("graph") == 1


def test_inside_of_a_level_there_may_be_one(hook):
    captured = Captured(by_tangent)
    assert torch.equal(captured(X), X * 2)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(X, torch.ones(6))
        value, tangent = forward_ad.unpack_dual(captured(dual))
        assert torch.equal(value, X * 3) and torch.equal(tangent, torch.full((6,), 3.0))
        assert torch.equal(captured(X), X * 2)
    assert torch.equal(captured(X), X * 2)
