"""Each private name of torch that capture leans on exists, and does what we take it for."""

from __future__ import annotations

import ast
import contextlib
import inspect
import logging
import re
from pathlib import Path

import pytest
import torch
import torch.utils.checkpoint
from torch import fx
from torch.fx.proxy import TracerBase

from longhand.capture import torch_private

ROOT = Path(__file__).resolve().parents[2]


def test_names_of_torch():
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    assert torch_private.FakeTensor is FakeTensor and torch_private.FakeTensorMode is FakeTensorMode
    assert torch_private.ShapeEnv is ShapeEnv
    assert issubclass(torch_private.GuardOnDataDependentSymNode, RuntimeError)
    assert torch_private.unset_fake_temporarily is unset_fake_temporarily
    assert callable(TracerBase._filter_traceback_frames)
    assert torch.ops.aten.add.Tensor._schema.name == "aten::add"
    assert torch.ops.aten.add.Tensor._overloadname == "Tensor"


def test_storages_of_fake_tensors():
    with torch_private.FakeTensorMode() as mode:
        x = torch.empty(3, 4)
        assert torch_private.storage_key(x) == torch_private.storage_key(x[1:].t())
        assert torch_private.storage_key(x) != torch_private.storage_key(x.clone())
        assert torch_private.fake_mode_of(x) is mode


def test_questions_about_torch_function_and_checks():
    x = torch.ones(2)
    one, unary, variadic = torch_private.HAS_TORCH_FUNCTION
    assert not one((x,)) and not unary(x) and not variadic(x, x)
    for check, kind in torch_private.CHECKS.items():
        with pytest.raises(kind):
            check(False, "no" if kind is AssertionError else lambda: "no")
    with pytest.raises(KeyError):
        torch_private.check_with(KeyError, False, lambda: "no")
    if torch_private.check_is_size is not None:
        with pytest.warns(FutureWarning) if torch.__version__ >= "2.13" else contextlib.nullcontext():
            torch_private.check_is_size(2)


def test_what_scripted_functions_were_made_from():
    @torch.jit.script
    def twice(x):
        return x * 2

    assert torch_private.inlined(twice).__name__ == "twice"
    assert torch_private.inlined(torch.relu) is None


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
    depth = torch_private.n_transforms()
    with pytest.raises(KeyError), torch_private.keeping_transforms():
        torch._C._functorch._vmap_increment_nesting(3, "error")
        torch._C._functorch._grad_increment_nesting()
        torch._C._functorch._jvp_increment_nesting()
        torch._C._functorch._func_increment_nesting(True)
        assert torch_private.n_transforms() == depth + 4
        raise KeyError
    assert torch_private.n_transforms() == depth
    torch._C._functorch._vmap_increment_nesting(3, "error")
    with pytest.raises(KeyError), torch_private.keeping_transforms():
        torch._C._functorch._vmap_increment_nesting(3, "error")
        raise KeyError
    assert torch_private.n_transforms() == depth + 1  # what was begun outside goes on
    torch._C._functorch._vmap_decrement_nesting()
    assert torch_private.is_transformed(torch.vmap(torch.sin)) and not torch_private.is_transformed(copied)
    node = torch.fx.Graph().call_function(torch._C._functorch._vmap_increment_nesting, (3, "error"))
    assert torch_private.opens_transform(node) and "_vmap_increment_nesting" in torch_private.TRANSFORMS


def test_what_vmap_is_made_of():
    from torch._functorch import predispatch

    (begin, end), (wrap, unwrap) = torch_private.vmap_levels(), torch_private.vmap_wrappers()
    called = {value for name, value in vars(predispatch).items() if name.endswith("_impl")}
    assert {begin, end, wrap, unwrap} <= called
    assert torch_private.load_vmap_rules is predispatch.lazy_load_decompositions
    assert torch_private.opens_transform(torch.fx.Graph().call_function(begin, (2, "error")))
    torch_private.load_vmap_rules()
    level = begin(2, "error")
    row = wrap(torch.ones(3, 2), 1, level)
    assert row.shape == (3,) and unwrap(row * 2, level, 2, 0).shape == (2, 3)
    assert end() == level


def test_the_mode_that_indexes_by_tensors():
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.overrides import TorchFunctionMode

    assert torch_private.TorchFunctionMode is TorchFunctionMode
    assert torch_private.indexes_by_tensors(TransformGetItemToIndex)
    assert not torch_private.indexes_by_tensors(TorchFunctionMode)
    assert "__enter__" in vars(TorchFunctionMode) and "__exit__" in vars(TorchFunctionMode)


def test_dispatch_modes_are_counted():
    assert torch_private.n_dispatch_modes() == 0
    with torch_private.FakeTensorMode():
        assert torch_private.n_dispatch_modes() == 1


