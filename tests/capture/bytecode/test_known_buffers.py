"""Whole numbers that a module holds as buffers decide branches and sizes: one graph, while they are what they were."""

import operator
import warnings

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import longhand
from longhand.capture.bytecode.entry.shapes import DynamicSizes
from longhand.capture.bytecode.values.known_tensors import KnownTensors
from longhand.capture.bytecode.values.sources import root
from longhand.capture.bytecode.whole import BrokenCall, capture_whole
from tests.capture.bytecode.running import Captured, assert_same


class Padded(nn.Module):
    """As the convolutions of sound codecs, which keep their strides in tensors."""

    def __init__(self, stride=2, kernel=5, persistent=True):
        super().__init__()
        for name, value in (("stride", stride), ("kernel", kernel), ("total", kernel - stride)):
            self.register_buffer(name, torch.tensor(value), persistent=persistent)

    def forward(self, x):
        length = x.shape[-1]
        frames = torch.ceil((length - self.kernel + self.total) / self.stride + 1).to(torch.int64) - 1
        extra = frames * self.stride + self.kernel - self.total - length
        most, cut = max(self.total, extra), 0
        if length <= most:
            cut = most - length + 1
            x = nn.functional.pad(x, (0, cut))
        padded = nn.functional.pad(x, (self.total, extra), "reflect")
        return padded[..., : padded.shape[-1] - cut]


@pytest.mark.parametrize("length", [20, 21, 2])
def test_sizes_of_buffers_are_one_graph(length):
    module, x = Padded(), torch.randn(2, 3, length)
    captured = Captured(module)
    for _ in range(2):
        assert torch.equal(captured(x), module(x))
    assert (captured.count("graph"), captured.count("break")) == (1, 0)
    torch.compiler.reset()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        assert torch.equal(longhand.compile(module)(x), module(x))


def test_the_graph_holds_while_the_buffer_is_what_it_was():
    module, x = Padded(), torch.randn(2, 3, 20)
    captured = Captured(module)
    captured(x)
    with torch.no_grad():
        module.total.fill_(1)
        module.kernel.data = torch.tensor(3)
    assert torch.equal(captured(x), module(x))
    assert captured(x).shape == (2, 3, 21)
    module.load_state_dict(Padded(kernel=6).state_dict())
    assert torch.equal(captured(x), module(x))


def test_modules_that_share_the_code_have_their_own_numbers():
    modules, x = [Padded(kernel=kernel) for kernel in (3, 5, 8)], torch.randn(2, 3, 20)
    captured = Captured(lambda one: one(x))
    for one in (*modules, *modules):
        assert torch.equal(captured(one), one(x))
    assert captured.count("break") == 0


