"""torch.export and torch.compile end in the same nodes with the same words."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from longhand.capture.frontends.dynamo import capture_dynamo
from longhand.capture.frontends.export import capture_export
from longhand.capture.graph import AliasKind, InputKind
from longhand.options import Device, Target

CPU = Target(Device.CPU)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.proj = nn.Linear(16, 16)

    def split_heads(self, t):
        batch, seq, _ = t.shape
        return t.view(batch, seq, 4, 4).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.qkv(x).split(16, dim=2)
        q, k, v = self.split_heads(q), self.split_heads(k), self.split_heads(v)
        scores = q @ k.transpose(-2, -1) * 0.5
        weights = scores.tanh().softmax(dim=-1)  # without tanh it would be one call, and scores nowhere
        y = (weights @ v).transpose(1, 2).contiguous().view(x.shape)
        return self.proj(y)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.attn = Attention()
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x * self.scale


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)

    def forward(self, x):
        y = F.relu(self.bn(self.conv(x)), inplace=True)
        y = F.max_pool2d(y, 2)
        pooled = F.adaptive_avg_pool2d(y, 1).flatten(1)
        return F.normalize(pooled, dim=-1)


class Loss(nn.Module):
    def forward(self, logits, target):
        loss = F.cross_entropy(logits.float(), target)
        mean, spread = logits.mean(-1), logits.std(-1)
        for _ in range(3):
            loss = torch.tanh(torch.sin(loss))
        hidden = torch.einsum("bc,dc->bd", logits, logits)
        return loss, mean / spread, hidden


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x, log):
        self.seen.add_(x.sum(0))
        log[1:] = x[0, :3]
        return self.seen * 1, log[2:]


MODULES = {
    "stack": (Stack, lambda: (torch.randn(2, 5, 16),)),
    "convolutional": (Convolutional, lambda: (torch.randn(2, 3, 8, 8),)),
    "loss": (Loss, lambda: (torch.randn(6, 4), torch.randint(0, 4, (6,)))),
    "counter": (Counter, lambda: (torch.randn(3, 4), torch.zeros(4))),
}


def through_dynamo(model, args, dynamic=False):
    graphs = []

    def backend(module, examples):
        graphs.append(capture_dynamo(module, examples, target=CPU))
        return module.forward

    torch.compiler.reset()
    with torch.no_grad():
        torch.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    assert len(graphs) == 1
    return graphs[0]


def said(graph):
    """What a reader sees of each node."""
    rows = []
    for node in graph.graph.nodes:
        if node.op == "call_function":
            origin = node.meta["provenance"]
            rows.append((node.name, str(node.target), origin))
    return rows


@pytest.mark.parametrize("which", MODULES)
def test_same_nodes_names_and_statements(which):
    make, arguments = MODULES[which]
    model, args = make().eval(), arguments()
    exported = capture_export(model, args, target=CPU)
    compiled = through_dynamo(model, args)
    assert said(compiled) == said(exported)
    assert {m.input_node for m in compiled.mutations} == {m.input_node for m in exported.mutations}
    assert [(o.value, o.alias, o.base) for o in compiled.outputs] == [
        (o.value, o.alias, o.base) for o in exported.outputs
    ]
    used = {entry.target for entry in compiled.inputs}
    assert used <= {entry.target for entry in exported.inputs}
    assert compiled.name == exported.name
    assert compiled.source == exported.source


def test_a_loop_names_every_turn():
    make, arguments = MODULES["loss"]
    names = [row[0] for row in said(capture_export(make(), arguments(), target=CPU))]
    assert [name for name in names if name.startswith("loss")] == ["loss", "loss_1", "loss_2", "loss_3"]
    assert {"mean", "hidden"} <= set(names)


def test_helper_functions_keep_their_own_words():
    rows = {
        row[0]: row[2] for row in said(capture_export(Stack().eval(), (torch.randn(2, 5, 16),), target=CPU))
    }
    assert rows["q_1"].qualname == rows["v_1"].qualname == "Attention.split_heads"
    assert (
        rows["q_1"].statement == "return t.view(batch, seq, 4, 4).transpose(1, 2)"
        and rows["q_1"].local == "q"
    )
    assert rows["scores"].statement == "scores = q @ k.transpose(-2, -1) * 0.5"
    assert rows["scores"].module == "blocks.0.attn" and rows["scores"].module_class == "Attention"


def test_dynamo_sizes_are_symbolic_and_named():
    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            batch, seq, dim = x.shape
            return self.fc(x.reshape(batch * seq, dim)).view(batch, seq, dim)

    graph = through_dynamo(Flat(), (torch.randn(3, 5, 4),), dynamic=True)
    assert [(size.name, size.example) for size in graph.symbols][:2] == [("batch", 3), ("seq", 5)]
    kinds = {entry.kind for entry in graph.inputs}
    assert InputKind.PARAMETER in kinds and InputKind.ARGUMENT in kinds


def test_autocast_region_through_dynamo():
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.fc(x)
            return y.float().softmax(-1)

    graph = through_dynamo(Mixed(), (torch.randn(2, 4),))
    dtypes = {node.meta["val"].dtype for node in graph.graph.nodes if node.op == "call_function"}
    assert torch.bfloat16 in dtypes
    assert all(output.alias is AliasKind.FRESH for output in graph.outputs)
