"""One object reached by two ways, captured, against eager."""

import pytest
import torch

from tests.capture.bytecode.behaviours import GLOBAL_DICT, Behaviours, Config, X

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


GLOBAL_TENSOR_2D = torch.linspace(0, 1, 12).reshape(3, 4)


@behaviour((X, [X, X]))
def same_tensor_twice(x, pair):
    pair[0].add_(1)
    return pair[1] * 2, pair[0] is pair[1]


SHARED_LIST = [1]


SHARED_CONFIG = Config(3)


@behaviour((X, [1], [1]), (X, SHARED_LIST, SHARED_LIST))
def two_lists_that_may_be_one(x, a, b):
    a.append(2)
    return x + len(b), len(a)


@behaviour((X, {"a": 1}, {"a": 1}), (X, GLOBAL_DICT, GLOBAL_DICT))
def two_dicts_that_may_be_one(x, a, b):
    a["a"] = 5
    return x + b["a"]


@behaviour((X, Config(3), Config(3)), (X, SHARED_CONFIG, SHARED_CONFIG))
def two_objects_that_may_be_one(x, a, b):
    a.scale = 10
    return x + b.scale


@behaviour((X, X + 1), (GLOBAL_TENSOR_2D, GLOBAL_TENSOR_2D))
def two_tensors_that_may_be_one(x, y):
    x.add_(1)
    return y * 2


@behaviour((X, X + 1), (GLOBAL_TENSOR_2D, GLOBAL_TENSOR_2D[1:]))
def two_tensors_that_may_overlap(x, y):
    x.add_(1)
    return y * 2


def _broken(x, other):
    size = x.shape
    print("", end="")
    return x * 2 + other, size


@behaviour((X, X), (X, X + 1), (X + 1, X), breaks=None)
def one_tensor_twice_before_a_break(x, y):
    return _broken(x, y)


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
