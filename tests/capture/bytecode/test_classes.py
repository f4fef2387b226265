"""A class that changes after capture: methods replaced, added, removed; in a base; data changes nothing."""

import pytest
import torch
from torch import nn

from longhand.capture.bytecode.values.classes import ClassFacts
from tests.capture.bytecode.behaviours import X
from tests.capture.bytecode.running import Captured


def classes():
    class Base:
        counter = 0

        def scale(self, x):
            return x * 2

        def __len__(self):
            return 3

    class Derived(Base):
        def twice(self, x):
            return super().scale(x) * 2

    return Base, Derived


def uses(x, owner):
    return owner.scale(x) + len(owner) + owner.twice(x)


def replaced(base, derived):
    base.scale = lambda self, x: x * 5


def overridden(base, derived):
    derived.scale = lambda self, x: x * 7


def length_changes(base, derived):
    base.__len__ = lambda self: 10


def becomes_a_property(base, derived):
    derived.scale = property(lambda self: lambda x: x - 1)


def reads_through_a_hook(base, derived):
    def get(self, name):
        return (lambda x: x * 100) if name == "scale" else object.__getattribute__(self, name)

    derived.__getattribute__ = get


def other_bases(base, derived):
    class Other:
        def scale(self, x):
            return x + 1000

        def __len__(self):
            return 0

    derived.__bases__ = (Other, base)


@pytest.mark.parametrize(
    "change", [replaced, overridden, length_changes, becomes_a_property, reads_through_a_hook, other_bases]
)
def test_a_change_is_noticed(hook, change):
    base, derived = classes()
    captured = Captured(uses)
    for _ in range(2):
        assert torch.equal(captured(X, derived()), uses(X, derived()))
    change(base, derived)
    for _ in range(2):
        assert torch.equal(captured(X, derived()), uses(X, derived()))
    assert captured.count("recompile") == 1


def test_what_was_not_used_may_change(hook):
    base, derived = classes()
    captured = Captured(uses)
    captured(X, derived())
    for number in range(3):
        base.counter = number
        derived.unused = lambda self: None
        captured(X, derived())
    assert captured.count("recompile") == 0


def test_forward_is_replaced(hook):
    class Net(nn.Module):
        def forward(self, x):
            return x + 1

    net, captured = Net(), Captured(lambda module, x: module(x))
    captured(net, X)
    Net.forward = lambda self, x: x * 3
    assert torch.equal(captured(net, X), X * 3)


def test_a_function_in_a_class_is_removed(hook):
    _, derived = classes()
    derived.scale = lambda self, x: x * 11
    captured = Captured(uses)
    captured(X, derived())
    del derived.scale
    assert torch.equal(captured(X, derived()), uses(X, derived()))


def test_versions(hook):
    base, derived = classes()
    facts = ClassFacts()
    facts.lookup(derived, "scale")
    facts.lookup(int, "bit_length")  # nobody can change it
    guard = facts.guard()
    assert guard.classes == (derived,) and hook.same_tags(guard.classes, guard.tags)
    base.other = 1
    assert not hook.same_tags(guard.classes, guard.tags)
    assert guard.recheck() and hook.same_tags(guard.classes, guard.tags)
    base.scale = None
    assert not guard.recheck()
    with pytest.raises(TypeError):
        hook.same_tags((1,), guard.tags)
    with pytest.raises(TypeError):
        hook.type_tags([int])