def test_what_batched_tensors_are_around():
    x = torch.ones(3, 2, requires_grad=True)
    seen = []
    torch.vmap(torch.vmap(lambda t: seen.append(torch_private.unbatched(t)) or t))(x)
    assert seen[0].shape == x.shape and seen[0].requires_grad


def test_transforms_with_derivatives():
    calls = [getattr(torch._C._functorch, name) for name in torch_private.TRANSFORMS]
    nodes = [torch.fx.Graph().call_function(call) for call in calls]
    assert [torch_private.differentiates(node) for node in nodes] == [True, False, True, True]


def test_ops_that_write_into_lists():
    assert torch_private.writes_into_a_list(torch.ops.aten._foreach_add_.Scalar)
    assert not torch_private.writes_into_a_list(torch.ops.aten.add_.Tensor)


def test_products_of_sizes_that_are_symbols():
    environment = torch_private.ShapeEnv()
    with (
        torch_private.FakeTensorMode(shape_env=environment) as mode,
        torch_private.symbolic_rules(),
    ):
        sizes = torch_private.symbolic_sizes((False,) * 3), torch_private.symbolic_sizes((False,) * 2)
        x, w = (
            mode.from_tensor(torch.ones(shape), symbolic_context=context)
            for shape, context in zip(((2, 5, 32), (32, 96)), sizes, strict=True)
        )
        assert str((x @ w).shape[-1]) == str(w.shape[-1])


def test_constants_behind_fake_tensors():
    assert torch_private.fake_constant(torch.tensor(2.0)).item() == 2.0
    with torch_private.FakeTensorMode():
        assert torch_private.fake_constant(torch.empty(3)) is None


def test_real_tensors_inside_a_fake_mode():
    with torch_private.FakeTensorMode(), torch_private.no_fake_mode():
        assert torch.ones(2).sum().item() == 2


def test_symbols_of_sizes():
    environment = torch_private.ShapeEnv()
    mode = torch_private.FakeTensorMode(shape_env=environment)
    size = mode.from_tensor(torch.randn(5, 3), static_shapes=False).shape[0]
    assert torch_private.symbolic_expression(size).is_Symbol
    assert torch_private.symbolic_hint(size) == 5
    assert torch_private.shape_env_of(size) is environment
    lower, upper = torch_private.symbol_range(environment, torch_private.symbolic_expression(size))
    assert int(lower) == 2 and upper > 10**6
    assert not torch_private.free_unbacked_symbols(size)
    torch_private.bound_symbol(size, 4, 9)
    lower, upper = torch_private.symbol_range(environment, torch_private.symbolic_expression(size))
    assert (int(lower), int(upper)) == (4, 9)
    assert isinstance(
        environment.var_to_range[torch_private.symbolic_expression(size)], torch_private.ValueRanges
    )


def test_writes_of_a_schema():
    assert torch_private.writes(torch.ops.aten.add_.Tensor) == ("self",)
    assert torch_private.writes(torch.ops.aten.add.out) == ("out",)
    assert torch_private.writes(torch.ops.aten.view.default) == ()


def test_dynamo_tells_where_an_input_comes_from():
    found = []

    def backend(module: fx.GraphModule, examples):
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        found.extend(map(torch_private.dynamo_source_name, placeholders))
        return module.forward

    torch.compiler.reset()
    layer = torch.nn.Linear(2, 2)
    with torch.no_grad():
        torch.compile(layer, backend=backend)(torch.randn(3, 2))
    assert any(re.search(r"_parameters\['weight'\]", name) for name in found)
    assert any(name.startswith("L['args']") or name == "L['input']" for name in found)


def test_stacks_hold_the_users_helpers():
    def helper(x):
        return x.sin()

    def forward(x):
        return helper(x) + 1

    module = torch.nn.Module()
    module.forward = forward
    with torch_private.stacks_since("nowhere.py"):
        program = torch.export.export(module, (torch.randn(2),), strict=False)
    stacks = [node.stack_trace for node in program.graph.nodes if node.target is torch.ops.aten.sin.default]
    assert "in helper" in stacks[0] and "in forward" in stacks[0]


def test_apply_of_an_autograd_function():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    held = inspect.getattr_static(Doubled, "apply")
    assert torch_private.is_autograd_apply(getattr(held, "__func__", held))
    assert not torch_private.is_autograd_apply(Doubled.forward)


def test_what_a_guard_compares():
    x = torch.randn(3, 4)
    keys = torch_private.dispatch_keys(x)
    assert keys == torch_private.dispatch_keys(x.clone()) != torch_private.dispatch_keys(x.to_sparse())
    assert keys != torch_private.dispatch_keys(torch.randn(2, dtype=torch.complex64).conj())
    assert (
        eval(torch_private.KEYS_TEXT.format("x"), {"dispatch_keys": torch_private.dispatch_keys, "x": x})
        == keys
    )


