"""nn.Module, captured, against eager."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.capture.bytecode.behaviours import Behaviours, X

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour
make = BEHAVIOURS.make


class Block(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(width, 8)
        self.norm = nn.LayerNorm(8)
        self.second = nn.Linear(8, width)
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("count", torch.zeros(()))
        self.calls = 0

    def forward(self, x, *, factor=1.0):
        h = F.gelu(self.norm(self.first(x)))
        return x + self.scale * self.second(h) * factor


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Identity()})
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(4))])

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x, factor=i + 1)
        for key, module in self.named.items():
            x = module(x) if key in self.named else x
        return self.seq(x) * self.weights[0] + len(self.blocks) + self.blocks[-1].scale


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.calls = 0
        self.last = None

    def forward(self, x):
        self.calls += 1
        self.seen.add_(x.sum(0))
        self.last = x.mean()
        if self.training:
            x = x * 2
        return x + self.seen


class Replacing(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(4))

    def forward(self, x):
        self.table = self.table + x[0]
        return x * self.table


def seeded(kind):
    torch.manual_seed(0)
    return kind()


def call_module(module, x):
    return module(x)


with_modules = [
    (seeded(Block), X),
    (seeded(Block).eval(), X),
]


make(call_module, *with_modules, name="a_module")


make(call_module, (seeded(Stack), X), name="containers_of_modules")


make(call_module, (seeded(Counting), X), (seeded(Counting).eval(), X), name="state_of_modules", breaks=None)


make(call_module, (seeded(Replacing), X), name="buffers_are_replaced")


make(
    call_module,
    (nn.Sequential(nn.Conv1d(3, 2, 3, padding=1), nn.BatchNorm1d(2), nn.ReLU()).eval(), X[None]),
    (nn.Sequential(nn.Conv1d(3, 2, 3, padding=1), nn.BatchNorm1d(2), nn.ReLU()).train(), X[None]),
    name="convolution_and_batch_norm",
    breaks=None,
)


make(
    call_module,
    (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).train(), X[None]),
    name="encoder_layer",
    breaks=None,
)


def attention_of_itself(module, x):
    with torch.no_grad():
        return module(x, x, x, need_weights=False)[0]


# Its fast way is taken without gradients, unless something traces it.
make(attention_of_itself, (nn.MultiheadAttention(4, 2, batch_first=True).eval(), X[None]), breaks=0)


make(
    call_module,
    (nn.MultiheadAttention(4, 2, batch_first=True).train(), X[None]),
    name="wrong_module_call",
    breaks=None,
)


make(call_module, (nn.Dropout(0.5), X), (nn.Dropout(0.5).eval(), X), name="dropout", breaks=None)


make(call_module, (nn.Embedding(10, 4), torch.tensor([[1, 2]])), name="embedding")


make(call_module, (nn.GRU(4, 3, batch_first=True), X[None]), name="recurrent", breaks=None)


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.inner.register_forward_hook(double_output)

    def forward(self, x):
        return self.inner(x) + 1


def double_output(module, args, output):
    return output * 2


make(call_module, (seeded(Hooked), X), name="forward_hooks", breaks=None)


@behaviour((seeded(Block), X))
def modules_are_inspected(module, x):
    total = 0
    for name, parameter in module.named_parameters():
        if "weight" in name:
            total = total + parameter.sum()
    names = [name for name, _ in module.named_children()]
    return x + total, names, module.training, sum(1 for _ in module.parameters()), len(list(module.modules()))


def scaled_weights(module, factor):
    return {name: parameter.detach() * factor for name, parameter in module.named_parameters()}


@behaviour((nn.Linear(4, 4), X))
def called_with_other_weights(module, x):
    other = torch.func.functional_call(module, scaled_weights(module, 3), (x,))
    return other, module(x), module.weight is module._parameters["weight"]


@behaviour((nn.Linear(4, 4), X))
def written_through_the_dict_of_parameters(module, x):
    before = module._parameters["weight"]
    module._parameters["weight"] = before.detach() * 2
    result = module(x.float())
    module._parameters["weight"] = before
    return result, module(x.float())


class Holder:
    def __init__(self):
        self.scale = 2.0


@behaviour((seeded(Holder), X), breaks=None)
def written_through_the_dict_of_attributes(holder, x):
    own = holder.__dict__
    own["scale"] = 5.0
    first = x * holder.scale
    holder.scale = 7.0
    second = x * own["scale"]
    own["scale"] = 2.0
    return first, second, holder.scale


@behaviour((nn.BatchNorm1d(4), X), breaks=None)
def a_buffer_written_and_read_as_an_item(module, x):
    module.running_mean = x[0] * 2
    return module._buffers["running_mean"] + x, dict(module.named_buffers())["running_mean"] * 2


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
