"""Exceptions and blocks: causes, handlers, finally with return, nested with, managers, names that are gone."""

import contextlib
import operator

import pytest
import torch

from tests.capture.bytecode.scenarios import Scenarios, tell

ALL = Scenarios()
X = torch.linspace(-2, 2, 6).reshape(2, 3)


@ALL.scenario
def exceptions_with_causes(run):
    def f(x, k):
        try:
            if k == 0:
                raise ValueError("first", x.shape[0])
            return x * {1: 2}[k]
        except KeyError as error:
            raise RuntimeError("second") from error
        except ValueError as error:
            raise TypeError("third") from None
        finally:
            log.append(k)

    log = []
    g = run(f)
    return [tell(g, X, k) for k in (0, 1, 2, 1, 0, 2)], log


@ALL.scenario
def exceptions_read_in_their_handlers(run):
    def f(x):
        seen = []
        try:
            try:
                raise KeyError("k")
            except KeyError as error:
                raise ValueError("v") from error
        except ValueError as error:
            seen.append((str(error), repr(error.__cause__), error.__suppress_context__))
            seen.append(error.__context__ is error.__cause__)
        try:
            try:
                raise KeyError("k")
            except KeyError:
                raise ValueError("w")  # noqa: B904
        except ValueError as error:
            seen.append((repr(error.__context__), error.__cause__, error.args))
        return x + len(seen), seen

    return run(f)(X), run(f)(X)


@ALL.scenario
def errors_of_the_users_own(run):
    class Problem(Exception):
        def __init__(self, code, *rest):
            super().__init__(code, *rest)
            self.code = code

        def __str__(self):
            return f"problem {self.code}"

    def f(x, k):
        try:
            if k:
                raise Problem(k, "more")
        except Problem as problem:
            return x * problem.code, str(problem), problem.args
        else:
            x = x + 1
        return x

    g = run(f)
    return g(X, 2), g(X, 0), g(X, 3)


@ALL.scenario
def finally_that_returns(run):
    def f(x, k):
        for i in range(3):
            try:
                if i == k:
                    raise ValueError(i)
                if i == 2:
                    return x * 10
            except ValueError:
                return x * 20
            finally:
                if k == 5:
                    return x * 30  # noqa: B012
                if k == 6:
                    continue  # noqa: B012
                if k == 7:
                    break  # noqa: B012
        return x * 40

    g = run(f)
    return [g(X, k) for k in (0, 1, 2, 5, 6, 7, 9)]


@ALL.scenario
def names_that_except_deletes(run):
    def f(x):
        error = 3
        try:
            raise ValueError("a")
        except ValueError as error:
            x = x + len(str(error))
        return x + error

    return tell(run(f), X)


@ALL.scenario
def with_blocks_in_with_blocks(run):
    class Manager:
        def __init__(self, name, swallows=()):
            self.name, self.swallows = name, swallows

        def __enter__(self):
            log.append(("enter", self.name))
            if self.name == "bad":
                raise RuntimeError("enter")
            return self

        def __exit__(self, kind, error, trace):
            log.append(("exit", self.name, kind and kind.__name__, str(error)))
            if self.name == "worse":
                raise LookupError("exit") from error
            return kind is not None and issubclass(kind, self.swallows)

    def f(x, names, raised):
        with Manager("outer", (KeyError, RuntimeError)) as one, Manager(names[0]) as two:
            with Manager(names[1], ValueError):
                x = x * 2
                if raised is not None:
                    raise raised("r")
                x = x + 1
            x = x * 3
            return x, one.name, two.name
        return x - 1, "swallowed"

    log, g = [], run(f)
    calls = [
        (("a", "b"), None),
        (("a", "b"), ValueError),
        (("a", "b"), KeyError),
        (("bad", "b"), None),
        (("a", "bad"), None),
        (("worse", "b"), TypeError),
        (("a", "worse"), None),
        (("a", "b"), IndexError),
    ]
    return [tell(g, X, *call) for call in calls], log


@ALL.scenario
def managers_from_contextlib(run):
    @contextlib.contextmanager
    def scaled(k):
        log.append("in")
        try:
            yield k * 2
        except ValueError:
            log.append("caught")
        finally:
            log.append("out")

    def f(x, k):
        with contextlib.ExitStack() as stack, contextlib.suppress(KeyError):
            y = stack.enter_context(scaled(k))
            x = x * y
            if k == 2:
                raise ValueError("v")
            if k == 3:
                raise KeyError("k")
            if k == 4:
                raise TypeError("t")
            with contextlib.nullcontext(5) as five:
                x = x + five
        return x

    log, g = [], run(f)
    return [tell(g, X, k) for k in (1, 2, 3, 4)], log


@ALL.scenario
def a_decorated_manager(run):
    @contextlib.contextmanager
    def logged():
        log.append("in")
        yield
        log.append("out")

    @logged()
    def h(x):
        return x * 2

    log = []
    g = run(lambda x: h(h(x)) + 1)
    return g(X), g(X), log


@ALL.scenario
def numbers_that_raise(run):
    def f(x, a, b):
        seen = []
        for op in (operator.floordiv, operator.truediv, operator.mod, operator.pow, operator.lshift, divmod):
            try:
                seen.append(op(a, b))
            except (ZeroDivisionError, ValueError, TypeError, OverflowError) as error:
                seen.append(type(error).__name__)
        return x, seen

    g = run(f)
    return [
        g(X, a, b) for a, b in ((7, 0), (7, -2), (-7, 2), (0, -1), (2.5, 0), (True, 3), (-8, 0.5), (1j, 2))
    ]


@ALL.scenario
def recursion_and_mutual_calls(run):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    def f(x, n):
        def power(k):
            return x if k == 0 else power(k - 1) * 2

        return power(n), even(n)

    g = run(f)
    return g(X, 3), g(X, 6), g(X, 3)


@ALL.scenario
def deleted_and_unset_names(run):
    def f(x, k):
        if k > 0:
            y = x * k
        if k > 1:
            del x
        try:
            z = y
        except UnboundLocalError as error:
            z = str(error)
        try:
            return z, x
        except NameError as error:
            return z, type(error).__name__

    g = run(f)
    return g(X, 0), g(X, 1), g(X, 2)


@ALL.scenario
def printing_in_the_middle(run):
    def f(x, items):
        print("start", len(items))
        for i, item in enumerate(items):
            x = x * 2 + item
            if i % 2:
                print("at", i, item)
        print("end", end="!\n")
        return x

    g = run(f)
    return g(X, [1, 2, 3, 4]), g(X, [1, 2, 3, 4]), g(X, [])


@pytest.mark.parametrize("name", ALL)
def test_odd_exceptions(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_odd_exceptions_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
