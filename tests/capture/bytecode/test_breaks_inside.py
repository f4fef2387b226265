"""Graph breaks inside blocks, expressions and calls, captured, against eager."""

import pytest
import torch

from tests.capture.bytecode.behaviours import Behaviours, Config, Manager, X
from tests.capture.bytecode.running import Captured

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X,), breaks=None)
def break_in_except(x):
    y = x + 1
    try:
        raise ValueError("v")
    except ValueError as error:
        print("", end="")
        y = y * len(error.args)
    return y * 2


@behaviour((X,), breaks=None)
def break_in_finally(x):
    y = x + 1
    try:
        y = y * 2
    finally:
        print("", end="")
        y = y + 3
    return y


@behaviour((X, []), breaks=None)
def break_in_nested_with(x, log):
    with Manager(log) as a:
        with Manager(log) as b:
            x = x * a
            print("", end="")
            x = x + b
        log.append("between")
        print("", end="")
    return x, len(log)


@behaviour((X, []), breaks=None)
def exception_after_break_in_with(x, log):
    with Manager(log):
        x = x + 1
        print("", end="")
        raise ValueError("swallowed")
    return x * 2


@behaviour((X, []), breaks=None)
def return_from_with_after_break(x, log):
    with Manager(log):
        print("", end="")
        return x + 1


@behaviour((X,), breaks=None)
def loop_control_after_breaks(x):
    out = []
    for i in range(5):
        print("", end="")
        if i == 1:
            continue
        if i == 3:
            break
        out.append(x + i)
    else:
        out.append("else")
    return out


@behaviour((X,), breaks=None)
def while_else_with_breaks(x):
    n = 0
    while n < 3:
        n += 1
        print("", end="")
        x = x + n
    else:
        x = x * 10
    return x


@behaviour((X,), breaks=None)
def class_defined_inside(x):
    class Inner:
        k = 3

        def apply(self, y):
            return y * self.k

    return Inner().apply(x), Inner.__name__


@behaviour((X,), breaks=None)
def break_in_default_and_decorator(x):
    def deco(f):
        print("", end="")
        return f

    @deco
    def inner(y, n=len(repr(x.shape[0]))):
        return y * n

    return inner(x)


@behaviour((X,), breaks=None)
def break_in_lambda_and_map(x):
    noisy = lambda v: (print("", end=""), v * x)[1]
    return [y.sum() for y in map(noisy, [1, 2])], max([1, 2], key=lambda v: (print("", end=""), -v)[1])


@behaviour((X,), breaks=None)
def break_in_property_and_operator(x):
    class P:
        @property
        def value(self):
            print("", end="")
            return x + 1

        def __add__(self, other):
            print("", end="")
            return x + other

        def __getitem__(self, key):
            print("", end="")
            return key

    p = P()
    return p.value, p + 2, p[3]


@behaviour((X,), breaks=None)
def break_in_constructor(x):
    class Q:
        def __init__(self, v):
            print("", end="")
            self.v = v

    return Q(x).v + 1


@behaviour((X,), breaks=None)
def break_with_starred_call(x):
    def f(*args, **kwargs):
        print("", end="")
        return args[0] * len(args) + len(kwargs)

    return f(*[x, 1], 2, **{"a": 1}, b=3)


@behaviour((X,), breaks=None)
def break_in_assert_and_ternary(x):
    assert x.sum().item() < 1e9, "large"
    return x + 1 if x[0, 0].item() < 0 else x - 1


@behaviour((X,), breaks=None)
def break_in_unpacking(x):
    a, b = x.sum().item(), [x.mean().item()]
    (c, *d), e = (b[0], a), x
    return a, c, d, e


@behaviour((X,), breaks=None)
def break_in_dict_and_set_building(x):
    return {"a": x.sum().item(), "b": x + 1}, {x[0, 0].item(), 2.5}, [x.max().item(), x]


@behaviour((X,), breaks=None)
def break_in_slice_and_subscript(x):
    n = int((x[0, 0] < 0).item())
    y = x.clone()
    y[n:, int(n)] = n
    return x[n], x[n:, : n + 1], y


@behaviour((X,), breaks=None)
def break_in_augmented_assignment(x):
    total = [0.0]
    total[0] += x.sum().item()
    c = Config(1)
    c.scale += x.mean().item()
    return total, c.scale, x * 2


@behaviour((X,), breaks=None)
def break_in_chained_comparison(x):
    return (-1000 < x.sum().item() < 1000), x + 1, x.sum().item() in [1.0, 2.0]


@behaviour((X,), breaks=None)
def break_in_recursion(x):
    def down(n):
        print("", end="")
        return x if n == 0 else down(n - 1) + n

    return down(3)


@behaviour((X,), breaks=None)
def break_in_match(x):
    match x.shape[0], print("", end=""):
        case (3, None):
            return x + 3
        case (n, _):
            return x * n


@behaviour((X,), breaks=None)
def try_except_else_finally_with_breaks(x):
    log = []
    for key in ("a", "missing"):
        try:
            print("", end="")
            v = {"a": x}[key]
        except KeyError:
            log.append("except")
            v = x * 2
        else:
            log.append("else")
            print("", end="")
        finally:
            log.append("finally")
            print("", end="")
        x = v + 1
    return x, log


@behaviour((X,), breaks=None)
def return_in_finally_and_nested_try(x):
    def inner():
        try:
            try:
                raise KeyError("k")
            finally:
                print("", end="")
        except KeyError as error:
            return error.args
        finally:
            print("", end="")

    return inner(), x + 1


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)


class Settings:
    """As a configuration that says otherwise what it lacks: what asks for it catches that."""

    def __getattribute__(self, name):
        try:
            return object.__getattribute__(self, name)
        except AttributeError:
            raise AttributeError(f"settings have no {name}") from None


def test_what_runs_beside_a_break_and_holds_no_tensor_breaks_nothing():
    settings, x = Settings(), torch.rand(6)

    def scaled(x):
        try:
            raise KeyError
        except KeyError:  # CPython has all of this, and what it calls is captured by itself
            scale = getattr(settings, "scale", 2) * x.sum().item()
        return x * scale

    captured = Captured(scaled)
    for _ in range(2):
        assert torch.equal(captured(x), scaled(x))
    assert any("item leaves the graph" in event.text for event in captured.events)
    assert not any("AttributeError" in event.text for event in captured.events)
