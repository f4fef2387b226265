"""Programs that together have every opcode that a function can have; no test module, or pytest would rewrite their
asserts."""

import sys

import torch

X = torch.arange(6.0).reshape(2, 3) - 2
SHARED = 3


def numbers(x, n):
    flag = not n
    return (
        -x,
        ~n,
        +n,
        flag,
        n // 2 % 3,
        n**2 > 1 < 3,
        x * n + 1 if n is not None and n != 3 else (x is x, n is not x),
    )


def loops(x, n):
    total, left, none = 0, n, None
    for i in range(n):
        if i == 1:
            continue
        total += i
        first, second = i, total
        first, second = second, first
        x = x + first * second
    while left:
        left -= 1
    while not left > 2:
        left += 1
    while none is None:
        none = left
    while none is not None:
        none = None
    return x * total, (left and total) or n, n and left


def is_none(x, n):
    y = None if n > 100 else x
    if y is None:
        return n
    if n is not None:
        y = y + 1
    if not n:
        y = y * 2
    return y


def containers(x, n):
    items = [*range(n), n]
    unique = {*items, n}
    given = {"b": n}
    table = {"a": x, **given, n: 1}
    several = {"a": n, "b": x, "c": items}
    items[1:2] = [5, 6]
    items[0] = 9
    del items[2]
    first, *rest, last = items
    squares = [i * i for i in items]
    pairs = {i: i + 1 for i in items}
    odd = {i for i in items if i % 2}
    return (
        (*items, *rest),
        sorted(unique),
        table,
        several,
        first,
        last,
        squares,
        pairs,
        sorted(odd),
        items[1:],
        items[::2],
        n in odd,
    )


def matching(x, n):
    results = []
    for value in ((1, 2, x), {"kind": "pair", "size": n}, 4, [n], "word", X.shape):
        match value:
            case [1, second, *_]:
                results.append(second)
            case {"kind": kind, "size": size}:
                results.append((kind, size))
            case int(number):
                results.append(number)
            case [only]:
                results.append(only)
            case _:
                results.append(None)
    return x, results


def text(x, n):
    return x, f"{n}", f"{n!r:>{4}} {n:03d}", f"a{n}b{n!s}", f"{n!a}"


def calls(x, n):
    def inner(a: int, *more, b: float = 2.0, **rest) -> int:
        return a * b + n, more, rest

    kept = inner
    given, named = (1, 2), {"b": 3}
    return (
        kept(x, b=n),
        inner(*given, **named, c=1),
        inner(x, *given),
        x.add(n),
        x.clamp(min=0),
        (lambda: x + n)(),
    )


def cells(x, n):
    count = 0

    def more():
        nonlocal count
        count += n
        return x * count

    first = more()
    forgotten = [x]
    looks = lambda: forgotten  # noqa: E731
    del forgotten
    makers = [lambda: i for i in range(n)]
    return first, more(), count, [make() for make in makers], [i for i in range(2)]


def forgetting(x, n):
    value = n
    if n > 100:
        del value
    other = value + 1
    del other
    return x + value


class Holder:
    scale = 2

    def __init__(self, base):
        self.base = base

    def value(self, x):
        return x + self.base


class Doubled(Holder):
    def value(self, x):
        kept = super().value(x)
        return kept * super().scale


def attributes(x, n):
    holder = Doubled(n)
    holder.extra = x
    found = holder.extra
    del holder.extra
    return holder.value(x), found, hasattr(holder, "extra"), x.T.shape


def global_names(x, n):
    global SHARED, GIVEN
    GIVEN = n
    SHARED = SHARED + 0
    return x * GIVEN, SHARED


def forgotten_global(x, n):
    global GIVEN
    GIVEN = n
    del GIVEN
    return x


def imports(x, n):
    import math
    from math import pi

    return x, math.floor(pi)


def exceptions(x, n):
    seen = []
    try:
        assert n is not None, "no number"
        if n:
            raise ValueError("some")
    except KeyError:
        seen.append("key")
    except ValueError as error:
        seen.append(str(error))
    finally:
        seen.append("end")
    with torch.no_grad():
        y = x + 1
    try:
        try:
            raise KeyError(n)
        except ValueError:
            pass
    except KeyError:
        return y, seen
    return x


def groups(x, n):
    seen = []
    try:
        raise ExceptionGroup("several", [ValueError(n), KeyError(n)])
    except* ValueError:
        seen.append("value")
    except* KeyError:
        seen.append("key")
    return x, seen


def generators(x, n):
    def inner():
        got = yield 1
        yield x * 2 if got is None else x
        return 3

    def outer():
        kept = yield from inner()
        yield kept

    return x, list(outer()), next(inner())


def classes(x, n):
    class Local(Holder):
        size: int = n
        again = size

        def twice(self):
            return self.size * 2 + n

    return x, Local(1).twice()


def coroutines(x, n):
    class Several:
        def __init__(self):
            self.left = n

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return self.left

        async def __aenter__(self):
            return 1

        async def __aexit__(self, *error):
            return None

    async def some():
        yield n

    async def main():
        async with Several() as one:
            items = [one]
        async for item in Several():
            items.append(item)
        async for item in some():
            items.append(item)
        return items

    coroutine = main()
    try:
        coroutine.send(None)
    except StopIteration as stopped:
        return x, stopped.value


def _made(source):
    names = {"X": X, "torch": torch, "Holder": Holder}
    exec(compile(source, __file__, "exec"), names)
    return names["program"]


LONG = "def program(x, n):\n" + "".join(f"    n = n + {1000 + i}\n" for i in range(300)) + "    return x, n\n"
MADE = [LONG, "def program(x, n):\n    if n:\n        pass\n    return x\n"]
if sys.version_info >= (3, 12):
    MADE.append(
        "def program(x, n):\n    class Local:\n        type Number = int\n        size = n\n"
        "        again = lambda self: self.size\n"
        "    def same[T](value: T) -> T:\n        return value\n    return same(x), Local().again()\n"
    )
WHOLE = [
    numbers, loops, is_none, containers, matching, text, calls, cells, forgetting, attributes, global_names, imports,
]  # fmt: skip
PROGRAMS = [
    *WHOLE, exceptions, generators, groups, classes, coroutines, forgotten_global, *map(_made, MADE),
]  # fmt: skip
# What else a program runs: the interpreter enters it.
ENTERED = {attributes: [Doubled.value]}
