"""``torch.IntTensor([64])`` and its kin of numbers are calls of the graph; a slice up to such a number has a size."""

import pytest
import torch

from tests.capture.bytecode.running import check

X = torch.arange(24.0).reshape(4, 6)
_KINDS = "Byte Char Short Int Long Half BFloat16 Float Double".split()


def breaks(captured):
    return [event.text for event in captured.events if event.kind.value in ("break", "skip")]


@pytest.mark.parametrize("word", _KINDS)
def test_of_numbers(hook, word):
    kind = getattr(torch, f"{word}Tensor")

    def f(x):
        return x.sum() * kind([1, 2]), kind([[3], [4]]), kind([])

    assert not breaks(check(f, (X,)))


def test_of_truths_and_fractions(hook):
    def f(x):
        return (
            torch.BoolTensor([True, False]),
            torch.FloatTensor((1.5, 2)),
            torch.DoubleTensor([float("nan")]),
        )

    assert not breaks(check(f, (X,)))


def test_of_something_else_is_eagers(hook):
    def f(x, n):
        made = torch.IntTensor(n)
        return made.shape, torch.FloatTensor([x.sum()]) if n == 2 else None, torch.LongTensor(x[0].long())

    check(f, (X, 2), (X, 3))


def test_a_slice_up_to_a_number_in_a_tensor(hook):
    def f(x):
        n = torch.IntTensor([2])
        k = n[0]
        first = x[:, :k].tanh() * x[:, 4:]
        n.add_(1)
        return first, x[:, :k] + x[:, k:], x[n[0] :], k

    assert not breaks(check(f, (X,)))


def test_a_number_from_outside_is_no_constant(hook):
    def f(x, n):
        return x[:, : n[0]] * 2

    check(f, (X, torch.IntTensor([2])), (X, torch.IntTensor([3])))
