"""torch._check and its kin, __torch_function__, scripted functions and settings that change nothing, against eager."""

import logging

import pytest
import torch

from tests.capture.bytecode.behaviours import Behaviours, X

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X,))
def checks_that_hold(x):
    torch._check(x.dim() == 2)
    torch._check(x.shape[1] == 4, lambda: f"not {x.shape}")
    torch._check_value(x.shape[0] > 0, lambda: "empty")
    torch._check_type(isinstance(x, torch.Tensor), lambda: "no tensor")
    torch._check_index(True)
    getattr(torch, "_check_is_size", lambda size: None)(x.shape[0])
    torch._check_with(KeyError, True, lambda: "never")
    torch._assert(x.ndim == 2, "two dimensions")
    return x + 1


@behaviour((X, 3), (X, 5), breaks=None)
def a_check_that_fails_is_handled(x, n):
    try:
        torch._check_value(n == 3, lambda: f"{n} is not three")
    except ValueError as error:
        return x * 2, str(error)
    return x, ""


@behaviour((X,), breaks=None)
def a_check_that_fails(x):
    torch._check(x.dim() == 5, lambda: f"{x.dim()} dimensions")
    return x


@behaviour((X,))
def torch_functions_are_asked_for(x):
    from torch.overrides import has_torch_function, has_torch_function_unary, has_torch_function_variadic

    return x + 1, has_torch_function((x, 2)), has_torch_function_unary(x), has_torch_function_variadic(x, x)


@behaviour((X,))
def settings_without_effect(x):
    with torch.profiler.record_function("block"), torch.inference_mode(False):
        x = x + 1
    logging.getLogger("longhand.tests").debug("of %s", x.shape)
    return x.data * 2


@torch.jit.script
def scripted(x, n: int):
    return x * n + 1


@behaviour((X,))
def scripted_functions(x):
    return scripted(x, 3)


@behaviour((X,))
def overloads_by_name(x):
    return torch.ops.aten.add.Tensor(x, x) + torch.ops.aten.relu(x)


@behaviour((X,))
def named_results(x):
    best = torch.topk(x, 2)
    return best.values, best.indices, x.max(1).values, x.sort().indices


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
