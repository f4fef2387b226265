"""A loop whose turns depend on data is CPython's from its first break on; what is before and after it is captured."""

import sys

import pytest
import torch
from torch import nn

from tests.capture.bytecode.running import Captured, assert_same, check

X = torch.linspace(-2, 2, 24).reshape(6, 4)


class Experts(nn.Module):
    """A mixture of experts as transformers' models have it."""

    def __init__(self, count=6):
        super().__init__()
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(count))
        self.gate, self.norm = nn.Linear(4, count), nn.LayerNorm(4)

    def forward(self, x):
        x = self.norm(x) * 2
        mask = nn.functional.one_hot(self.gate(x).argmax(-1), len(self.experts)).T
        out = torch.zeros_like(x)
        for hit in torch.greater(mask.sum(-1), 0).nonzero():
            (rows,) = torch.where(mask[hit[0]])
            out.index_add_(0, rows, self.experts[hit[0]](x[rows]))
        return self.norm(out + x).sum(-1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        y[y < 0] = 0
        return y + x[x.abs() < 100].reshape(x.shape)


class Stack(nn.Module):
    """Blocks that have a break each."""

    def __init__(self, depth):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(depth)), nn.LayerNorm(4)

    def forward(self, x):
        x = x * 2
        for block in self.blocks:
            x = block(x)
        return self.norm(x).sum(-1) + 1


def breaks(captured):
    return [event for event in captured.events if event.kind.value in ("break", "skip")]


def gradients(function, module, x):
    module.zero_grad()
    result = function(x)
    result.square().sum().backward()
    return result.detach(), [one.grad.clone() for one in module.parameters() if one.grad is not None]


def test_experts_by_data(hook):
    torch.manual_seed(0)
    module = Experts()
    captured = Captured(module)
    for k in range(4):
        x = X.roll(k, 0) * (1 - k)
        assert_same(gradients(captured, module, x), gradients(module, module, x))
    own = [event for event in captured.events if event.kind.value == "graph" and "Experts" in event.text]
    assert len(own) == 3  # up to nonzero, up to the loop's first break, and what comes after the loop
    assert len(breaks(captured)) == 2


def test_blocks_that_break_leave_a_graph_before_and_one_after_the_loop(hook):
    torch.manual_seed(0)
    module = Stack(12)
    captured = Captured(module)
    for _ in range(2):
        assert_same(gradients(captured, module, X), gradients(module, module, X))
    own = [event for event in captured.events if event.kind.value == "graph" and "Stack" in event.text]
    assert len(own) == 2
    assert not [event for event in captured.events if event.kind.value == "eager" and "Stack" in event.text]


def test_a_local_that_is_set_in_the_loop_only(hook):
    def f(x, n):
        for i in range(n):
            y = x * i
            if y.sum() > 0:
                last = i
            z = y + 1
        return z * 2, last + 1

    check(f, (X + 3, 4), (X + 3, 3))


def test_a_local_that_no_turn_sets(hook):
    def f(x, n):
        for i in range(n):
            if (x * i).sum() > 1e9:
                last = i
        return last

    check(f, (X, 3))


def test_break_continue_else_and_return(hook):
    def f(x, limit, quit_at):
        total = x * 0
        for i in range(5):
            if (total.sum() > limit).item():
                total = total - 1
                break
            if i == 2:
                continue
            if i == quit_at:
                return total, i
            total = total + x
        else:
            total = total * 3
        return total + 1, i

    check(f, (X + 3, 50.0, 9), (X + 3, 1e9, 9), (X + 3, 1e9, 3), (X + 3, -1.0, 9))


def test_nested_loops(hook):
    def f(x):
        seen = []
        for i in range(3):
            x = x + i
            for j in range(2):
                if x.sum() > 20:
                    x = x - j
                seen.append((i, j, int(x.shape[0])))
            x = x * 1.5
        return x * 2, seen

    check(f, (X,), (X + 1,))


def test_a_break_behind_an_inner_loop_that_had_none(hook):
    def f(x):
        for _ in range(3):
            for j in range(2):
                x = x + j
            if x.sum() > 20:
                x = x - 2
        return x

    check(f, (X,), (X + 1,))


def test_a_loop_in_a_try_block(hook):
    def f(x, bad):
        seen = []
        try:
            for i in range(4):
                seen.append(i)
                if (x.sum() * i > 10).item():
                    x = x - 1
                if i == bad:
                    raise ValueError(i)
            seen.append("end")
            if bad == 9:
                raise ValueError(9)
        except ValueError as error:
            seen.append(str(error))
        finally:
            seen.append("finally")
        return x * 2, seen

    check(f, (X + 1, 99), (X + 1, 2), (X + 1, 9))


