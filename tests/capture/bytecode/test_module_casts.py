"""`module.to(...)` that changes nothing is nothing; what does change something is a break, as eager does it."""

import copy

import pytest
import torch
from torch import nn

from tests.capture.bytecode.running import Captured, outcome

X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Router(nn.Module):
    """As Switch Transformers have it."""

    def __init__(self, dtype, *others):
        super().__init__()
        self.classifier = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
        self.dtype, self.others = dtype, others

    def forward(self, x):
        self.classifier = self.classifier.to(self.dtype, *self.others)
        return self.classifier(x.to(self.dtype)) * 2


class Remembering(Router):
    """Writes another attribute first."""

    def forward(self, x):
        self.seen = x.dtype
        return super().forward(x)


def breaks(captured):
    return [event.text for event in captured.events if event.kind.value in ("break", "skip")]


@pytest.mark.parametrize("kind", [Router, Remembering])
def test_what_changes_nothing_is_no_break(hook, kind):
    model = kind(torch.float32)
    before = model.classifier
    captured = Captured(model)
    wanted = copy.deepcopy(model)(X)
    for _ in range(2):
        assert torch.equal(captured(X), wanted)
    assert not breaks(captured)
    assert captured.count("graph") == 1
    assert model.classifier is before
    assert list(model._modules)[0] == "classifier"


class Exchanging(Router):
    def forward(self, x, other):
        self.seen = x.dtype
        mine = self.classifier
        self.classifier = other
        result = self.classifier(x)
        self.classifier = mine
        return result


def test_another_module_in_between_is_not_the_same(hook):
    model, other = Exchanging(torch.float32), nn.Linear(4, 4)
    captured = Captured(model)
    for _ in range(2):
        assert torch.equal(captured(X, other), other(X))


def test_a_weight_of_another_type_is_noticed_at_the_next_call(hook):
    model = Router(torch.float32)
    captured = Captured(model)
    captured(X)
    model.classifier.double()
    wanted = copy.deepcopy(model)(X)
    assert torch.equal(captured(X), wanted)
    assert model.classifier[0].weight.dtype is torch.float32


class Own(nn.Linear):
    """Does more than to cast."""

    def _apply(self, fn, recurse=True):
        self.n_casts = getattr(self, "n_casts", 0) + 1
        return super()._apply(fn, recurse)


def replaced(model, part):
    model.classifier[0] = part
    return model


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Router(torch.float64), "a module is cast or moved"),
        (Router(torch.float32, True), "a module is cast or moved by more than a dtype and a device"),
        (replaced(Router(torch.float32), Own(4, 4)), "a module that says itself how it is cast"),
    ],
)
def test_all_else_is_eagers(hook, model, reason):
    theirs = copy.deepcopy(model)
    captured = Captured(model)
    for _ in range(2):
        kind, found, *_ = outcome(captured, (X,))
        same, wanted, *_ = outcome(theirs, (X,))
        assert kind == same
        assert torch.equal(found, wanted) if kind == "value" else found is wanted
    assert getattr(model.classifier[0], "n_casts", 0) == getattr(theirs.classifier[0], "n_casts", 0)
    assert any(reason in text for text in breaks(captured))
