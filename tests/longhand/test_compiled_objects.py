"""What longhand.compile returns is what it was given: state, copies, pickles, hooks, decorators."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

import longhand
from tests.longhand.compiled_objects import Net, agree, compiled, double_sine

pytestmark = pytest.mark.usefixtures("one_cache", "fresh")


def test_a_module_is_the_module():
    module = Net().eval()
    run = compiled(module)
    assert isinstance(run, nn.Module) and isinstance(run, Net)
    assert list(run.state_dict()) == ["offset", "linear.weight", "linear.bias"]
    assert run.linear is module.linear and run.weights() is module.linear.weight
    assert [name for name, _ in run.named_parameters()] == [name for name, _ in module.named_parameters()]
    assert set(dir(module)) <= set(dir(run))
    run.calls = 7
    assert module.calls == 7
    del run.calls
    assert not hasattr(module, "calls")
    agree(run, module)


def test_train_and_eval():
    module = Net()
    run = compiled(module)
    assert run.eval() is not None and not module.training and not module.drop.training
    x = torch.randn(3, 6)
    agree(run, module, x)
    run.train()
    assert module.training and module.drop.training
    torch.manual_seed(5)
    found = run(x)
    torch.manual_seed(5)
    torch.testing.assert_close(found, module(x))
    run.eval()
    agree(run, module, x)


def test_to_another_type():
    module = Net().eval()
    run = compiled(module)
    agree(run, module)
    run.to(torch.float64)
    assert module.linear.weight.dtype is torch.float64
    agree(run, module, torch.randn(3, 6, dtype=torch.float64))


def test_loading_a_state():
    run, other = compiled(Net().eval()), Net().eval()
    agree(run, run)
    assert not run.load_state_dict(other.state_dict()).missing_keys
    agree(run, other)


def test_copies_are_independent():
    module = Net().eval()
    run = compiled(module)
    agree(run, module)
    again = copy.deepcopy(run)
    with torch.no_grad():
        again.linear.weight.zero_()
        assert not torch.equal(module.linear.weight, again.linear.weight)
        torch.testing.assert_close(again(torch.ones(2, 6)), torch.tanh(again.linear.bias).expand(2, 6) + 0.5)
    agree(run, module)
    shallow = copy.copy(run)
    assert shallow.linear is module.linear
    agree(shallow, module)


@pytest.mark.parametrize("was_called", [False, True])
def test_pickle_and_save(was_called):
    module = Net().eval()
    run = compiled(module)
    if was_called:
        agree(run, module)
    agree(pickle.loads(pickle.dumps(run)), module)
    file = io.BytesIO()
    torch.save(run, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert list(loaded.state_dict()) == list(module.state_dict())
    agree(loaded, module)
    file = io.BytesIO()
    torch.save(run.state_dict(), file)
    file.seek(0)
    fresh_module = Net().eval()
    fresh_module.load_state_dict(torch.load(file))
    agree(run, fresh_module)


def test_a_function_keeps_its_name_and_pickles():
    run = compiled(double_sine)
    assert run.__name__ == "double_sine" and run.__doc__ == "Twice." and run.__wrapped__ is double_sine
    agree(run, double_sine)
    agree(pickle.loads(pickle.dumps(run)), double_sine)


def test_as_part_of_another_module():
    class Outer(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x) * 2

    module = Net().eval()
    outer = Outer(compiled(module)).eval()
    assert "inner.linear.weight" in outer.state_dict() and len(list(outer.parameters())) == 2
    agree(outer, Outer(module))
    outer.train()
    assert module.training
    outer.eval()
    agree(compiled(outer), Outer(module))  # compiled within compiled


def test_compiled_within_compiled_is_one_graph():
    class Outer(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return double_sine_compiled(self.inner(x)) * 2

    double_sine_compiled = compiled(double_sine)
    outer = Outer(compiled(Net().eval())).eval()
    explanation = longhand.explain(outer)(torch.randn(3, 6).requires_grad_(False))
    assert len(explanation.graphs) == 1 and not explanation.breaks
    run = compiled(outer)
    agree(run, outer)
    outer.inner = compiled(Net().eval())
    agree(run, outer)


def test_a_container_keeps_its_protocol():
    layers = nn.Sequential(nn.Linear(6, 6), nn.ReLU()).eval()
    run = compiled(layers)
    assert len(run) == 2 and run[1] is layers[1] and list(run) == list(layers)
    agree(run, layers)
    assert not hasattr(type(compiled(Net())), "__len__")


def test_hooks_run():
    module = Net().eval()
    seen = []
    module.register_forward_hook(lambda _, args, result: seen.append(result.shape))
    run = compiled(module)
    agree(run, module)
    assert len(seen) == 2
    handle = run.register_forward_pre_hook(lambda _, args: (args[0] + 1,))
    agree(run, module)
    handle.remove()
    agree(run, module)


def test_decorators():
    @longhand.compile(frontend="bytecode")
    def scaled(x, *, by=3):
        return torch.exp(x) * by

    class Model:
        factor = 2.0

        @longhand.compile(frontend="bytecode")
        def method(self, x):
            return torch.cos(x) * self.factor

        @staticmethod
        @longhand.compile(frontend="bytecode")
        def static(x):
            return torch.cos(x) - 1

    @longhand.compile(frontend="bytecode")
    class Whole(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.linear = nn.Linear(width, width)

        def forward(self, x):
            return self.linear(x).relu()

    x = torch.randn(3, 6)
    with torch.no_grad():
        torch.testing.assert_close(scaled(x, by=4), torch.exp(x) * 4)
        one, other = Model(), Model()
        other.factor = 5.0
        torch.testing.assert_close(one.method(x), torch.cos(x) * 2)
        torch.testing.assert_close(other.method(x), torch.cos(x) * 5)
        torch.testing.assert_close(Model.static(x), torch.cos(x) - 1)
        whole = Whole(6)
        assert type(whole) is Whole
        torch.testing.assert_close(whole(x), whole.linear(x).relu())


def test_a_bound_method():
    class Model:
        def __init__(self):
            self.shift = 3

        def step(self, x):
            return x.sin() + self.shift

    agree(compiled(Model().step), Model().step)


def test_it_is_found_where_the_original_is():
    model = nn.Sequential(nn.Linear(2, 2))
    compiled = longhand.compile(model, frontend="bytecode")
    assert compiled == model and model in {compiled: 1} and compiled in {model: 1}
    assert compiled != nn.Sequential(nn.Linear(2, 2)) and compiled == longhand.compile(
        model, frontend="bytecode"
    )