def test_one_check_of_many_tensors():
    x, z = torch.randn(3, 4), torch.randn(2, dtype=torch.complex64)
    check = torch_private.tensor_check((x, z))
    assert check(torch.ones(3, 4), z.clone())
    others = {
        "sizes": torch.randn(3, 5),
        "rank": torch.randn(3, 4, 1),
        "strides": torch.randn(4, 3).t(),
        "dtype": x.double(),
        "device": x.to("meta"),
        "requires_grad": x.clone().requires_grad_(),
        "type": torch.nn.Parameter(x, requires_grad=False),
        "layout": x.to_sparse(),
        "negative": torch._neg_view(x),
    }
    with torch.inference_mode():
        others["inference"] = torch.randn(3, 4)
    assert [what for what, other in others.items() if check(other, z)] == []
    assert not check(x, z.conj())
    assert not check(x, None)


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
    settings, nesting = torch_private.autocast_settings(), torch_private.autocast_nesting()
    with torch.autocast("cpu", dtype=torch.float16):
        inside = torch_private.autocast_settings(), torch_private.autocast_nesting()
        torch_private.set_autocast(settings, nesting)
        assert not torch.is_autocast_enabled("cpu")
        assert (torch_private.autocast_settings(), torch_private.autocast_nesting()) == (settings, nesting)
        torch_private.set_autocast(*inside)
        assert torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.float16
        assert torch_private.autocast_nesting() == nesting + 1
    assert torch_private.autocast_settings() == settings != inside[0]


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


def test_fakes_that_fail_are_quiet(caplog):
    mode = torch_private.FakeTensorMode()
    x = mode.from_tensor(torch.randn(2, 3))
    with caplog.at_level("ERROR"), torch_private.quiet_fakes(), pytest.raises(RuntimeError):
        x @ x
    assert not caplog.records
    assert not logging.getLogger("torch._subclasses.fake_tensor").disabled


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
    torch.func.vmap(lambda x: (seen.append(torch_private.is_inside_transform()), x)[1])(torch.ones(2))
    assert seen == [True]
    assert not torch_private.is_inside_transform()


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


def test_sizes_that_are_symbols_and_sizes_that_are_not():
    for duck, n_symbols in ((True, 1), (False, 2)):
        mode = torch_private.FakeTensorMode(shape_env=torch_private.ShapeEnv(duck_shape=duck))
        context = torch_private.symbolic_sizes((False, True, False))
        x = mode.from_tensor(torch.randn(5, 5, 5), symbolic_context=context)
        kinds = [type(size) for size in x.shape]
        assert kinds == [torch.SymInt, int, torch.SymInt]
        assert len({torch_private.symbolic_expression(x.shape[dim]) for dim in (0, 2)}) == n_symbols


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
        handle.remove()
    assert not torch_private.has_global_module_hooks()


def test_what_torch_asks_itself():
    assert torch_private.is_scripting() is False
    assert torch_private.get_tracing_state() is None
    assert torch_private.log_api_usage_once("longhand.test") is None


def test_writes_to_a_tensor_are_counted():
    x = torch.zeros(3)
    before = torch_private.version(x)
    x.add_(1)
    assert torch_private.version(x) == before + 1


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


def test_make_fx_records_calls():
    graph = torch_private.make_fx(lambda x: torch.sin(x) + 1)(torch.randn(3)).graph
    assert [node.target for node in graph.nodes if node.op == "call_function"] == [
        torch.ops.aten.sin.default,
        torch.ops.aten.add.Tensor,
    ]


def test_what_registers_a_custom_operator():
    from tests.autograd.grouped_operator import grouped

    assert grouped in torch_private.OPDEFS.values()
    op = torch.ops.longhand_tests.grouped.default
    assert torch_private.registered_by(op) == "tests.autograd.grouped_operator"
    assert torch_private.registered_by(torch.ops.aten.mm.default) is None


def test_every_name_has_a_test():
    """A name that longhand takes from torch's private parts and that no test here uses would break unseen."""
    tree = ast.parse((ROOT / "capture" / "torch_private.py").read_text())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            names |= {alias.asname or alias.name for alias in node.names}
    tested = set(re.findall(r"torch_private\.(\w+)", Path(__file__).read_text()))
    used_inside = {
        "DimDynamic",
        "StatelessSymbolicContext",
        "TensorGuards",
        "enable_python_dispatcher",
        "TracerBase",
        "unset_fake_temporarily",
    }  # by what is tested
    assert {name for name in names if not name.startswith("_")} - tested - used_inside == {"fx"}


def test_private_imports_are_in_one_module():
    """No other module of capture imports a private torch module, or `torch.fx` internals."""
    private = re.compile(
        r"^\s*(from|import) torch(\.\w+)*\._\w+|torch\.fx\.(experimental|proxy)", re.MULTILINE
    )
    for file in sorted((ROOT / "capture").rglob("*.py")):
        if file.name in ("torch_private.py", "torch_dynamo.py"):
            continue
        text = file.read_text().replace("import torch.utils._pytree as pytree", "")
        assert not private.search(text), file.name
