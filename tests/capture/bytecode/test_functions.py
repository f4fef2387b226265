"""Calls, closures, decorators, generators, autograd functions, captured, against eager."""

import functools

import pytest
import torch

from tests.capture.bytecode import running
from tests.capture.bytecode.behaviours import Behaviours, X, helper

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X,))
def arguments_of_calls(x):
    args, kwargs = (x, 5), {"c": 1, "k": 2}
    return helper(x), helper(x, 3), helper(x, c=7), helper(*args, 1, **kwargs), helper(a=x, z=1)


@behaviour((X, 2), (X, 3))
def closures(x, n):
    def inner(y):
        return y + n

    count = 0

    def counting():
        nonlocal count
        count += 1
        return count

    counting()
    counting()
    return inner(x), count, (lambda y: y * n)(x)


@behaviour((X,))
def returned_functions_work(x):
    def scale(k):
        return lambda y: y * k

    return scale(3)(x), [f(x) for f in [scale(1), scale(2)]]


@behaviour((X, 4))
def recursion(x, n):
    return x if n == 0 else recursion(x + n, n - 1)


def twice(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


@twice
def decorated_helper(x):
    return x + 1


@behaviour((X,))
def decorators(x):
    return decorated_helper(x), decorated_helper.__name__


@behaviour((X,))
def partials(x):
    add = functools.partial(torch.add, x)
    scaled = functools.partial(helper, b=10)
    return add(1), scaled(x), functools.partial(scaled, c=0)(x)


@functools.lru_cache
def cached(n):
    return n * 2


@behaviour((X,))
def cached_functions(x):
    return x + cached(3)


GLOBAL_NUMBER = 3


GLOBAL_LIST = [1, 2]


GLOBAL_TENSOR = torch.ones(4)


@behaviour((X,))
def globals_are_read(x):
    return x * GLOBAL_NUMBER + GLOBAL_LIST[1] + GLOBAL_TENSOR


@behaviour((X,))
def generators(x):
    def numbers(n):
        for i in range(n):
            got = yield i
            assert got is None
        return 5

    def delegating():
        last = yield from numbers(2)
        yield last

    return x + sum(numbers(4)), list(delegating()), max(i * 2 for i in range(3))


@behaviour((X,))
def default_arguments(x, n=3, *, m=[1]):  # noqa: B006
    m = [*m, n]
    return x + m[0], m


@behaviour((X,))
def function_attributes(x):
    return x + len(helper.__name__), helper.__name__, callable(helper), callable(3)


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.k, None


@behaviour((X, 2))
def autograd_functions(x, k):
    return Doubling.apply(x, k) + 1


@behaviour((X.clone().requires_grad_(), 2), breaks=None)
def autograd_functions_with_gradients(x, k):
    return Doubling.apply(x, k) + 1


@functools.singledispatch
def dispatched(value):
    return "object"


@dispatched.register
def _(value: int):
    return "int"


@behaviour((X,), breaks=None)
def single_dispatch(x):
    return x + 1, dispatched(3), dispatched("a")


CACHE_LOG = []


@functools.lru_cache(maxsize=None)
def cached_with_effect(n):
    CACHE_LOG.append(n)
    return n * 3


@behaviour((X,), breaks=None)
def cached_function_effects(x):
    before = len(CACHE_LOG)
    y = x * cached_with_effect(11) + cached_with_effect(11)
    return y


@functools.cache
def cached_tensor(n):
    return torch.arange(n)


@behaviour((X,), breaks=None)
def cached_tensors_are_one(x):
    return x + cached_tensor(4), cached_tensor(4) is cached_tensor(4)


def counted(function):
    @functools.wraps(function)
    def wrapper(*args):
        wrapper.calls += 1
        return function(*args)

    wrapper.calls = 0
    return wrapper


@behaviour((X,))
def a_decorator_inside(x):
    @counted
    def double(a: torch.Tensor) -> torch.Tensor:
        """Twice."""
        return a * 2

    y = double(double(x))
    return (
        y,
        double.calls,
        double.__name__,
        double.__doc__,
        sorted(double.__annotations__),
        sorted(vars(double)),
    )


@behaviour((X, 3))
def attributes_of_functions_made_inside(x, n):
    def plain(a, b=n, *, c=2):
        return a * b + c

    plain.extra, plain.gone = 1, 2
    del plain.gone
    found = plain.__defaults__, dict(plain.__kwdefaults__), plain.__doc__, plain.__module__
    return plain(x), found, hasattr(plain, "gone"), (lambda: 0).__defaults__, plain.__dict__["extra"]


@behaviour((X,))
def a_function_with_attributes_is_returned(x):
    def made(a: int = 1) -> str:
        """Text."""
        return str(a)

    made.tag = x * 2
    made.__name__ = "renamed"
    return x + 1, (made.__annotations__, made.__doc__, made.__name__, made.__qualname__, made.tag, made())


def test_a_function_that_is_given_away_keeps_its_attributes(hook):
    def give(x):
        def made(a: int = 1) -> str:
            """Text."""
            return str(a)

        made.tag = 3
        made.__name__ = "renamed"
        return x + 1, made

    for function in (give, running.Captured(give)):
        made = function(X)[1]
        assert (made.__annotations__, made.__doc__, made.tag) == ({"a": int, "return": str}, "Text.", 3)
        assert made.__name__ == "renamed" and made.__defaults__ == (1,) and made.__module__ == __name__


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
