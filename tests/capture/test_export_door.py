"""Whole models through the export door."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from longhand.capture.graph import AliasKind, InputKind, Literal

aten = torch.ops.aten


class Attention(nn.Module):
    """The gallery's attention."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.W_q = nn.Linear(dim, dim, bias=False)
        self.W_k = nn.Linear(dim, dim, bias=False)
        self.W_v = nn.Linear(dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.W_q(x)
        k = self.W_k(x)
        v = self.W_v(x)  # the values
        scores = q @ k.transpose(-2, -1)
        weights = torch.exp(scores) / torch.sum(
            torch.exp(scores),
            dim=-1,
            keepdim=True,
        )
        return weights @ v


def calls(graph):
    return [node for node in graph.graph.nodes if node.op == "call_function"]


def words(graph):
    return {node.name: node.meta["provenance"] for node in calls(graph)}


def test_attention(captured):
    graph = captured(Attention(8), (torch.randn(2, 5, 8),))
    assert graph.name == "Attention" and graph.is_module and graph.signature == ("x",)
    assert [str(node.target) for node in calls(graph)] == [
        "aten.linear.default",
        "aten.linear.default",
        "aten.linear.default",
        "aten.transpose.int",
        "aten.matmul.default",
        "aten.exp.default",
        "aten.exp.default",
        "aten.sum.dim_IntList",
        "aten.div.Tensor",
        "aten.matmul.default",
    ]
    origin = words(graph)
    assert {"q", "k", "v", "scores", "weights"} <= set(origin)
    assert origin["scores"].statement == "scores = q @ k.transpose(-2, -1)"
    assert origin["scores"].qualname == "Attention.forward"
    assert origin["v"].statement == "v = self.W_v(x)"
    assert origin["v"].module == "W_v" and origin["v"].module_class == "Linear"
    assert origin["weights"].statement == (
        "weights = torch.exp(scores) / torch.sum(torch.exp(scores), dim=-1, keepdim=True)"
    )
    assert origin["exp"].local is None
    assert origin["weights"].file == __file__
    assert [entry.target for entry in graph.inputs] == ["W_q.weight", "W_k.weight", "W_v.weight", "x"]
    assert set(graph.grad_inputs) == {"W_q_weight", "W_k_weight", "W_v_weight"}


class TiedLanguageModel(nn.Module):
    """Embeddings, a causal buffer that is not saved, a head that shares the embedding's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)).bool(), persistent=False)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        _, seq = ids.shape
        x = self.embed(ids)
        q, k, v = x, self.norm(x), x * self.scale
        att = (q @ k.mT).masked_fill(~self.mask[:seq, :seq], float("-inf"))
        x = x + att.softmax(dim=-1) @ v
        return self.head(self.norm(x))


def test_tied_weights_and_buffers(captured):
    model = TiedLanguageModel().eval()
    graph = captured(model, (torch.randint(0, 11, (2, 4)),))
    assert graph.tied == (("embed.weight", "head.weight"),)
    by_target = {entry.target: entry for entry in graph.inputs}
    assert "head.weight" not in by_target
    assert by_target["mask"].kind is InputKind.BUFFER and not by_target["mask"].persistent
    assert by_target["scale"].persistent
    assert set(graph.constants) == {"mask"}
    assert torch.equal(graph.constants["mask"], model.mask)
    assert [node.target for node in calls(graph) if node.name == "softmax"] == [aten.softmax.int]


class ResidualBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        return self.relu(out)


def test_resnet_block_in_eval(captured):
    model = ResidualBlock()
    model.bn1.running_mean.normal_()
    model.bn2.running_var.uniform_(0.5, 2)
    graph = captured(model.eval(), (torch.randn(2, 4, 6, 6),))
    assert not graph.mutations
    names = [str(node.target).split(".")[1] for node in calls(graph)]
    assert names == ["conv2d", "batch_norm", "relu", "conv2d", "batch_norm", "add", "relu"]


def test_batch_norm_in_training_writes_its_statistics(captured):
    graph = captured(ResidualBlock().train(), (torch.randn(2, 4, 6, 6),))
    written = {mutation.input_node for mutation in graph.mutations}
    assert {"bn1_running_mean", "bn1_running_var", "bn1_num_batches_tracked"} <= written


class Cache(nn.Module):
    """A KV cache: a buffer and an argument are written through views; the cache is returned as a view."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 6, 4))

    def forward(self, k: torch.Tensor, log: torch.Tensor):
        seq = k.size(1)
        self.keys[:, :seq] = k
        log.view(-1)[1:3].add_(1)
        seen = self.keys[:, :seq]
        return seen * 2, seen, k


def test_mutated_buffer_and_input(captured):
    graph = captured(Cache(), (torch.randn(2, 3, 4), torch.randn(2, 5)))
    assert [mutation.input_node for mutation in graph.mutations] == ["keys", "log"]
    assert [output.alias for output in graph.outputs] == [AliasKind.FRESH, AliasKind.INPUT, AliasKind.INPUT]
    assert graph.outputs[1].base == "keys" and graph.outputs[2].base == "k"
    assert graph.outputs[2].value == "k"


def test_fresh_results_are_never_views(captured):
    def split(x):
        y = x + 1
        return y, y[0], y.clone(), x.clone(), x.detach(), y.contiguous(), x.t().contiguous()

    graph = captured(split, (torch.randn(3, 3),))
    kinds = [output.alias for output in graph.outputs]
    fresh, inside, outside = AliasKind.FRESH, AliasKind.OUTPUT, AliasKind.INPUT
    assert kinds == [fresh, inside, fresh, fresh, outside, inside, fresh]
    assert not graph.is_module and graph.name == "split"


def test_constants_from_data(captured):
    def scaled(x):
        table = torch.tensor([1.0, 2.0, 3.0])
        return x * table + torch.tensor(2.0), table

    graph = captured(scaled, (torch.randn(2, 3),))
    assert any(torch.equal(value, torch.tensor([1.0, 2.0, 3.0])) for value in graph.constants.values())
    assert "table" in graph.constants


def test_keyword_and_nested_arguments(captured):
    def mix(batch, factor, *, bias=None, mode="sum"):
        y = batch["x"] * factor + batch["parts"][0]
        if bias is not None:
            y = y + bias
        return {"y": y, "mode": mode, "none": None}

    batch = {"x": torch.randn(2, 3), "parts": [torch.randn(3), torch.randn(1)]}
    graph = captured(mix, (batch, 2), {"bias": torch.randn(3)})
    assert graph.signature == ("batch", "factor", "bias", "mode")
    assert Literal(2) in graph.argument_leaves
    assert [leaf for leaf in graph.argument_leaves if isinstance(leaf, str)] == [
        entry.node for entry in graph.inputs
    ]


def test_unpacking_names_items(captured):
    def attend(qkv):
        q, k, v = qkv.chunk(3, dim=-1)
        lowest, where = (q * k).max(dim=-1)
        return lowest * v.sum(-1), where

    graph = captured(attend, (torch.randn(2, 4, 9),))
    names = {node.name: node for node in calls(graph)}
    assert {"q", "k", "v", "lowest", "where"} <= {name.split("_")[0] for name in names}
    assert names["q"].target is operator.getitem and names["q"].args[1] == 0


def test_no_grad_blocks_and_autocast_blocks(captured):
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            with torch.no_grad():
                scale = x.abs().amax()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.fc(x)
            return y.float() / scale

    graph = captured(Mixed(), (torch.randn(2, 4),))
    assert not any(isinstance(node.target, torch._ops.HigherOrderOperator) for node in calls(graph))
    assert any(node.meta["val"].dtype is torch.bfloat16 for node in calls(graph))


def test_autocast_turned_off_inside(captured):
    """What follows the inner part is given what that made, in its own type."""

    def mixed(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
            with torch.autocast("cpu", enabled=False):
                z = y.float() @ w
            return y, z, z @ w

    graph = captured(mixed, (torch.randn(2, 4), torch.randn(4, 4)))
    dtypes = [node.meta["val"].dtype for node in calls(graph) if node.target is aten.mm.default]
    assert dtypes == [torch.bfloat16, torch.float32, torch.bfloat16]


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_list_their_parameters(captured, make):
    """Setting a parameter sets its place in their list: no tensor is kept on the module by the call."""

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = make(4, 3)

        def forward(self, x):
            return self.layer(x)[0].sum(-1)

    captured(Inner(), (torch.randn(2, 3, 4),))


def test_symbolic_sizes(captured):
    class Pooled(nn.Module):
        def forward(self, x, y):
            batch, seq, dim = x.shape
            flat = x.reshape(batch * seq, dim)
            return F.softmax(flat, -1).view(batch, seq, dim).mean(1) + y

    batch = torch.export.Dim("batch", min=2, max=64)
    graph = captured(
        Pooled(),
        (torch.randn(3, 5, 4), torch.randn(3, 4)),
        dynamic_shapes={"x": {0: batch, 1: torch.export.Dim.DYNAMIC}, "y": {0: batch}},
        fresh=((torch.randn(7, 9, 4), torch.randn(7, 4)), {}),
    )
    assert [(size.name, size.input_node, size.dim, size.example) for size in graph.symbols] == [
        ("batch", "x", 0, 3),
        ("seq", "x", 1, 5),
    ]
    assert graph.symbols[0].maximum == 64


def test_keyword_arguments_in_any_order(captured):
    class Three(nn.Module):
        def forward(self, a, b=None, c=None):
            return a + 2 * b - c

    captured(Three(), (torch.randn(2),), {"c": torch.randn(2), "b": torch.randn(2)})


def test_operations_that_are_decomposed(captured):
    def many(x):
        a = torch.addcmul(x, x, x, value=0.5) + torch.lerp(x, -x, 0.3)
        b = F.pad(x, (1, 2)).sum() + F.cosine_similarity(x, x + 1, dim=-1).sum()
        c = F.instance_norm(x[None]).squeeze(0) + F.hardswish(x) + F.softplus(x) + F.log_softmax(x, -1)
        d = x.repeat_interleave(2, dim=0)[: x.shape[0]] + x.flip(0).roll(1, -1)
        e = torch.where(x > 0, x, torch.zeros(())) + torch.linalg.norm(x, dim=-1, keepdim=True)
        f = F.kl_div(x.log_softmax(-1), x.softmax(-1), reduction="batchmean")
        return a + b + c + d + e + f, x.std(), torch.var_mean(x, dim=0), x.cumsum(-1), x.topk(2)

    captured(many, (torch.randn(4, 6),))