class Counts(nn.Module):
    """Counts its calls in a buffer, and does something every fourth time."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n_calls", torch.tensor(0))

    def forward(self, x):
        self.n_calls += 1
        return x * 2 if self.n_calls % 4 == 0 else x + 1


class Waits(nn.Module):
    """Looks at a number that somebody else counts up."""

    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.tensor(0))

    def forward(self, x):
        return x * 2 if self.step > 5 else x + 1


def test_what_is_written_before_it_is_looked_at_is_not_known():
    module, again, x = Counts(), Counts(), torch.randn(3)
    captured = Captured(module)
    for _ in range(9):
        assert torch.equal(captured(x), again(x))
        assert torch.equal(module.n_calls, again.n_calls)


def test_a_number_that_changes_from_call_to_call_is_a_break_and_not_a_graph_each():
    module, x = Waits(), torch.randn(3)
    captured = Captured(module)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(12):
            with torch.no_grad():
                module.step.fill_(step)
            assert torch.equal(captured(x), module(x))
    assert captured.count("recompile") <= 2 and captured.count("break")


def test_a_buffer_that_is_written_to_under_another_name():
    class Aliased(Waits):
        def forward(self, x, other):
            other.add_(9)
            return x * 2 if self.step > 5 else x + 1

    module, x = Aliased(), torch.randn(3)
    captured = Captured(module)
    assert torch.equal(captured(x, torch.zeros(1, dtype=torch.int64)), x + 1)
    assert torch.equal(captured(x, module.step.view(1)), x * 2)
    module = Aliased()
    assert torch.equal(Captured(module)(x, module.step.view(1)), x * 2)


def test_floats_decide_nothing():
    class Floats(Waits):
        def __init__(self):
            super().__init__()
            self.step = torch.tensor(0.5)

    module, x = Floats(), torch.randn(3)
    captured = Captured(module)
    assert torch.equal(captured(x), module(x)) and captured.count("break")
    captured = Captured(lambda x, n: x * 2 if n > 1 else x)
    assert torch.equal(captured(x, torch.tensor(2.0)), x * 2) and captured.count("break")


def cut(x, grids):
    """Images of several sizes in one tensor, as vision towers take them."""
    parts = torch.split(x, grids.prod(-1).tolist())
    shapes = [(int(h), int(w)) for h, w in grids]
    return torch.cat([part.view(*shape).mT.flatten() for part, shape in zip(parts, shapes, strict=True)])


def test_whole_numbers_that_are_given_decide_until_others_are():
    captured, x = Captured(cut), torch.randn(12)
    one, other = torch.tensor([[2, 3], [3, 2]]), torch.tensor([[1, 4], [2, 4]])
    for grids in (one, one.clone()):
        assert torch.equal(captured(x, grids), cut(x, grids))
    assert (captured.count("graph"), captured.count("break")) == (1, 0)
    assert torch.equal(
        captured(x, other), cut(x, other)
    )  # from here on they are data: no value is compiled for
    assert captured.count("break")
    others = (other, torch.tensor([[4, 2], [4, 1]]), one)
    for _ in range(2):
        n_events = len(captured.events)
        for grids in others:
            assert torch.equal(captured(x, grids), cut(x, grids))
    assert len(captured.events) == n_events


def test_a_given_number_that_is_written_to():
    def step(x, count):
        count.add_(1)
        y = x * 2 if count > 1 else x + 1
        return y, count * 1

    def wait(x, count):
        y = x * 2 if count > 1 else x + 1
        count.add_(1)
        return y

    for function in (step, wait):
        captured, x = Captured(function), torch.randn(3)
        ours, theirs = torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64)
        for _ in range(4):
            assert_same(captured(x, ours), function(x, theirs))
            assert torch.equal(ours, theirs)


def test_a_unit_takes_only_what_no_state_dict_sets():
    args = {"L['x']": torch.randn(2, 3, 20)}
    with pytest.raises(BrokenCall):
        capture_whole(Padded(), args, {}, DynamicSizes())
    module = Padded(persistent=False)
    for name, value in list(module.named_buffers()):
        setattr(module, name, nn.Buffer(value, persistent=False))
    whole = capture_whole(module, args, {}, DynamicSizes())
    assert [node.target for node in whole.graph.nodes if "pad" in node.name] == [nn.functional.pad]


def _on_a_gpu(*numbers):
    """Fake tensors on a GPU, which no machine needs to have one for, whose values are known."""
    values = KnownTensors()
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [torch.empty((), dtype=torch.int64, device="cuda") for _ in numbers]
    for position, (fake, number) in enumerate(zip(fakes, numbers, strict=True)):
        values.give(fake, torch.tensor(number), root(f"number_{position}", f"number_{position}"))
    return values, fakes


def _follow(values, target, *args, **kwargs):
    fake = target(*args, **kwargs) if callable(target) else getattr(args[0], target)(*args[1:], **kwargs)
    values.follow(target, args, kwargs, fake)
    return fake


def test_whole_numbers_on_a_gpu_are_followed_through_a_rounded_quotient():
    values, (stride, kernel) = _on_a_gpu(3, 8)
    frames = _follow(values, operator.truediv, _follow(values, operator.sub, 20, kernel), stride)
    whole = _follow(values, "to", _follow(values, torch.ceil, frames), torch.int64)
    assert values.number(whole) == 4
    assert {source.name for source in values.values_relied_on} == {"number_0", "number_1"}


@pytest.mark.parametrize(
    "target, given",
    [(operator.truediv, 3), (torch.exp, None), (torch.sqrt, None), (torch.mean, None), (torch.argmax, None)],
)
def test_what_a_gpu_may_round_or_pick_otherwise_is_not_followed(target, given):
    values, (number,) = _on_a_gpu(8)
    number = number if target is not torch.mean else _follow(values, "to", number, torch.float32)
    made = _follow(values, target, number) if given is None else _follow(values, target, number, given)
    whole = _follow(values, "to", made, torch.int64)
    assert values.number(whole) is None


def test_a_float_too_large_for_a_whole_number_is_not_converted():
    values, (number,) = _on_a_gpu(2**62)
    twice = _follow(values, operator.mul, _follow(values, "to", number, torch.float32), 4)
    assert values.number(_follow(values, "to", twice, torch.int64)) is None
