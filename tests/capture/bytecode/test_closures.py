"""Closures, cells, arguments of functions, captured, against eager."""

import functools
import inspect
import operator

import pytest
import torch
import torch.nn.functional as F

from tests.capture.bytecode.behaviours import Behaviours, Config, X, helper

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X,), breaks=None)
def comprehension_cells_and_breaks(x):
    functions = [lambda: i for i in range(3)]
    print("", end="")
    more = [lambda k=i: k + x for i in range(2)]
    return [f() for f in functions], [f() for f in more]


@behaviour((X,), breaks=None)
def cells_of_comprehensions_differ(x):
    made = []
    for n in (2, 3):
        made.extend([lambda: i for i in range(n)])
    print("", end="")
    return [f() for f in made], x + 1


@behaviour((X,), breaks=None)
def unbound_after_break(x):
    print("", end="")
    try:
        for i in range(0):
            pass
        return x + i
    except UnboundLocalError as error:
        return str(error), x


@behaviour((X,), breaks=None)
def unbound_cell_after_break(x):
    print("", end="")
    try:
        y = later + 1
    except NameError as error:
        message = type(error).__name__, str(error)
    later = 3
    return message, (lambda: later)(), x * 2


@behaviour((X,), breaks=None)
def unbound_free_variable(x):
    def inner():
        return unset

    try:
        inner()
    except NameError as error:
        message = type(error).__name__, str(error)
    if x.shape[0] > 100:
        unset = 1
    return message, x + 1


@behaviour((X,), breaks=None)
def deleted_locals(x):
    y = x + 1
    del y
    try:
        return y
    except UnboundLocalError as error:
        return str(error), x * 2


@behaviour((X,), breaks=None)
def deleted_cells(x):
    n = 3
    f = lambda: n
    a = f()
    del n
    try:
        f()
    except NameError as error:
        return a, str(error), x + 1


@behaviour((X,), breaks=None)
def missing_name(x):
    try:
        return x + nothing_of_that_name
    except NameError as error:
        return str(error)


@behaviour((X,), breaks=None)
def locals_and_vars(x):
    y = x + 1
    names = sorted(locals())
    return names, y


@behaviour((X,), breaks=None)
def late_binding_closures(x):
    return [f(x) for f in [lambda v: v + i for i in range(3)]], [
        f(x) for f in [lambda v, i=i: v + i for i in range(3)]
    ]


@behaviour((X,), breaks=None)
def nonlocal_counters(x):
    def counter():
        n = 0

        def bump(by=1):
            nonlocal n
            n += by
            return n

        return bump

    a, b = counter(), counter()
    a()
    a(5)
    b()
    return a(), b(), x + a()


def make_accumulator():
    total = torch.zeros(4)

    def add(x):
        nonlocal total
        total = total + x.sum(0)
        return total

    return add


@behaviour((X,), breaks=None)
def accumulators_keep_state(x):
    add = make_accumulator()
    return add(x), add(x * 2)


@behaviour((X,), breaks=None)
def global_statement(x):
    global COUNTER_FOR_TEST
    COUNTER_FOR_TEST = 3
    COUNTER_FOR_TEST += x.shape[0]
    return x * COUNTER_FOR_TEST


@behaviour((X,), breaks=None)
def keyword_only_and_positional_only(x):
    def f(a, /, b, *, c=2, **kw):
        return a * b + c + kw.get("a", 0)

    return f(x, 2), f(x, b=3, c=1, a=5), f(*(x,), **{"b": 1, "z": 0})


@behaviour((X,), breaks=None)
def mutable_defaults_are_shared(x):
    def f(v, seen=[]):
        seen.append(v)
        return len(seen)

    return f(1), f(2), x + f(3)


@behaviour((X,), breaks=None)
def function_objects(x):
    def f(a: int, b: float = 2.0) -> float:
        "doc"
        return a

    f.tag = "t"
    return f.__name__, f.__doc__, f.tag, f.__defaults__, x + 1, f.__qualname__.endswith("f")


@behaviour((X,), breaks=None)
def signatures(x):
    names = list(inspect.signature(helper).parameters)
    return names, x + len(names), inspect.isfunction(helper), inspect.isclass(Config), callable(helper)


@behaviour((X,), breaks=None)
def decorators_with_arguments(x):
    def scale(k):
        def wrap(f):
            @functools.wraps(f)
            def inner(*a, **kw):
                return f(*a, **kw) * k

            return inner

        return wrap

    @scale(3)
    @scale(2)
    def g(v):
        "doc of g"
        return v + 1

    return g(x), g.__name__, g.__doc__


@behaviour((X,), breaks=None)
def partial_methods(x):
    p = functools.partial(helper, 1, c=5)
    q = functools.partial(p, 2)
    return q(), p.func is helper, p.args, p.keywords, x + q(3)


@behaviour((X,), breaks=None)
def lambdas_and_sorting(x):
    table = {"add": lambda a, b: a + b, "mul": operator.mul}
    return [table[k](x, 2) for k in sorted(table)], (lambda *a, **k: (a, k))(1, z=2)


@behaviour((X,), breaks=None)
def higher_order(x):
    compose = lambda *fs: functools.reduce(lambda f, g: lambda v: g(f(v)), fs)
    return compose(torch.sin, lambda v: v * 2, F.relu)(x)


@behaviour((X, helper), (X, max), breaks=None)
def functions_as_arguments(x, f):
    return x + f(1, 2), f.__name__


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
