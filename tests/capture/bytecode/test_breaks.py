"""Graph breaks anywhere, captured, against eager."""

import pytest
import torch

from tests.capture.bytecode.behaviours import Behaviours, Config, Manager, X, helper

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X,), breaks=None)
def print_in_the_middle(x):
    y = x + 1
    print("middle", end="")
    return y * 2


@behaviour((X, [1]), breaks=None)
def break_with_everything_alive(x, given):
    y, n, t = x + 1, 3, ("t", x)
    given.append(y)
    made = {"k": [y, n]}
    print("", end="")
    made["k"].append(given)
    return y * n, t, made, given


@behaviour((X,), breaks=None)
def break_in_a_loop(x):
    for i in range(3):
        x = x + i
        print("", end="")
    return x * 2


@behaviour((X,), breaks=None)
def break_in_a_call(x):
    def inner(y):
        y = y * 2
        print("", end="")
        return y + 1

    return inner(x) + inner(x + 1)


@behaviour((X, []), breaks=None)
def break_in_with(x, log):
    with Manager(log) as n:
        x = x + n
        print("", end="")
        return x * 2


@behaviour((X.clone().requires_grad_(),), breaks=None)
def break_in_no_grad(x):
    with torch.no_grad():
        a = x * 2
        print("", end="")
        b = x * 3
    return a, b, x * 4, torch.is_grad_enabled()


@behaviour((X,), breaks=None)
def break_in_try(x):
    log = []
    try:
        y = x + 1
        print("", end="")
        y = y * 2
        {}["missing"]
    except KeyError:
        log.append("caught")
    finally:
        log.append("finally")
    return y, log


@behaviour((X,), breaks=None)
def the_breaking_call_raises(x):
    y = x + 1
    try:
        int("not a number", base=len(str(x.sum().item())) * 0 + 10)
    except ValueError:
        y = y * 2
    return y + 1


@behaviour((X,), breaks=None)
def item_in_the_middle(x):
    n = x.sum().item()
    return x + n, round(n, 3)


@behaviour((X,), breaks=None)
def tolist_in_the_middle(x):
    return [v * 2 for v in (x + 1)[0].tolist()], x * 2


@behaviour((X,), breaks=None)
def break_in_an_argument(x):
    def noisy(y):
        print("", end="")
        return y + 1

    return helper(x, noisy(x).sum().item(), c=noisy(x)) + 1


@behaviour((X, 2), breaks=None)
def break_with_cells(x, n):
    total = x

    def add(k):
        nonlocal total
        total = total + k * n

    add(1)
    print("", end="")
    add(2)
    n = 5
    add(3)
    return total


@behaviour((X,), breaks=None)
def break_in_a_comprehension(x):
    return [x + len(repr(x.sum().item())) * 0 + i for i in range(3)]


@behaviour((X,), breaks=None)
def break_in_a_condition(x):
    y = x + 1
    return y if x.sum().item() > -1000 and y.sum() < 1e9 else y * 3


@behaviour((X,), breaks=None)
def break_in_string_formatting(x):
    y = x * 2
    return f"{y.sum().item():.2f} {y.shape[0]}", y + 1


@behaviour((X, Config(2)), breaks=None)
def break_after_attribute_writes(x, config):
    config.scale = x + 1
    print("", end="")
    config.other = config.scale * 2
    return config.other


class Base:
    def __init__(self, x):
        self.base = x + 1

    def result(self, x):
        return x * 2


class Noisy(Base):
    def __init__(self, x):
        y = x * 3
        print("", end="")
        super().__init__(y)
        self.later = [y]

    def result(self, x):
        x = x + 1
        print("", end="")
        inner = lambda: self.base  # noqa: E731
        return super().result(x) + inner()


@behaviour((X,), breaks=None)
def break_before_super(x):
    made = Noisy(x)
    return made, made.result(x)


@behaviour((X,), breaks=None)
def nested_loops_with_breaks(x):
    for i in range(2):
        for j in [1, 2]:
            x = x + i * j
            if x.sum() > 1e6:
                break
    return x


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
