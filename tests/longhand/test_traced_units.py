"""A loaded unit is one operator where PyTorch traces: torch.compile, torch.export, FakeTensorMode, make_fx."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import longhand
from longhand.errors import LonghandError

ROOT = Path(__file__).resolve().parents[2]


class Around(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args):
        return torch.exp(self.inner(*args) * 0.1) + 1


@pytest.fixture(scope="module")
def attention():
    torch.manual_seed(0)
    model = longhand.load(ROOT / "generated/attention_cpu")()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    return model


X = torch.randn(4, 512, 256, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_as_one_graph(attention, backend):
    model = Around(attention)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend=backend, fullgraph=True)(X), model(X))


@pytest.mark.parametrize("strict", [False, True])
def test_exported_and_loaded_elsewhere(attention, strict, tmp_path):
    model = Around(attention)
    with torch.no_grad():
        expected = model(X)
        program = torch.export.export(model, (X,), strict=strict)
    assert sum("longhand_units" in str(node.target) for node in program.graph.nodes) == 1
    assert set(program.state_dict) == set(model.state_dict())
    torch.testing.assert_close(program.module()(X), expected)
    torch.export.save(program, tmp_path / "program.pt2")
    torch.save((X, expected), tmp_path / "call.pt")
    text = (
        "import sys, torch, longhand\nlonghand.load(sys.argv[1])\n"
        "x, expected = torch.load(sys.argv[2] + '/call.pt')\n"
        "program = torch.export.load(sys.argv[2] + '/program.pt2')\n"
        "torch.testing.assert_close(program.module()(x), expected)\nprint('same')"
    )
    words = [sys.executable, "-c", text, str(ROOT / "generated/attention_cpu"), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.stdout.strip() == "same", done.stderr


def test_fake_tensors_get_shapes_and_no_kernel_runs(attention):
    with FakeTensorMode(allow_non_fake_inputs=True):
        result = attention(torch.empty(4, 512, 256))
    assert result.shape == X.shape and result.dtype == X.dtype and result.stride() == X.stride()
    assert type(result).__name__ == "FakeTensor"


def test_traced_by_values_it_is_no_constant():
    softmax = longhand.load(ROOT / "generated/fused_ops_cpu/softmax")
    x, w = torch.randn(4096, 1024), torch.randn(1024)
    graph = make_fx(lambda x, w: softmax(x, w) + 1)(x, w)
    other = torch.randn(4096, 1024)
    torch.testing.assert_close(graph(other, w), torch.softmax(other * 0.125 + w, -1) + 1)


def test_a_wrong_shape_is_told_when_it_is_traced(attention):
    with pytest.raises(Exception, match=r"expected shape \(4, 512, 256\)"):
        torch.export.export(Around(attention), (torch.randn(4, 512, 128),))


def step(model, tokens, targets):
    model.zero_grad()
    loss = model(tokens, targets)
    loss.backward()
    return loss.detach(), [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_training_inside_a_compiled_step(backend):
    from examples import gpt_train

    original, args = gpt_train.small()[:2]
    unit = longhand.load(ROOT / "generated/gpt_train_cpu")()
    unit.load_state_dict(original.state_dict())
    compiled = torch.compile(Around(unit), backend=backend, fullgraph=True)
    loss, gradients = step(Around(unit), *args)
    traced, found = step(compiled, *args)
    torch.testing.assert_close(traced, loss)
    assert len(found) == len(gradients) and all(one.abs().max() > 0 for one in found)
    for one, other in zip(found, gradients, strict=True):
        torch.testing.assert_close(one, other)


class Halves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(4))

    def forward(self, x, y):
        return (x * self.one).tanh(), (y * self.other).exp()


def test_what_no_gradient_comes_to_has_none(tmp_path):
    """Zeros would be a step of an optimizer that decays weights, as None is none."""
    example = torch.rand(3, 4, requires_grad=True), torch.rand(3, 4, requires_grad=True)
    longhand.generate(Halves().train(), example, out=tmp_path / "halves", train=True)
    unit = longhand.load(tmp_path / "halves")().requires_grad_()
    x, y = (one.detach().requires_grad_() for one in example)
    torch.compile(lambda x, y: unit(x, y)[0].sum(), backend="aot_eager", fullgraph=True)(x, y).backward()
    assert y.grad is None and unit.other.grad is None
    assert x.grad is not None and unit.one.grad is not None


def test_what_cannot_be_one_operator_is_told(attention):
    with pytest.raises(
        LonghandError, match=r"test_traced_units.py:\d+: .*torch\.func.*Transform the original"
    ):
        torch.vmap(attention, in_dims=0)(X[None])
    batch = longhand.load(ROOT / "generated/resnet_block_train_cpu")()
    with pytest.raises(LonghandError, match=r"test_traced_units.py:\d+: .*write into its buffers"):
        torch.export.export(batch, (torch.randn(4, 16, 28, 28),))


def test_the_folder_in_which_a_text_was_found_first_may_be_gone(tmp_path):
    moved = shutil.copytree(ROOT / "generated/fused_ops_cpu/softmax", tmp_path / "unit")
    text = (moved / "model.py").read_text()
    (moved / "model.py").write_text(text + "\n# a text of its own\n")
    again = shutil.copytree(moved, tmp_path / "again")
    longhand.load(moved)
    softmax = longhand.load(again)
    shutil.rmtree(moved)
    x, w = torch.randn(4096, 1024), torch.randn(1024)
    graph = make_fx(lambda x, w: softmax(x, w) + 1, tracing_mode="fake")(x, w)
    torch.testing.assert_close(graph(x, w), softmax(x, w) + 1)


def traced_softmax(softmax):
    x, w = torch.randn(4096, 1024), torch.randn(1024)
    graph = make_fx(lambda x, w: softmax(x, w) + 1, tracing_mode="fake")(x, w)
    torch.testing.assert_close(graph(x, w), softmax(x, w) + 1)


@pytest.fixture
def softmax_folder(tmp_path):
    folder = shutil.copytree(ROOT / "generated/fused_ops_cpu/softmax", tmp_path / "unit")
    model = folder / "model.py"
    model.write_text(f"{model.read_text()}\n# a text of its own: {tmp_path}\n")
    return folder


@pytest.mark.parametrize("is_loaded_again", [False, True])
def test_a_copy_that_was_loaded_last_may_be_gone(softmax_folder, tmp_path, is_loaded_again):
    softmax = longhand.load(softmax_folder)
    copy = shutil.copytree(softmax_folder, tmp_path / "copy")
    longhand.load(copy)
    shutil.rmtree(copy)
    traced_softmax(longhand.load(softmax_folder) if is_loaded_again else softmax)


def test_a_traced_call_of_a_unit_that_is_gone_is_told(softmax_folder):
    softmax = longhand.load(softmax_folder)
    shutil.rmtree(softmax_folder)
    with pytest.raises(LonghandError, match=r"unit is gone.*Put the unit back"):
        traced_softmax(softmax)


def test_what_is_no_operator_breaks_the_graph_as_before():
    torch.manual_seed(0)
    unit = longhand.load(ROOT / "generated/resnet_block_train_cpu")()
    for parameter in unit.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    x = torch.randn(4, 16, 28, 28)
    expected = Around(unit)(x)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(Around(unit), backend="eager")(x), expected)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x):
        self.count.add_(1)
        return torch.tanh(x * self.count)


def test_a_buffer_that_is_written_is_told_at_the_first_call(tmp_path):
    longhand.generate(Counting(), (torch.randn(3, 4),), out=tmp_path / "unit", run=False)
    unit = longhand.load(tmp_path / "unit")()
    torch._dynamo.reset()
    with pytest.raises(LonghandError, match="writes into its buffers"), torch.no_grad():
        torch.compile(unit, backend="aot_eager")(torch.randn(3, 4))


def test_an_exported_program_is_told(tmp_path):
    x = torch.randn(2, 3)
    program = torch.export.export(torch.nn.Linear(3, 3), (x,))
    with pytest.raises(LonghandError, match=r"program\.module\(\)"):
        longhand.generate(program, (x,), out=tmp_path / "unit")
    with pytest.raises(LonghandError, match=r"program\.module\(\)"):
        longhand.compile(program)


def test_gradients_of_an_inference_unit_are_refused(attention):
    x = X.clone().requires_grad_()
    result = torch.compile(attention, backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match="computes no gradients"):
        result(x).sum().backward()


class Sized(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2, x.shape[0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True, None])
def test_a_size_among_the_results_is_that_of_each_call(sized, backend, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(sized, backend=backend, fullgraph=True, dynamic=dynamic)
    for n in (8, 12, 5):
        x = torch.randn(n, 16)
        result, size = compiled(x)
        assert size == n
        torch.testing.assert_close(result, torch.tanh(x) * 2)


def test_sizes_that_vary_are_one_exported_program(sized):
    dim = torch.export.Dim("n", min=2, max=64)
    program = torch.export.export(sized, (torch.randn(8, 16),), dynamic_shapes=({0: dim},)).module()
    for n in (8, 12):
        x = torch.randn(n, 16)
        result, size = program(x)
        assert size == n
        torch.testing.assert_close(result, torch.tanh(x) * 2)


@pytest.fixture(scope="module")
def sized(tmp_path_factory):
    out = tmp_path_factory.mktemp("units") / "sized"
    shapes = ({0: torch.export.Dim("n", min=2, max=64)},)
    longhand.generate(Sized(), (torch.randn(8, 16),), out=out, run=False, dynamic_shapes=shapes)
    return longhand.load(out)()
