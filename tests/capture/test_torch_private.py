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

from longhand.capture import torch_private, torch_transforms
from longhand.capture.torch_allowed import is_allowed_in_graph

ROOT = Path(__file__).resolve().parents[2]


def test_names_of_torch():
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    assert torch_private.FakeTensor is FakeTensor and torch_private.FakeTensorMode is FakeTensorMode
    assert torch_private.ShapeEnv is ShapeEnv
    assert issubclass(torch_private.GuardOnDataDependentSymNode, RuntimeError)
    with torch_private.FakeTensorMode():
        x = torch.empty(3)
        for looks in (lambda: torch.equal(x, x), lambda: torch.nonzero(x)):
            with pytest.raises(torch_private.LOOKS_AT_DATA):
                looks()
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


def test_fake_tensors_on_another_device():
    env = torch_private.ShapeEnv()
    with torch_private.FakeTensorMode(shape_env=env) as mode:
        x = torch.empty(3, 4, dtype=torch.float16).t()
        sized = mode.from_tensor(
            torch.empty(5, 7), symbolic_context=torch_private.symbolic_sizes([False, True])
        )
        for one in (x, sized):  # inside of the mode, too
            made = torch_private.fake_on_device(one, torch.device("meta"))
            assert type(made) is torch_private.FakeTensor
    for one in (x, sized):
        made = torch_private.fake_on_device(one, torch.device("cuda"))
        with mode:
            expected = torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="cuda")
        assert str(made.shape) == str(one.shape) and made.stride() == one.stride() and made.dtype == one.dtype
        assert {**vars(made)} == {**vars(expected)} and made.device == expected.device


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
    assert torch_private.inlined(torch_private.associative_scan_op) is torch_private.generic_associative_scan
    numbers = torch.arange(5.0)
    (summed,) = torch_private.generic_associative_scan(torch.add, [numbers], additional_inputs=())
    assert summed.tolist() == numbers.cumsum(0).tolist()


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


def test_fakes_that_fail_are_quiet(caplog):
    mode = torch_private.FakeTensorMode()
    x = mode.from_tensor(torch.randn(2, 3))
    with caplog.at_level("ERROR"), torch_private.quiet_fakes(), pytest.raises(RuntimeError):
        x @ x
    assert not caplog.records
    assert not logging.getLogger("torch._subclasses.fake_tensor").disabled


def test_sizes_that_are_symbols_and_sizes_that_are_not():
    for duck, n_symbols in ((True, 1), (False, 2)):
        mode = torch_private.FakeTensorMode(shape_env=torch_private.ShapeEnv(duck_shape=duck))
        context = torch_private.symbolic_sizes((False, True, False))
        x = mode.from_tensor(torch.randn(5, 5, 5), symbolic_context=context)
        kinds = [type(size) for size in x.shape]
        assert kinds == [torch.SymInt, int, torch.SymInt]
        assert len({torch_private.symbolic_expression(x.shape[dim]) for dim in (0, 2)}) == n_symbols


def test_what_torch_asks_itself():
    assert torch_private.is_scripting() is False
    assert torch_private.get_tracing_state() is None
    assert torch_private.is_tracing() is False
    assert torch_private.log_api_usage_once("longhand.test") is None


def test_writes_to_a_tensor_are_counted():
    x = torch.zeros(3)
    before = torch_private.version(x)
    x.add_(1)
    assert torch_private.version(x) == before + 1
    torch_private.set_version(x, before)
    assert torch_private.version(x) == before


def test_functions_that_are_allowed_in_a_graph():
    def allowed(x):
        return x

    def other(x):
        return x

    torch.compiler.allow_in_graph(allowed)
    assert is_allowed_in_graph(allowed) and not is_allowed_in_graph(other)


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


def test_data_of_a_tensor_is_its_memory_with_a_count_of_its_own():
    x = torch.zeros(3, requires_grad=True)
    seen = torch_private.data_of(x)
    seen.add_(1)
    assert x[0] == 1 and not seen.requires_grad
    assert (torch_private.version(x), torch_private.version(seen)) == (0, 1)


def test_tensors_inside_of_a_transform_are_wrapped():
    found = []
    torch.vmap(lambda row: found.append(torch_transforms.is_wrapped(row)) or row)(torch.zeros(2, 3))
    torch.func.grad(lambda x: found.append(torch_transforms.is_wrapped(x)) or x.sum())(torch.zeros(3))
    assert found == [True, True] and not torch_transforms.is_wrapped(torch.zeros(3))


def test_every_name_has_a_test():
    """A name that longhand takes from torch's private parts and that no test here uses would break unseen."""
    body = [
        node
        for file in ("torch_private.py", "torch_transforms.py")
        for node in ast.parse((ROOT / "capture" / file).read_text()).body
    ]
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in body:
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            names |= {alias.asname or alias.name for alias in node.names}
    here = Path(__file__)
    texts = (here.read_text(), here.with_name("test_torch_modes.py").read_text())
    tested = set(re.findall(r"torch_(?:private|transforms)\.(\w+)", "".join(texts)))
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
    """No other module of capture imports a private torch module, or `torch.fx` internals.

    But for what Dynamo's door needs, and what loaded units ask in each call: they are too quick for so long an import.
    """
    private = re.compile(
        r"^\s*(from|import) torch(\.\w+)*\._\w+|torch\.fx\.(experimental|proxy)", re.MULTILINE
    )
    for file in sorted((ROOT / "capture").rglob("*.py")):
        if file.name in ("torch_private.py", "torch_dynamo.py", "torch_tracing.py", "torch_checkpoints.py"):
            continue
        text = file.read_text().replace("import torch.utils._pytree as pytree", "")
        assert not private.search(text), file.name


def test_checks_of_all_values():
    torch_private.check_all(torch.tensor([True, True]))
    torch_private.check_all_with(KeyError, torch.tensor([True]))
    with pytest.raises(RuntimeError):
        torch_private.check_all(torch.tensor([True, False]))
    with pytest.raises(KeyError, match="no"):
        torch_private.check_all_with(KeyError, torch.tensor([False]), lambda: "no")


def test_who_casts_a_module():
    class Own(torch.nn.Linear):
        def _apply(self, fn, recurse=True):
            return super()._apply(fn, recurse)

    assert torch_private.is_cast_by_torch(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    assert not torch_private.is_cast_by_torch(torch.nn.Sequential(Own(2, 2)))


def test_sizes_that_a_failed_call_made_are_forgotten():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    environment = ShapeEnv(allow_dynamic_output_shape_ops=True)
    with FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True):
        torch.nonzero(torch.ones(3))
    assert environment.pending_fresh_unbacked_symbols
    torch_private.forget_fresh_sizes(environment)
    assert not environment.pending_fresh_unbacked_symbols
