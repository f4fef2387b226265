"""A class that a call defines: no graph break where nobody looks into it, the same class where somebody does."""

from __future__ import annotations

import torch

import longhand
from longhand.capture.bytecode.entry.entries import Event, EventKind
from longhand.compiled.from_bytecode import captured

X = torch.linspace(-2, 2, 6)


def breaks_of(function, *args):
    """Eager's result, the captured call's result, and the breaks of that."""
    longhand.reset()
    found: list[str] = []

    def listen(event: Event) -> None:
        if event.kind in (EventKind.BREAK, EventKind.SKIP):
            found.append(event.text)

    return function(*args), captured(function, listener=listen)(*args), found


def returned(x, factor):
    class Local:
        """Times a factor."""

        limit = 3

        def go(self, y):
            return y * factor + self.limit

    return x + 1, Local


def applied(x):
    class Local(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y):
            return y * 2

        @staticmethod
        def backward(ctx, d):
            return d * 2

    return Local.apply(x) + 1


SEEN: list[str] = []


def seen(x):
    class Local:
        SEEN.append("body")

    return x + 1, Local.__name__


def test_torch_masked_is_one_graph():
    mask = X > 0
    expected, found, breaks = breaks_of(lambda x: torch.masked.mean(x, 0, mask=mask) + torch.masked.sum(x), X)
    torch.testing.assert_close(found, expected)
    assert not breaks


def test_a_class_that_is_returned():
    (_, wanted), (result, found), breaks = breaks_of(returned, X, 2)
    assert not breaks
    assert torch.equal(result, X + 1)
    assert (found.__qualname__, found.__doc__, found.__module__) == (
        wanted.__qualname__,
        wanted.__doc__,
        wanted.__module__,
    )
    assert torch.equal(found().go(X), wanted().go(X))


def test_a_class_that_is_used_ends_the_graph_where_it_is_defined():
    expected, found, breaks = breaks_of(applied, X)
    assert torch.equal(found, expected)
    assert len(breaks) == 1
    assert "a class is defined, and used" in breaks[0]


def test_a_body_that_does_something_runs_when_it_stands_there():
    SEEN.clear()
    expected, found, breaks = breaks_of(seen, X)
    assert torch.equal(found[0], expected[0])
    assert found[1] == "Local"
    assert SEEN == ["body"] * 2
    assert "whose body runs code" in breaks[0]
