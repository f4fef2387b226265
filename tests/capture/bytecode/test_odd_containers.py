"""Containers and what is bound: copies, cycles, lists that change while they are read, sets, named tuples."""

import collections
import copy
import functools
import operator
import weakref

import pytest
import torch

from tests.capture.bytecode.scenarios import Scenarios, tell

ALL = Scenarios()
X = torch.linspace(-2, 2, 6).reshape(2, 3)


@ALL.scenario
def dict_of_an_object(run):
    class Bag:
        def __init__(self, **named):
            self.__dict__.update(named)

    def f(b, x):
        total = sum(v for v in vars(b).values() if isinstance(v, int))
        b.__dict__["made"] = total
        return x * total, list(vars(b)), b.made

    g, b = run(f), Bag(a=1, b=2)
    seen = [g(b, X), g(b, X), vars(b)]
    b.c = 10
    return [*seen, tell(g, b, X), g(Bag(b=2, a=1), X)]


@ALL.scenario
def copies(run):
    class Node:
        def __init__(self, v, rest=None):
            self.v, self.rest = v, rest

    def f(n, d, x):
        c, e = copy.copy(n), copy.deepcopy(d)
        c.v = c.v + 1
        e["l"].append(5)
        o = copy.deepcopy(n)
        o.rest.append(1)
        o.rest.append(o)
        p = copy.deepcopy({"copy": o})["copy"]  # of what was made here, which holds itself
        p.rest.append(7)
        return x * c.v, c.rest is n.rest, e, d, o.rest[:2], n.rest, p.rest[2] is p, p.rest[3:], len(o.rest)

    g, n, d = run(f), Node(1, [2]), {"l": [1], "t": (1, [2])}
    return tell(g, n, d, X), tell(g, n, d, X), n.v, n.rest, d


@ALL.scenario
def bound_things_kept_for_later(run):
    def f(items, d, s, x):
        push, get, join = items.append, d.get, ",".join
        push(x)
        push(get("k", 3))
        call = operator.methodcaller("upper")
        pick = operator.itemgetter(0, 1)
        return items[-1], join(["a", "b"]), call(s), pick(items), len(items), functools.partial(push, 9)()

    g, items = run(f), [1]
    return g(items, {}, "ab", X), g(items, {"k": 5}, "c", X), items


@ALL.scenario
def bound_methods_of_outside_objects(run):
    items, table = [], {}
    push, keep = items.append, table.setdefault

    def f(x):
        push(x.shape[0])
        keep(len(items), x)
        return x * len(items)

    g = run(f)
    return g(X), g(X), items, table


@ALL.scenario
def objects_that_refer_to_each_other(run):
    class Node:
        def __init__(self, parent=None):
            self.parent, self.children = parent, []
            if parent is not None:
                parent.children.append(self)

    def f(root, x):
        a = Node(root)
        b = Node(a)
        a.parent.extra = b
        b.loop = b
        return x * len(root.children), root.extra is b, b.loop.loop is b, a in root.children

    g, root = run(f), Node()
    ref = weakref.ref(root)
    return g(root, X), g(root, X), len(root.children), root.extra.parent is root.children[-1], ref() is root


@ALL.scenario
def lists_that_change_while_they_are_read(run):
    def f(items, x):
        seen = []
        for i, item in enumerate(items):
            seen.append(item)
            if item == 2:
                items.remove(2)
            if i < 2:
                items.append(item + 10)
            if len(seen) > 8:
                break
        for item in reversed(items):
            if item > 10:
                items.pop()
        d = dict.fromkeys(items)
        try:
            for key in d:
                d[key + 1] = 1
        except RuntimeError as error:
            seen.append(str(error))
        return x * len(items), seen, items

    g = run(f)
    return [g(items, X) for items in ([1, 2, 3], [], [2, 2, 2], [1])]


@ALL.scenario
def sets(run):
    def f(s, x):
        t = s | {5}
        s.add(7)
        s.discard(1)
        s -= {2}
        return (
            x * len(s),
            sorted(t),
            sorted(s),
            s <= t,
            frozenset(s) == s,
            {1, True, 1.0},
            s.isdisjoint({100}),
        )

    g = run(f)
    return [g(s, X) for s in ({1, 2, 3}, set(), {True, 2}, {1.0, 9})]


@ALL.scenario
def named_tuples(run):
    class Pair(collections.namedtuple("Base", "a b", defaults=[3])):
        __slots__ = ()

        @property
        def total(self):
            return self.a + self.b

    Plain = collections.namedtuple("Plain", "u v")  # noqa: PYI024

    def f(p, x):
        q = Plain(u=1, v=x)
        return (
            x * p.total,
            p._replace(b=9).b,
            p[0],
            [*p],
            q.v,
            q._asdict()["u"],
            p == (p.a, p.b),
            len(p),
            hash(p) == 0,
        )

    g = run(f)
    return [tell(g, Pair(*given), X) for given in ((1,), (2, 5), (1.0,))]


@pytest.mark.parametrize("name", ALL)
def test_odd_containers(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_odd_containers_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
