"""What torch tells of modes, levels, hooks and settings by private names, and how they are changed and put back."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import torch
import torch.utils.checkpoint
from torch import fx

from longhand.capture import torch_private, torch_transforms
from longhand.capture.autocast_state import autocast_nesting, autocast_settings, set_autocast
from longhand.capture.bytecode.calls.transforms import indexes_by_tensors

ROOT = Path(__file__).resolve().parents[2]


def test_levels_of_forward_derivatives():
    assert not torch_private.takes_forward_derivatives()
    with torch.autograd.forward_ad.dual_level():
        assert torch_private.takes_forward_derivatives()
    assert not torch_private.takes_forward_derivatives()


def test_dynamo_is_turned_off_and_on():
    """What is called between breaks sees what Dynamo has set for this thread, and may take it away for a while."""
    captured = []

    def inner(x):
        return x + 1

    def backend(module, inputs):
        captured.append(module)
        return module

    def without_dynamo(x):
        before = torch_private.set_dynamo(None)
        result = inner(x)
        assert torch_private.set_dynamo(before) is None
        return result, before

    def function(x):
        torch._dynamo.graph_break()
        return list(map(without_dynamo, [x]))

    without_dynamo(torch.ones(2))
    ((_, before),) = torch.compile(function, backend=backend)(torch.ones(2))
    assert callable(before) and not captured
    assert torch_private.set_dynamo(None) is None


def copied(x):
    return x


def test_levels_are_closed_where_a_graph_fails_half_way():
    depth = torch_transforms.n_transforms()
    with pytest.raises(KeyError), torch_transforms.keeping_transforms():
        torch._C._functorch._vmap_increment_nesting(3, "error")
        torch._C._functorch._grad_increment_nesting()
        torch._C._functorch._jvp_increment_nesting()
        torch._C._functorch._func_increment_nesting(True)
        assert torch_transforms.n_transforms() == depth + 4
        raise KeyError
    assert torch_transforms.n_transforms() == depth
    torch._C._functorch._vmap_increment_nesting(3, "error")
    with pytest.raises(KeyError), torch_transforms.keeping_transforms():
        torch._C._functorch._vmap_increment_nesting(3, "error")
        raise KeyError
    assert torch_transforms.n_transforms() == depth + 1  # what was begun outside goes on
    torch._C._functorch._vmap_decrement_nesting()
    assert torch_transforms.is_transformed(torch.vmap(torch.sin)) and not torch_transforms.is_transformed(
        copied
    )
    node = torch.fx.Graph().call_function(torch._C._functorch._vmap_increment_nesting, (3, "error"))
    assert torch_transforms.opens_transform(node) and "_vmap_increment_nesting" in torch_transforms.TRANSFORMS


def test_what_vmap_is_made_of():
    from torch._functorch import predispatch

    (begin, end), (wrap, unwrap) = torch_transforms.vmap_levels(), torch_transforms.vmap_wrappers()
    called = {value for name, value in vars(predispatch).items() if name.endswith("_impl")}
    assert {begin, end, wrap, unwrap} <= called
    assert torch_transforms.are_transforms_active() is False
    assert torch.vmap(lambda x: x + torch_transforms.are_transforms_active())(torch.zeros(2)).tolist() == [
        1,
        1,
    ]
    assert torch_transforms.load_vmap_rules is predispatch.lazy_load_decompositions
    assert torch_transforms.opens_transform(torch.fx.Graph().call_function(begin, (2, "error")))
    torch_transforms.load_vmap_rules()
    level = begin(2, "error")
    row = wrap(torch.ones(3, 2), 1, level)
    assert row.shape == (3,) and unwrap(row * 2, level, 2, 0).shape == (2, 3)
    assert end() == level


def test_the_mode_that_indexes_by_tensors():
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.overrides import TorchFunctionMode

    assert torch_private.TorchFunctionMode is TorchFunctionMode
    assert indexes_by_tensors(TransformGetItemToIndex)
    assert not indexes_by_tensors(TorchFunctionMode)
    assert "__enter__" in vars(TorchFunctionMode) and "__exit__" in vars(TorchFunctionMode)


def test_dispatch_modes_are_counted():
    assert torch_private.n_dispatch_modes() == 0
    with torch_private.FakeTensorMode():
        assert torch_private.n_dispatch_modes() == 1


def test_what_batched_tensors_are_around():
    x = torch.ones(3, 2, requires_grad=True)
    seen = []
    torch.vmap(torch.vmap(lambda t: seen.append(torch_transforms.unbatched(t)) or t))(x)
    assert seen[0].shape == x.shape and seen[0].requires_grad


def test_transforms_with_derivatives():
    calls = [getattr(torch._C._functorch, name) for name in torch_transforms.TRANSFORMS]
    nodes = [torch.fx.Graph().call_function(call) for call in calls]
    assert [torch_transforms.differentiates(node) for node in nodes] == [True, False, True, True]


def test_global_settings_are_all_in_the_state():
    before = torch_private.global_state()
    assert before == torch_private.global_state()
    settings = [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu"),
        lambda: torch.device("meta"),
        lambda: _restoring(torch.set_default_dtype, torch.float64, torch.get_default_dtype()),
        lambda: _restoring(torch.use_deterministic_algorithms, True, False),
    ]
    with torch.enable_grad():
        before = torch_private.global_state()
        for setting in settings:
            with setting():
                assert torch_private.global_state() != before, setting
        assert torch_private.global_state() == before


@contextlib.contextmanager
def _restoring(change, value, old):
    change(value)
    try:
        yield
    finally:
        change(old)


def test_autocast_is_read_and_put_back():
    assert not torch_private.is_any_autocast_enabled()
    settings, nesting = autocast_settings(), autocast_nesting()
    with torch.autocast("cpu", dtype=torch.float16):
        inside = autocast_settings(), autocast_nesting()
        set_autocast(settings, nesting)
        assert not torch.is_autocast_enabled("cpu")
        assert (autocast_settings(), autocast_nesting()) == (settings, nesting)
        set_autocast(*inside)
        assert torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.float16
        assert autocast_nesting() == nesting + 1
    assert autocast_settings() == settings != inside[0]


def test_fixed_questions_are_answered_the_same_inside_modes():
    arguments = {"_is_autocast_available": ("cpu",)}

    def answers():
        return [ask(*arguments.get(ask.__name__, ())) for ask in torch_private.FIXED_QUESTIONS]

    before = answers()
    with torch.autocast("cpu"), torch.inference_mode(), torch.device("meta"):
        assert answers() == before
    with torch.device("meta"):
        assert torch_private.is_torch_function_mode_enabled()
    assert not torch_private.is_torch_function_mode_enabled()


def test_subclasses_are_left_out_on_demand():
    class Refusing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            raise AssertionError(function)

    x = torch.ones(2).as_subclass(Refusing)
    with torch_private.without_torch_function():
        assert type(x + 1) is torch.Tensor


def test_a_checkpointed_region_is_known():
    found = []

    def backend(module: fx.GraphModule, examples):
        found.extend(node.target for node in module.graph.nodes if node.op == "call_function")
        return module.forward

    def f(x):
        return torch.utils.checkpoint.checkpoint(lambda x: x.sin().cos(), x, use_reentrant=False) + 1

    torch.compiler.reset()
    torch.compile(f, backend=backend)(torch.randn(3, requires_grad=True))
    first, *rest = [torch_private.is_checkpoint(target) for target in found]
    assert first and rest and not any(rest)


def test_switching_gradients():
    with torch.enable_grad():
        torch_private.set_grad_enabled(False)
        assert not torch.is_grad_enabled()
        torch_private.set_grad_enabled(True)
        assert torch.is_grad_enabled()


def test_torch_function_modes_are_counted():
    assert torch_private.n_torch_functions_active() == 0
    with torch.device("meta"):
        assert torch_private.n_torch_functions_active() == 1


def test_a_running_transform_is_seen():
    seen = []
    torch.func.vmap(lambda x: (seen.append(torch_transforms.is_inside_transform()), x)[1])(torch.ones(2))
    assert seen == [True]
    assert not torch_transforms.is_inside_transform()


def test_a_checkpoint_ends_its_second_computation_with_an_exception():
    ended = []

    def step(x):
        try:
            return x.sin().cos()
        except Exception as error:
            ended.append(type(error))
            raise

    x = torch.ones(2, requires_grad=True)
    torch.utils.checkpoint.checkpoint(step, x, use_reentrant=False).sum().backward()
    assert ended == [torch_private.StopRecomputation]


def test_hooks_of_all_modules_are_seen():
    assert not torch_private.has_global_module_hooks()
    register = [
        torch.nn.modules.module.register_module_forward_hook,
        torch.nn.modules.module.register_module_forward_pre_hook,
        torch.nn.modules.module.register_module_full_backward_hook,
        torch.nn.modules.module.register_module_full_backward_pre_hook,
    ]
    for one in register:
        handle = one(lambda *_: None)
        assert torch_private.has_global_module_hooks(), one
        assert sum(map(len, torch_private.global_module_hooks())) == 1
        handle.remove()
    assert not torch_private.has_global_module_hooks()


def test_refused_autograd():
    def refuse(what):
        raise RuntimeError(what)

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    x = torch.ones(2, requires_grad=True)
    with torch_private.refusing_autograd(refuse):
        for call in (lambda: Twice.apply(x), lambda: x.register_hook(print), lambda: x.sum().backward()):
            with pytest.raises(RuntimeError):
                call()
    assert torch.equal(Twice.apply(x), x * 2)
