"""Numbers, strings, constants and the standard library, captured, against eager."""

import copy
import functools
import math
import operator

import pytest
import torch

from tests.capture.bytecode.behaviours import Behaviours, X, Y

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X, 2), (X, 3), (X, 2.5))
def numbers(x, n):
    return (
        x * n
        + math.sqrt(n)
        + abs(-n)
        + max(n, 2)
        + min(1, n)
        + round(2.6)
        + int(2.7)
        + n % 2
        + divmod(7, 2)[1]
    )


@behaviour((X, "a"), (X, "b"))
def strings(x, mode):
    word = f"{mode}-{1 + 1:03d}-{mode!r}".upper() + "x".join(["p", "q"])
    if mode.startswith("a") and "A" in word:
        return x + 1, word
    return x - 1, word, mode.split("-"), word[1:3], word.replace("-", "_")


@behaviour((X, True), (X, False))
def flags(x, flag):
    return x.sin() if flag else x.cos()


@behaviour((X, None), (X, Y))
def optional(x, other):
    if other is None:
        return x + 1
    return x + other


@behaviour((X, None), (X, 3), (X, "s"), (X, [1]))
def kinds_of_values(x, value):
    if isinstance(value, (int, float)):
        return x + value
    if isinstance(value, str):
        return x.sum(), value
    return x, type(value), value


@behaviour((X,))
def comparisons(x):
    return x + (1 < 2 <= 2), 1 == 1.0, "a" != "b", [1, 2] == [1, 2], (1, 2) < (1, 3), not [], None is None


@behaviour((X,))
def constants(x):
    return x * math.pi, torch.float32, ..., (1, 2), 3 + 4j, b"x", 1e10, float("inf")


@behaviour((X, float("nan")))
def nan_argument(x, n):
    return x + n


@behaviour((X, 0.0), (X, -0.0))
def signed_zero(x, n):
    return x * 0 + math.copysign(1, n)


@behaviour((X, 1), (X, True), (X, 1.0))
def one_true_and_float(x, n):
    return x * n, n, type(n)


@behaviour((X,))
def copies(x):
    a = [1, [2]]
    b = copy.copy(a)
    b.append(x)
    return a, b, x + 1


@behaviour((X,))
def operators_as_functions(x):
    return (
        operator.mul(x, 2),
        operator.itemgetter(1)([1, 2]) if False else operator.getitem([1, 2], 1),
        operator.eq(1, 1),
    )


@behaviour((X,))
def imports_inside(x):
    import math as m  # noqa: I001
    from torch.nn import functional as f

    return f.relu(x) * m.pi


@behaviour((X,))
def string_keys_and_formats(x):
    parts = {"a": 1, "b": 2}
    text = ", ".join(f"{k}={v:>3}" for k, v in parts.items())
    return (
        x,
        text,
        "%s-%d" % ("p", 3),  # noqa: UP031
        "{}:{}".format(1, "z"),
        "abc"[::-1],
        ["a", "b"],
        str(3.5),
        repr("q"),
    )


@behaviour((X,))
def max_with_key(x):
    return (
        max([1, -5, 3], key=abs) * x,
        min(["aa", "b"], key=len),
        max([], default=3),
        max(2, 1, key=lambda v: -v),
    )


@behaviour((X,), breaks=None)
def string_methods(x):
    s = "Hello, World"
    return (
        x,
        s.lower(),
        s.split(", "),
        s.find("W"),
        s.partition(","),
        s.replace("l", "L", 1),
        s.encode(),
        s.title(),
        s.zfill(15),
        s * 2,
        s[::2],
        "l" in s,
        s.count("l"),
        " a ".strip(),
        "a,b".rsplit(",", 1),
        s.isalpha(),
        "%05.2f" % 3.14159,
        f"{3.14159:.2f}{s!r:>20}{1_000_000:,}",
        s.endswith("ld"),
        "x".join(map(str, range(3))),
        ord("a"),
        chr(98),
        s.index("o"),
        "abc" < "abd",
        "{a}{0}".format(1, a=2),
        s.center(20, "*"),
        "\t".expandtabs(),
    )


@behaviour((X,), breaks=None)
def functools_more(x):
    return (
        functools.reduce(lambda a, b: a * b, [1, 2, x]),
        sorted([3, 1], key=functools.cmp_to_key(lambda a, b: a - b)),
        operator.itemgetter(1)([1, 2]),
        operator.itemgetter("a", "b")({"a": 1, "b": 2}),
        operator.attrgetter("real")(3),
        operator.methodcaller("upper")("a"),
    )


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