def test_a_loop_in_a_with_block(hook):
    def f(x, w):
        with torch.no_grad():
            for i in range(3):
                x = x * 1.5
                if x.max() > 3:
                    x = x - i
            y = x * w
        return y * w, torch.is_grad_enabled()

    check(f, (X, torch.ones(4, requires_grad=True)))


def test_locals_in_cells(hook):
    def f(x):
        total = x * 0

        def add(value):
            nonlocal total
            total = total + value

        for i in range(3):
            count = i
            if total.sum() >= 0:
                add(x)
        return total * 2, (lambda: count)()

    check(f, (X + 1,))


def test_comprehensions(hook):
    def f(x):
        parts = [row * 2 if row.sum() > 0 else row for row in x]
        return torch.stack(parts) + 1, [int(part.numel()) for part in parts]

    check(f, (X,))


def test_iterators_that_are_used_elsewhere(hook):
    def f(x, numbers):
        taken = iter(numbers)
        for i in taken:
            x = x + i
            if x.sum() > 30:
                x = x - next(taken)
        return x, list(taken)

    check(f, (X, [1, 2, 3, 4, 5]), (X + 2, [1, 2, 3, 4, 5]))


def test_a_local_that_the_loop_deletes(hook):
    def f(x, n):
        extra = x * 2
        for i in range(n):
            if x.sum() > -1e9:
                x = x + i
            del extra
            extra = x * i
        return x + extra

    check(f, (X, 3))


@pytest.mark.parametrize("count", [1, 7])
def test_a_while_loop_around(hook, count):
    def f(x, n):
        while n > 0:
            n -= 1
            for i in range(2):
                if x.sum() > 10:
                    x = x - i
            x = x * 1.2
        return x

    check(f, (X + 1, count))


def spread(x):
    """As kornia's canny: a while loop that asks a tensor, and whose test stands at its end again."""
    y = x * 2
    old = torch.zeros_like(y)
    while ((old - y).abs() > 1e-3).any():
        old = y
        y = (y * 0.5).round(decimals=2)
    return y + old


def test_a_while_loop_that_asks_a_tensor_is_assembled():
    """On 3.11 its test jumps backward; what continues it stands behind."""
    captured = Captured(spread)
    assert_same(captured(X), spread(X))
    assert not [event for event in breaks(captured) if "assembled" in str(event)]


def counted(x, limit):
    turns = 0
    while x.sum() < limit:
        x = x * 1.001 + 0.001
        turns += 1
    return x * 2, turns


def test_a_while_loop_of_many_turns(hook):
    """Every turn was a continuation that the one before it called: CPython's stack ended before the loop did."""
    captured = Captured(counted)
    x = torch.full((3,), 0.001)
    for _ in range(2):
        assert_same(captured(x, 9.0), counted(x, 9.0))
    assert counted(x, 9.0)[1] > sys.getrecursionlimit()
    assert captured.count("graph") == 3  # the test, a turn and the next test, and what comes after the loop


def test_ways_out_of_while_loops(hook):
    def f(x, limit, quit_at):
        turns = 0
        while x.sum() < limit and turns < 9:
            turns += 1
            if (x.sum() > 20).item():
                x = x - 1
                break
            if turns == quit_at:
                return x, turns
            if turns % 2:
                continue
            x = x + 1
        else:
            x = x * 3
        return x + 1, turns

    check(f, (X, 50.0, 20), (X, 1e9, 20), (X, 1e9, 3), (X + 1, 30.0, 20), (X - 9, -1e3, 20))


def test_a_while_loop_that_only_breaks_end(hook):
    def f(x, n):
        for i in range(n):
            while True:
                x = x + 1
                if x.sum() > 20 * (i + 1):
                    break
                x = x * 1.1
            x = x - i
        return x * 2

    check(f, (X, 3), (X + 5, 2), (X, 0))


def test_a_while_loop_around_a_for_loop_inside_a_manager(hook):
    def f(x):
        with torch.no_grad():
            while x.abs().max() < 30:
                for k in range(2):
                    if x.sum() > 5:
                        x = x + k
                    x = x * 2
        return x + 1

    check(f, (X,), (X + 1,), (X + 100,))
