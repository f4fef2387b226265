"""A unit where PyTorch traces: what docs/deployment.md says of torch.compile and torch.export, and its recipe."""

import copy
import pickle
import re
from pathlib import Path

import pytest
import torch

import longhand

pytestmark = pytest.mark.slow  # they import torch's own compiler

ROOT = Path(__file__).resolve().parents[2]
X = torch.linspace(-3, 3, 4096 * 1024).reshape(4096, 1024)
SHIFT = torch.linspace(0, 1, 1024)
EXPECTED = torch.softmax(X * 0.125 + SHIFT, dim=-1)


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return torch.exp(self.function(x + 0.0))


@pytest.fixture(scope="module")
def unit():
    softmax = longhand.load(ROOT / "generated/fused_ops_cpu/softmax")
    return lambda x: softmax(x, SHIFT)


def test_the_recipe_is_one_operator_to_compile_and_export(unit):
    text = (ROOT / "docs/deployment.md").read_text()
    (sample,) = re.findall(r"```python\n(@torch\.library\.custom_op.*?)```", text, re.DOTALL)
    names = {"torch": torch, "unit": unit}
    exec(compile(sample, "docs/deployment.md", "exec"), names)
    model = Model(names["scorer"])
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(X), torch.exp(EXPECTED))
    exported = torch.export.export(model, (X,))
    assert [node.target for node in exported.graph.nodes].count(torch.ops.project.scorer.default) == 1
    torch.testing.assert_close(exported.module()(X), torch.exp(EXPECTED))


def test_modules_are_copied_and_pickled_with_their_weights():
    model = longhand.load(ROOT / "generated/attention_cpu")()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    x = torch.randn(4, 512, 256)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(again(x), model(x))
        assert again.W_q.weight.data_ptr() != model.W_q.weight.data_ptr()
