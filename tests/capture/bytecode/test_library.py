"""The standard library's own classes, imports, cached functions and numpy's numbers, captured, against eager."""

import collections
import contextlib
import copy
import functools
import inspect
import itertools
import operator
import sys
import types
import typing

import numpy as np
import pytest
import torch
from torch.distributions.utils import broadcast_all

from tests.capture.bytecode.behaviours import Behaviours, X
from tests.capture.bytecode.running import Captured, assert_same

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X,))
def getters(x):
    pair = operator.itemgetter(0, 1)([x, 2])
    return (
        operator.itemgetter("a")({"a": x}),
        pair,
        operator.attrgetter("shape")(x),
        operator.methodcaller("sum", 1)(x),
    )


@behaviour((X,))
def bound_by_hand(x):
    class_method = types.MethodType(torch.add, x)
    return class_method(x)


@contextlib.contextmanager
def scaled(value):
    yield value * 2


@behaviour((X,))
def managers_on_a_stack(x):
    with contextlib.ExitStack() as stack:
        x = x * stack.enter_context(scaled(3))
    return x


@behaviour((X,))
def exceptions_that_nobody_handles(x):
    return x + 1, sys.exception(), sys.exc_info()


@behaviour((X,))
def bounded_deques(x):
    queue = collections.deque([1, 2, 3], maxlen=2)
    queue.append(x)
    queue.appendleft(5)
    return list(queue), queue, collections.deque(maxlen=0)


QUEUE = collections.deque([1], maxlen=2)


@behaviour((X, collections.deque([1], maxlen=2)), (X, collections.deque([1])))
def deques_that_are_given(x, queue):
    queue.append(2)
    queue.append(x.shape[0])
    return x + len(queue), list(queue)


@behaviour((X,))
def counters(x):
    counted = collections.Counter("hello")
    return x * counted["l"], counted["z"], dict(counted)


@behaviour((X,))
def lazy_iterators(x):
    return (
        list(itertools.zip_longest([1, 2], [x], fillvalue=0)),
        list(itertools.accumulate([x, x + 1])),
        list(itertools.accumulate([1, 2, 3], operator.mul, initial=2)),
        list(itertools.starmap(pow, [(2, 3), (3, 2)])),
        list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(itertools.dropwhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(itertools.filterfalse(None, [0, 1])),
        [(key, list(group)) for key, group in itertools.groupby("aabbb")],
        list(itertools.islice(itertools.cycle([1, 2]), 5)),
        list(itertools.compress("abc", [1, 0, 1])),
        [list(one) for one in itertools.tee([1, 2])],
    )


@behaviour((X,))
def views_as_sets(x):
    given = {"a": 1, "b": 2}
    return x, sorted(given.keys() & {"b", "c"}), sorted(given.keys() - ["a"]), len(given.keys() | {"c"})


@behaviour((X,))
def isinstance_of_iterators(x):
    return (
        x,
        isinstance(iter([1]), list),
        isinstance(map(abs, [1]), torch.Tensor | dict),
        isinstance(zip(), str),
    )


@behaviour((X,))
def modules_are_imported(x):
    import fractions as first_of_its_kind

    from torch.nn import functional

    try:
        import there_is_no_such_module
    except ImportError as error:
        there_is_no_such_module = error.name
    return functional.relu(x) * len(first_of_its_kind.__name__), type(there_is_no_such_module)


class Recipe:
    def __init__(self, sizes):
        self.sizes = sizes


RECIPE = Recipe((2, 2))


@functools.lru_cache
def shape_of(recipe, size):
    return [size[0], *recipe.sizes], {"n": 1}


@behaviour((X,))
def cached_functions_of_objects(x):
    sizes, more = shape_of(RECIPE, x.shape)
    return x.reshape(sizes) * more["n"]


class Noted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, x):
        self.last = x.shape[0]
        sizes, _ = shape_of(RECIPE, x.shape)
        return x.reshape(sizes)


@behaviour((Noted(), X))
def cached_functions_after_effects(module, x):
    return module(x), module.last


def typed(function):
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            hint = function.__annotations__.get(name)
            if hint is torch.Tensor and not isinstance(value, torch.Tensor):
                raise TypeError(name)
        return function(*bound.args, **bound.kwargs)

    return wrapper


@typed
def scale(x: torch.Tensor, *, by: float = 2.0) -> torch.Tensor:
    return x * by


@behaviour((X,))
def arguments_are_checked_by_a_decorator(x):
    return scale(x), scale(x, by=3.0), len(inspect.getfullargspec(shape_of.__wrapped__).args)


LAYERS = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.Tanh()])


@behaviour((X,))
def sequences_backwards(x):
    for layer in reversed(LAYERS):
        x = layer(x)
    return x


