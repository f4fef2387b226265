"""Paths that guards walk are remembered, and whatever changes on them, or beside them, is noticed all the same."""

from __future__ import annotations

import gc
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

from longhand.capture.bytecode.hook import frame_hook

HOOK = frame_hook()
pytestmark = pytest.mark.skipif(not HOOK.REMEMBERS, reason="nothing is remembered on this Python")

# Kinds of steps and facts, as in capture/_held_paths.h.
CONSTANT, DICT, ATTRIBUTE, INDEX, CELL, FIELD, TYPE, SCALAR, KEY, CONTENT, ORDER, LACKS = range(12)


class Node:
    """An object with attributes."""

    shared = "of the class"

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Other(Node):
    """Another class of the same layout."""


class Slotted:
    """Keeps its attribute in a slot."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def paths(*steps: tuple[Any, ...]) -> Any:
    """HeldPaths with one root whose only output is what the last step leads to."""
    return HOOK.HeldPaths(1, tuple((*step, None)[:3] for step in steps), (len(steps),))


def learnt(held: Any, root: Any) -> Any:
    held.keep(held.learn(root))
    found = held.recall(root)
    assert found is not None, "it is remembered"
    return found[0]


def test_what_is_as_it_was_is_remembered() -> None:
    root = Node(child=Node(items={"a": [1, (2, 3)]}))
    held = paths(
        (ATTRIBUTE, 0, "child"), (ATTRIBUTE, 1, "items"), (INDEX, 2, "a"), (INDEX, 3, 1), (INDEX, 4, 0)
    )
    assert held.recall(root) is None
    assert learnt(held, root) == 2
    assert held.recall(root) == (2,)


def test_another_root_is_another_path() -> None:
    first, second = Node(value="a"), Node(value="b")
    held = paths((ATTRIBUTE, 0, "value"))
    learnt(held, first)
    assert held.recall(second) is None
    assert learnt(held, second) == "b"


def set_attribute(root: Node) -> None:
    root.child.value = "new"


def set_same_length_dict(root: Node) -> None:
    root.child.__dict__ = dict(root.child.__dict__)


def new_child(root: Node) -> None:
    root.child = Node(**vars(root.child))


def new_class(root: Node) -> None:
    root.child.__class__ = Other


def delete(root: Node) -> None:
    del root.child.value


def through_vars(root: Node) -> None:
    vars(root.child)["value"] = "new"


def cleared(root: Node) -> None:
    vars(root.child).clear()


def popped(root: Node) -> None:
    vars(root.child).pop("value")


def popped_item(root: Node) -> None:
    vars(root.child).popitem()


def updated(root: Node) -> None:
    vars(root.child).update(value="new")


def joined(root: Node) -> None:
    root.child.__dict__ |= {"value": "new"}


def defaulted(root: Node) -> None:
    vars(root.child).setdefault("other", 1)


def bare_setattr(root: Node) -> None:
    object.__setattr__(root.child, "value", "new")


def many_times(root: Node) -> None:
    """Often enough that CPython specializes the store."""
    for number in range(100):
        root.child.value = number


CHANGES = [
    set_attribute, set_same_length_dict, new_child, new_class, delete, through_vars, cleared, popped, popped_item,
    updated, joined, defaulted, bare_setattr, many_times,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_each_change_of_an_object_on_the_path_is_noticed(change: Callable[[Node], None]) -> None:
    root = Node(child=Node(value="old"))
    held = paths((ATTRIBUTE, 0, "child"), (ATTRIBUTE, 1, "value"))
    assert learnt(held, root) == "old"
    change(root)
    assert held.recall(root) is None
    assert held.recall(root) is None, "and forgotten"


def test_the_same_value_set_again_changes_nothing() -> None:
    root = Node(value=Node())
    held = paths((ATTRIBUTE, 0, "value"))
    found = learnt(held, root)
    root.value = found
    assert held.recall(root) == (found,)


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_changes_of_dicts_are_noticed(kind: type) -> None:
    def without(root: Any) -> None:
        del root["a"]

    changes: list[Callable[[Any], None]] = [
        lambda root: root.update(a=2),
        lambda root: root.update(b=2),
        lambda root: root.clear(),
        lambda root: root.pop("a"),
        lambda root: root.popitem(),
        lambda root: root.setdefault("b", 3),
        lambda root: root.__ior__({"c": 1}),
        without,
    ]
    for change in changes:
        root = Node(items=kind(a=1))
        held = paths((ATTRIBUTE, 0, "items"), (CONTENT, 1))
        learnt(held, root)
        change(root.items)
        assert held.recall(root) is None


def test_changes_of_lists_are_noticed() -> None:
    changes: list[Callable[[list[Any]], Any]] = [
        lambda items: items.append(3),
        lambda items: items.pop(),
        lambda items: items.clear(),
        lambda items: items.__setitem__(1, "b"),
        lambda items: items.insert(0, "new"),
        lambda items: items.__setitem__(slice(1, 2), [Node()]),
        lambda items: items.reverse(),
    ]
    for change in changes:
        root = Node(items=["a", Node(), "c", Node()])
        held = paths((ATTRIBUTE, 0, "items"), (CONTENT, 1), (INDEX, 1, 1))
        learnt(held, root)
        change(root.items)
        assert held.recall(root) is None


def test_a_cell_a_slot_and_a_function_are_looked_at_each_time() -> None:
    inside = Node()

    def closure() -> Any:
        return inside

    held = paths((FIELD, 0, "__closure__"), (INDEX, 1, 0), (CELL, 2))
    assert learnt(held, closure) is inside
    inside = Node()
    assert held.recall(closure) is None

    slotted = Slotted("a")
    held = paths((ATTRIBUTE, 0, "value"))
    assert learnt(held, slotted) == "a"
    slotted.value = "b"
    assert held.recall(slotted) is None

    def function(x: int = 1) -> int:
        return x

    for field, new in (("__defaults__", (2,)), ("__code__", closure.__code__.replace(co_freevars=()))):
        held = paths((FIELD, 0, field))
        learnt(held, function)
        setattr(function, field, new)
        assert held.recall(function) is None


def test_a_change_of_the_class_is_noticed() -> None:
    class Base:
        word = "a"

    class Derived(Base):
        pass

    changes: list[Callable[[], None]] = [
        lambda: setattr(Base, "word", "b"),
        lambda: setattr(Derived, "word", "c"),
        lambda: setattr(Derived, "another", 1),
        lambda: setattr(Derived, "__getattribute__", lambda self, name: "d"),
    ]
    for change in changes:
        root = Derived()
        root.own = 1  # type: ignore[attr-defined]
        held = paths((ATTRIBUTE, 0, "word"))
        learnt(held, root)
        change()
        assert held.recall(root) is None


def test_of_variables_of_a_module_only_those_looked_at_count() -> None:
    module = types.ModuleType("module")
    module.seen, module.loss = Node(), 0  # type: ignore[attr-defined]
    held = paths((CONSTANT, 0, vars(module)), (INDEX, 1, "seen"), (KEY, 1, "len"))
    learnt(held, Node())
    root = Node()
    learnt(held, root)
    module.loss = 1  # type: ignore[attr-defined]
    assert held.recall(root) is not None
    module.len = 1  # type: ignore[attr-defined]
    assert held.recall(root) is None
    learnt(held, root)
    module.seen = Node()  # type: ignore[attr-defined]
    assert held.recall(root) is None


def test_what_an_object_lacks_may_come() -> None:
    changes: list[Callable[[Any], None]] = [
        lambda root: setattr(root, "there", 1),
        lambda root: setattr(type(root), "there", 1),
    ]
    for change in changes:

        class Bare:
            pass

        root = Bare()
        held = paths((LACKS, 0, "there"))
        learnt(held, root)
        change(root)
        assert held.recall(root) is None


def test_what_runs_code_or_is_no_plain_container_is_not_remembered() -> None:
    class Asks:
        def __getattr__(self, name: str) -> int:
            return 1

    class Computes(dict[str, int]):
        def __missing__(self, key: str) -> int:
            return 1

    class WithProperty:
        @property
        def value(self) -> int:
            return 1

    class WithMethod:
        def method(self) -> int:
            return 1

        @staticmethod
        def static() -> int:
            return 1

    refused = [
        (WithMethod(), (ATTRIBUTE, 0, "method")),
        (WithMethod(), (ATTRIBUTE, 0, "static")),
        (WithMethod, (ATTRIBUTE, 0, "static")),
        (Asks(), (ATTRIBUTE, 0, "value")),
        (Asks(), (LACKS, 0, "value")),
        (Computes(), (INDEX, 0, "a")),
        (Computes(a=1), (CONTENT, 0)),
        (WithProperty(), (ATTRIBUTE, 0, "value")),
        ({"a": 1}, (INDEX, 0, "b")),
        ([1], (INDEX, 0, 1)),
        (OrderedDict(a=1), (ORDER, 0)),  # move_to_end() changes no dict
        (Node(), (SCALAR, 0)),
        (torch.ones(1), (ATTRIBUTE, 0, "requires_grad")),
    ]
    for root, step in refused:
        held = paths(step)
        assert held.walk(root) == [NotImplemented], step
        held.keep(held.learn(root))
        assert held.recall(root) is None


def test_only_what_was_checked_after_learning_is_kept() -> None:
    root = Node(value="old")
    held = paths((ATTRIBUTE, 0, "value"))
    first = held.learn(root)
    second = held.learn(root)  # another thread's
    held.keep(first)
    assert held.recall(root) is None
    held.keep(second)
    assert held.recall(root) == ("old",)
    number = held.learn(root)
    root.value = "new"  # while the guards are evaluated
    held.keep(number)
    assert held.recall(root) is None


def test_nothing_is_kept_alive_and_another_object_at_its_place_is_not_taken_for_it() -> None:
    root = Node(child=Node(value=Node()))
    held = paths((ATTRIBUTE, 0, "child"), (ATTRIBUTE, 1, "value"))
    learnt(held, root)
    gone = weakref.ref(root.child)
    for _ in range(10):
        value = Node()
        root.child = Node(value=value)  # often where the one before lay
        assert held.recall(root) is None
        assert learnt(held, root) is value
    gc.collect()
    assert gone() is None


def test_after_a_while_of_no_use_nothing_is_learnt() -> None:
    root = Node(count=0)
    held = paths((ATTRIBUTE, 0, "count"))
    for _ in range(40):
        held.keep(held.learn(root))
        root.count += 1
        assert held.recall(root) is None
    held.keep(held.learn(root))
    assert held.recall(root) is None


def test_wrong_steps_are_refused() -> None:
    for steps in ([(99, 0, "a")], [(ATTRIBUTE, 5, "a")], [(ATTRIBUTE, 0, 1)], [(ATTRIBUTE, -1, "a")]):
        with pytest.raises(ValueError):
            HOOK.HeldPaths(1, tuple(steps), ())
    with pytest.raises(ValueError):
        HOOK.HeldPaths(1, (), (3,))
    with pytest.raises(TypeError):
        HOOK.HeldPaths(1, (), ()).recall()
