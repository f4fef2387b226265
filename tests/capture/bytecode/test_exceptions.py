"""Exceptions and context managers, captured, against eager."""

import contextlib

import pytest
import torch

from tests.capture.bytecode.behaviours import Behaviours, Manager, X

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X, "a"), (X, "zz"))
def exceptions_are_caught(x, key):
    try:
        value = {"a": 1}[key]
    except KeyError:
        value = 100
    else:
        value += 1
    finally:
        x = x + 1000
    return x * value


@behaviour((X,))
def raised_and_caught(x):
    try:
        raise ValueError("no", 3)
    except (TypeError, ValueError) as error:
        x = x + error.args[1]
    try:
        [][1]
    except IndexError:
        x = x * 2
    try:
        x.nothing_here  # noqa: B018
    except AttributeError:
        x = x - 1
    return x


class Mine(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


@behaviour((X,))
def own_exceptions(x):
    def fails():
        raise Mine(7)

    try:
        fails()
    except Mine as error:
        return x + error.code
    return x


@behaviour((X, 1), (X, 0), breaks=None)
def uncaught_exceptions(x, n):
    y = x + 1
    if n == 0:
        raise ValueError(f"n is {n}")
    return y


@behaviour((X,), breaks=None)
def wrong_shapes(x):
    return x @ x


@behaviour((X,), breaks=None)
def wrong_shapes_are_caught(x):
    try:
        return x @ x
    except RuntimeError:
        return x + 1


@behaviour((X, 3), (X, -3), breaks=None)
def assertions(x, n):
    assert n > 0, "n must be positive"
    return x * n


@behaviour((X,), breaks=None)
def zero_division(x):
    y = x + 1
    return y, 1 / 0


@behaviour((X,))
def finally_runs_on_return(x):
    log = []

    def inner():
        try:
            return x + 1
        finally:
            log.append("done")

    return inner(), log


@behaviour((X,))
def exceptions_through_functions(x):
    def level(n):
        if n == 0:
            raise KeyError("deep")
        try:
            return level(n - 1)
        except ValueError:
            return 1

    try:
        level(3)
    except KeyError as error:
        return x + 1, error.args
    return x


@behaviour((X.clone().requires_grad_(),))
def grad_modes(x):
    with torch.no_grad():
        a = x * 2
    b = x * 3
    with torch.no_grad(), torch.enable_grad():
        c = x * 4
    with torch.set_grad_enabled(False):
        d = x * 5
    return a, b, c, d, torch.is_grad_enabled()


@torch.no_grad()
def without_gradients(x):
    return x * 2


@behaviour((X.clone().requires_grad_(),))
def no_grad_decorator(x):
    return without_gradients(x), x * 2


@behaviour((X, []))
def own_context_managers(x, log):
    with Manager(log) as n:
        x = x + n
    with Manager(log):
        raise ValueError("swallowed")
    return x * 2


@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield 3
    finally:
        log.append("out")


@behaviour((X, []))
def generator_context_managers(x, log):
    with managed(log) as n:
        x = x + n
    with contextlib.nullcontext(4) as m:
        x = x * m
    return x, log


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