STACK = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh(), torch.nn.Sigmoid())


@behaviour((X,))
def parts_of_a_sequential(x):
    return STACK[1:](x), STACK[:1](x)


@behaviour((X,))
def numbers_of_numpy(x):
    n = np.prod([2, 3])
    return x + n + np.sqrt(4.0) + np.log2(8) + int(np.ceil(2.2)), float(n)


@behaviour((X,))
def arrays_of_numpy(x):
    sizes = np.array((4, 6))
    rest = (sizes % np.power((2, 2), 2)) > 0
    if rest.any() and len(sizes) == 2 and isinstance(sizes, np.ndarray):
        x = x + sizes[0] + int(sizes.sum())
    halves = [int(n) for n in sizes // 2]
    grown = np.ceil(sizes * 1.5).astype(int).tolist()
    return x * 2, halves, grown, rest, sizes, (sizes, copy.copy(sizes)), sizes.shape, sizes.dtype == np.int64


@behaviour((X,), breaks=None)
def arrays_of_numpy_that_are_written_to(x):
    given = np.array([1.0, 2.0, 3.0])
    same, part = given, given[1:]
    also = np.asarray(given)
    given += 1
    part[0] = 7
    np.multiply(given, 2, out=also)
    np.copyto(part, 9)
    total = np.zeros(())
    np.sum(given, None, None, total)
    np.ones(3).sum(out=total)
    return (
        x + float(given.sum()),
        same,
        part,
        also is given,
        total,
        np.save,
        given.T,
        np.array([x, None], dtype=object).size,
    )


@behaviour((X,), breaks=None)
def an_array_of_numpy_that_has_no_truth(x):
    try:
        return x + 1 if np.array([1, 2]) else x
    except ValueError as error:
        return str(error)


@behaviour((X, np.arange(4.0), np.array([[True, False]])))
def tensors_of_arrays_from_outside(x, a, b):
    c = torch.from_numpy(a)
    c += 1
    return x + c.to(x.dtype), torch.tensor(a), torch.tensor(b), torch.tensor(a, dtype=torch.int32), c


@behaviour((X,))
def tensors_of_arrays_that_are_made(x):
    a = np.ones((2, 2)) * 3
    return x.sum() + torch.tensor(a), torch.tensor(np.array([1, 2])), torch.tensor(a, dtype=torch.float16)


RECURRENT = torch.nn.GRU(4, 5).eval()


@behaviour((X,), breaks=None)
def recurrent_layers(x):
    with torch.no_grad():
        return RECURRENT(x)[0]


@behaviour((X,))
def versions(x):
    return x + (torch.__version__ >= "2.0"), typing.cast(int, 3)


@behaviour((X,), (torch.tensor(2.0),))
def broadcast_as_distributions_do(x):
    both = broadcast_all(x, x.sum())
    one = broadcast_all(x, 3.0)
    return both, one, broadcast_all(1, 2.0)


@behaviour((X,))
def refused_by_distributions(x):
    try:
        return broadcast_all(x, "2")
    except ValueError as error:
        return x + 1, str(error)


def span(n, data):
    scale = np.random.rand(1).item()
    found = np.zeros((n, 2))
    for i in range(n):
        found[i] = np.random.choice(3, 2)
        found[i] += len(data) * scale
    return found


def what_is_left_without_tensors(x, data):
    found = span(3, data)
    return x * 2 + torch.tensor(found, dtype=x.dtype).sum()


def test_what_is_left_without_tensors_is_no_break(hook):
    """Numbers are drawn at two lines: what follows on the second one, in a loop, has nothing for a graph."""
    np.random.seed(3)
    expected = [what_is_left_without_tensors(X, [1]) for _ in range(2)]
    captured = Captured(what_is_left_without_tensors)
    np.random.seed(3)
    for wanted in expected:
        assert torch.equal(captured(X, [1]), wanted)
    lines = [event.text.rpartition("`")[0].rpartition("`")[2] for event in captured.events if event.record]
    assert sorted(set(lines)) == ["found[i] = np.random.choice(3, 2)", "scale = np.random.rand(1).item()"]
    assert captured.count("graph") == 1


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)


@pytest.mark.parametrize("is_first_plain", [True, False])
def test_an_exception_that_the_caller_handles(hook, is_first_plain):
    def asks(x):
        return x + (sys.exception() is None), sys.exc_info()[1]

    captured = Captured(asks)
    for is_plain in (is_first_plain, not is_first_plain):
        try:
            if not is_plain:
                raise KeyError("the caller's")
        except KeyError:
            expected, got = asks(X), captured(X)
        else:
            expected, got = asks(X), captured(X)
        assert_same(got[0], expected[0])
        assert got[1] is expected[1]
