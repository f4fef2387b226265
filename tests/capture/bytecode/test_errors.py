"""Exceptions of Python and of torch: what is raised, what it says, captured, against eager."""

import contextlib
import math

import pytest
import torch

from tests.capture.bytecode import running
from tests.capture.bytecode.behaviours import Behaviours, Manager, X, helper

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X,), breaks=None)
def exception_chaining(x):
    try:
        try:
            raise KeyError("a")
        except KeyError as error:
            raise ValueError("b") from error
    except ValueError as error:
        cause = error.__cause__
        return str(error), type(cause).__name__, x + 1


@behaviour((X,), breaks=None)
def reraise(x):
    log = []
    try:
        try:
            raise RuntimeError("r", 1)
        except RuntimeError:
            log.append("inner")
            raise
    except RuntimeError as error:
        log.append(error.args)
    return log, x * 2


@behaviour((X,), breaks=None)
def exception_attributes(x):
    try:
        raise OSError(2, "no file")
    except OSError as error:
        return error.errno, error.strerror, x + 1


@behaviour((X,), breaks=None)
def suppressed(x):
    with contextlib.suppress(KeyError):
        {}["a"]
        x = x * 100
    return x + 1


@behaviour((X, []), breaks=None)
def exit_stack(x, log):
    with contextlib.ExitStack() as stack:
        a = stack.enter_context(Manager(log))
        stack.callback(log.append, "callback")
        x = x + a
    return x, log


@behaviour((X,), breaks=None)
def python_errors(x):
    seen = []
    for f in (
        lambda: 1 / 0,
        lambda: [][0],
        lambda: {}["k"],
        lambda: "a" + 1,
        lambda: int("z"),
        lambda: None.x,
        lambda: [1, 2].index(5),
        lambda: "a".foo,
        lambda: len(3),
        lambda: next(iter([])),
        lambda: [].pop(),
        lambda: {}.popitem(),
        lambda: (1, 2)[5],
        lambda: "abc".index("z"),
        lambda: float("q"),
        lambda: range(3)[7],
        lambda: {1}.remove(2),
        lambda: sum(["a"]),
        lambda: sorted([1, "a"]),
        lambda: max([]),
        lambda: dict([1]),
        lambda: [1, 2, 3].remove(9),
        lambda: math.sqrt(-1),
    ):
        try:
            f()
        except Exception as error:
            seen.append((type(error).__name__, str(error)))
    return seen, x + 1


@behaviour((X,), breaks=None)
def wrong_arguments(x):
    seen = []
    for f in (
        lambda: helper(),
        lambda: helper(1, a=2),
        lambda: (lambda a: a)(1, 2),
        lambda: (lambda a, *, b: a)(1),
        lambda: (lambda: 0)(k=1),
    ):
        try:
            f()
        except TypeError as error:
            seen.append(str(error))
    return seen, x + 1


@behaviour((X,), breaks=None)
def unpacking_errors(x):
    seen = []
    for values in ([1], [1, 2, 3], 5):
        try:
            a, b = values
        except (ValueError, TypeError) as error:
            seen.append(str(error))
    return seen, x + 1


@behaviour((X,), breaks=None)
def tensor_errors_are_caught(x):
    seen = []
    for f in (
        lambda: x.view(5),
        lambda: x @ x[0, 0],
        lambda: torch.cat([x, x[0]]),
        lambda: x[10],
        lambda: x.reshape(7),
        lambda: x + torch.ones(5),
        lambda: x.nothing(),
    ):
        try:
            f()
        except Exception as error:
            seen.append(type(error).__name__)
    return seen, x + 1


PLACES = torch.tensor([0, 2])
FAR = torch.tensor([0, 99])


@behaviour((X, PLACES, []), (X, FAR, []), breaks=None)
def an_error_that_needs_data_is_handled(x, places, log):
    """Fakes do not know that a position is out of range: the graph raises, in the user's try block."""
    log.append("before")
    try:
        found = x[places].sum()
    except IndexError:
        return "caught", log
    finally:
        log.append("after")
    return found, log


@behaviour((X, PLACES, []), (X, FAR, []), breaks=None)
def an_error_that_needs_data_leaves(x, places, log):
    with torch.no_grad():
        log.append(len(log))
        return x[places] * 2


@behaviour((X, PLACES), (X, FAR), breaks=None)
def an_error_after_a_break(x, places):
    size = (x * 2).sum().item()
    try:
        return x[places] + size
    except IndexError:
        return size


@behaviour((X.clone(), PLACES), (X.clone(), FAR), breaks=None)
def an_error_under_another_mode(x, places):
    x.add_(1)
    with torch.enable_grad():
        return x[places]


def test_a_graph_that_raises_leaves_the_modes_as_they_were(hook):
    captured = running.Captured(an_error_under_another_mode)
    for function in (captured, captured, an_error_under_another_mode):
        with torch.no_grad():
            with pytest.raises(IndexError):
                function(X.clone(), FAR)
            assert not torch.is_grad_enabled()


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
