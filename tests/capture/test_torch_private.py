"""Each private name of torch that capture leans on exists, and does what we take it for."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import fx
from torch.fx.proxy import TracerBase

from longhand.capture import torch_private

ROOT = Path(__file__).resolve().parents[2]


def test_names_of_torch():
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    assert torch_private.FakeTensor is FakeTensor and torch_private.FakeTensorMode is FakeTensorMode
    assert torch_private.ShapeEnv is ShapeEnv
    assert callable(TracerBase._filter_traceback_frames)
    assert torch.ops.aten.add.Tensor._schema.name == "aten::add"
    assert torch.ops.aten.add.Tensor._overloadname == "Tensor"


def test_storages_of_fake_tensors():
    with torch_private.FakeTensorMode() as mode:
        x = torch.empty(3, 4)
        assert torch_private.storage_key(x) == torch_private.storage_key(x[1:].t())
        assert torch_private.storage_key(x) != torch_private.storage_key(x.clone())
        assert torch_private.fake_mode_of(x) is mode


def test_constants_behind_fake_tensors():
    assert torch_private.fake_constant(torch.tensor(2.0)).item() == 2.0
    with torch_private.FakeTensorMode():
        assert torch_private.fake_constant(torch.empty(3)) is None


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


def test_private_imports_are_in_one_module():
    """No other module of capture imports a private torch module, or `torch.fx` internals."""
    private = re.compile(
        r"^\s*(from|import) torch(\.\w+)*\._\w+|torch\.fx\.(experimental|proxy)", re.MULTILINE
    )
    for file in sorted((ROOT / "capture").glob("*.py")):
        if file.name in ("torch_private.py", "torch_dynamo.py"):
            continue
        text = file.read_text().replace("import torch.utils._pytree as pytree", "")
        assert not private.search(text), file.name
