"""Which part of a module heads what it does, and which calls need no statement of the user's above them."""

from __future__ import annotations

import pytest
import torch
from torch import fx

from longhand.lower.ir import Extern
from longhand.schedule.modules.headings import Home, heading_of, is_evident, is_lone_sum
from longhand.schedule.modules.held import Branch
from longhand.schedule.plan import Launch

aten = torch.ops.aten


def tree() -> Branch:
    root = Branch()
    for layer in range(2):
        for leaf in ("attn.q_proj", "attn.norm", "mlp.fc", "norm"):
            root.at(f"body.layers.{layer}.{leaf}")
    root.at("body.embed.tokens")
    return root


@pytest.mark.parametrize(
    ("paths", "heading"),
    [
        (["body.layers.1.attn"], "attn"),
        (["body.layers.1.attn.norm"], "attn"),  # a module without parts heads nothing itself
        (["body.layers.1.norm"], ""),
        (["body.layers.1"], ""),
        (["body.layers.1.attn", "body.layers.1.mlp"], ""),
        (["body.layers.1.mlp.act", "body.layers.1.mlp"], "mlp"),
        (["head"], ""),
        ([], ""),
    ],
)
def test_a_layers_parts_go_by_their_own_path(paths: list[str], heading: str) -> None:
    assert heading_of(paths, Home(tree(), "body.layers", is_list=True)) == heading


def test_outside_of_layers_parts_go_by_their_whole_path() -> None:
    home = Home(tree())
    assert heading_of(["body.embed"], home, ["body.layers"]) == "body.embed"
    assert heading_of(["body.layers.0.attn"], home) == "body.layers[0].attn"


def test_what_holds_the_layers_heads_nothing() -> None:
    assert heading_of(["body"], Home(tree()), ["body.layers"]) == ""
    assert heading_of(["body"], Home(tree())) == "body"


def test_products_say_what_they_do_and_kernels_of_one_statement_on_a_weight() -> None:
    def call(target: object) -> Extern:
        return Extern(target, ("x", "w"), (), ("y",))  # type: ignore[arg-type]

    assert is_evident(call(aten.linear.default), 1, set())
    assert not is_evident(call(aten.index_put.default), 1, set())
    launch = Launch("key", ("x", "w", "y"), ())
    assert is_evident(launch, 1, {"w"}) and not is_evident(launch, 2, {"w"})
    assert not is_evident(launch, 1, set())


def test_a_sum_alone_needs_no_remark() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    biased = graph.call_function(aten.add.Tensor, (graph.call_function(aten.view.default, (x, [-1])), x))
    graph.call_function(aten.gelu.default, (biased,))
    nodes = {node.name: node for node in graph.nodes}
    assert is_lone_sum(Launch("key", (), (), origins=("view_default", biased.name)), nodes)
    assert not is_lone_sum(Launch("key", (), (), origins=(biased.name, "gelu_default")), nodes)
