"""A forward that autograd itself calls, because its Function was not captured: the context that it is given."""

import torch

from tests.capture.bytecode.running import Captured

X = torch.linspace(-1, 1, 6).reshape(2, 3)
SETTINGS = {"power": 3}


class Powers(torch.autograd.Function):
    """Keeps a dict on ctx that others may change before backward reads it: its apply is a graph break."""

    @staticmethod
    def forward(ctx, x, scale, settings):
        powers = x ** settings["power"]
        result = powers * scale
        ctx.save_for_backward(x, scale, powers, result)
        ctx.settings = settings
        return result

    @staticmethod
    def backward(ctx, grad):
        x, scale, powers, result = ctx.saved_tensors
        power = ctx.settings["power"]
        return grad * scale * power * x ** (power - 1), (grad * powers).sum(0) + 0 * result.sum(), None


def powers(x, scale, settings):
    return Powers.apply(x + 1, scale, settings) * 2


def trained(call, settings, between=lambda: None):
    x, scale = X.clone().requires_grad_(), torch.arange(1.0, 4).requires_grad_()
    result = call(x, scale, settings)
    between()
    result.sum().backward()
    return result.detach(), x.grad, scale.grad


def test_what_is_saved_is_no_break_of_its_own():
    captured = Captured(powers)
    for _ in range(2):
        for mine, theirs in zip(trained(captured, SETTINGS), trained(powers, SETTINGS), strict=True):
            assert torch.equal(mine, theirs)
    reasons = [event.record.reason for event in captured.events if event.record]
    assert len(reasons) == 1 and "keeps an object on ctx" in reasons[0], reasons


def test_backward_reads_what_is_in_the_dict_then():
    """Why the call itself stays a break: a graph of forward and backward would have the old power in both."""
    found = []
    for call in (Captured(powers), powers):
        settings = dict(SETTINGS)
        found.append(trained(call, settings, lambda settings=settings: settings.update(power=2)))
    for mine, theirs in zip(*found, strict=True):
        assert torch.equal(mine, theirs)
    assert not torch.equal(found[0][1], trained(powers, SETTINGS)[1])


def test_what_is_saved_and_written_to_is_told_by_autograd():
    """The tensors that forward was given are saved, not copies of them."""

    def with_a_write(x, scale, settings):
        y = x * 1
        result = Powers.apply(y, scale, settings)
        y.add_(1)
        return result

    for call in (Captured(with_a_write), with_a_write):
        try:
            trained(call, SETTINGS)
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
        else:
            raise AssertionError("autograd said nothing")
