"""What longhand.compile returns is what it was given: state, copies, pickles, threads, forks, errors, decorators."""

import copy
import io
import pickle
import signal
import threading
import traceback

import pytest
import torch
from torch import nn

import longhand
from longhand.capture.bytecode.hook import frame_hook
from longhand.comparison import compare

pytestmark = pytest.mark.usefixtures("hook")


@pytest.fixture(autouse=True, scope="module")
def one_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGHAND_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def fresh():
    longhand.reset()
    torch.manual_seed(0)
    yield
    assert frame_hook().pause() is None  # no test leaves the hook on


def compiled(original, **options):
    return longhand.compile(original, frontend="bytecode", **options)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("offset", torch.full((6,), 0.5))
        self.calls = 0

    def forward(self, x):
        return self.drop(torch.tanh(self.linear(x)) + self.offset)

    def weights(self):
        return self.linear.weight


def agree(one, other, x=None):
    x = torch.randn(3, 6) if x is None else x
    with torch.no_grad():
        torch.testing.assert_close(one(x), other(x))


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


def double_sine(x):
    """Twice."""
    return torch.sin(x) * 2


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


# Errors


def shape_error(x):
    y = x * 2
    return y @ torch.ones(5, 5)


def key_error(x):
    table = {"a": 1}
    y = x.sin() + 1
    return y * table["b"]


class Refusal(ValueError):
    pass


def own_error(x):
    y = x.cos() * 2
    if y.shape[0] == 3:
        raise Refusal("three", y.shape[0])
    return y


def nested_error(x):
    return own_error(x.exp()) + 1


def caught_error(x):
    try:
        return own_error(x) + 1
    except Refusal as error:
        raise LookupError("was refused") from error


@pytest.mark.parametrize("function", [shape_error, key_error, own_error, nested_error, caught_error])
@pytest.mark.parametrize("turns", [1, 2])
def test_errors_are_eagers(function, turns, monkeypatch):
    monkeypatch.delenv("LONGHAND_DEBUG", raising=False)
    x = torch.randn(3, 6)
    with pytest.raises(Exception) as eager:
        function(x)
    run = compiled(function)
    for _ in range(turns):
        with pytest.raises(type(eager.value)) as found:
            run(x)
    assert type(found.value) is type(eager.value) and found.value.args == eager.value.args
    assert places(found.value) == places(eager.value)
    assert type(found.value.__cause__) is type(eager.value.__cause__)
    if eager.value.__cause__ is not None:
        causes = [traceback.extract_tb(e.value.__cause__.__traceback__) for e in (found, eager)]
        assert [(frame.name, frame.lineno) for frame in causes[0]] == [(f.name, f.lineno) for f in causes[1]]


def places(error):
    """(function, line) of each frame below the test's own, as a traceback prints them; a line counts once."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    assert all(frame.filename == __file__ for frame in frames), frames
    return list(dict.fromkeys((frame.name, frame.lineno) for frame in frames))


def test_all_frames_with_debug(monkeypatch):
    monkeypatch.setenv("LONGHAND_DEBUG", "1")
    with pytest.raises(Refusal) as found:
        compiled(nested_error)(torch.randn(3, 6))
    files = {frame.filename for frame in traceback.extract_tb(found.value.__traceback__)}
    assert len(files) > 1


def test_an_interrupt_while_capturing_leaves_everything_as_it_was(monkeypatch):
    from longhand import from_bytecode

    real = from_bytecode.longhand_backend

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(from_bytecode, "longhand_backend", interrupted)
    run = compiled(double_sine)
    with pytest.raises(KeyboardInterrupt):
        run(torch.randn(3))
    assert frame_hook().pause() is None and torch.is_grad_enabled()
    monkeypatch.setattr(from_bytecode, "longhand_backend", real)
    longhand.reset()
    agree(compiled(double_sine), double_sine)
    agree(run.__wrapped__, double_sine)


def test_an_interrupt_while_running():
    def interrupted(x):
        y = x.sin() * 2
        signal.raise_signal(signal.SIGINT)
        return y + 1

    run = compiled(interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(torch.zeros(3))
    assert frame_hook().pause() is None
    agree(compiled(double_sine), double_sine)


# Threads and processes


def test_threads_that_call_for_the_first_time_together():
    module = Net().eval()
    run = compiled(module)
    inputs = [torch.randn(2 + n % 3, 6) for n in range(8)]
    results, errors = [None] * 8, []
    start = threading.Barrier(8)

    def work(n):
        try:
            start.wait()
            with torch.no_grad():
                for _ in range(3):
                    results[n] = run(inputs[n])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    with torch.no_grad():
        for result, given in zip(results, inputs, strict=True):
            torch.testing.assert_close(result, module(given))


def test_another_thread_is_not_captured_meanwhile():
    frames = []

    def outside():
        frames.append(frame_hook().pause())

    def inside(x):
        thread = threading.Thread(target=outside)
        thread.start()
        thread.join()
        return x * 2

    agree(compiled(inside), lambda x: x * 2)
    assert frames == [None]


class Items(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.transform(torch.full((4,), float(index)))


@pytest.mark.parametrize("was_called", [False, True])
def test_workers_of_a_data_loader(was_called):
    run = compiled(double_sine)
    if was_called:
        agree(run, double_sine, torch.ones(4))
    loader = torch.utils.data.DataLoader(Items(run), batch_size=3, num_workers=2, timeout=120)
    found = torch.cat(list(loader))
    expected = torch.stack([double_sine(torch.full((4,), float(n))) for n in range(6)])
    torch.testing.assert_close(found, expected)


# Grad mode, autocast


def test_what_is_disabled_is_not_captured():
    seen = []

    def inner(x):
        seen.append(frame_hook().pause())
        return torch.sin(x) + 1

    @longhand.disable
    def outer(x, *, by=2):
        return inner(x) * by

    def function(x):
        return outer(torch.cos(x), by=3) - 1

    agree(compiled(function), function)
    agree(compiled(function), function)
    assert seen == [None] * 4

    @longhand.disable()
    def whole(x):
        return inner(x)

    agree(compiled(whole), whole)
    assert seen == [None] * 6


def test_gradients_and_autocast_change_between_calls():
    module = Net().eval()
    run = compiled(module)
    x = torch.randn(3, 6)
    agree(run, module, x)
    run(x).sum().backward()
    found = module.linear.weight.grad.clone()
    module.zero_grad()
    module(x).sum().backward()
    torch.testing.assert_close(found, module.linear.weight.grad)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        assert run.linear(x).dtype is torch.bfloat16
        ours, eager = run(x), module(x)
    with torch.no_grad():
        comparison = compare("result", ours, eager, copy.deepcopy(module).double()(x.double()))
    assert comparison.is_right, comparison
    agree(run, module, x)
    with torch.inference_mode():
        torch.testing.assert_close(run(x), module(x))
        assert run(x).is_inference()
    agree(run, module, x)
