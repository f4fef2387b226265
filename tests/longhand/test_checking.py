"""A unit's kernels are checked against longhand's own references: every one of them, the backward pass's too."""

import ast
import json
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.verify.checking import check_kernels


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(48)

    def forward(self, x):
        return F.gelu(self.norm(x)).sum(-1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("units") / "net"
    longhand.generate(Net(), (torch.randn(32, 48),), out=out, train=True)
    return out


def test_the_kernels_of_a_backward_pass_are_checked(trained):
    names = set(json.loads((trained / "longhand.lock").read_text())["kernels"])
    rows = check_kernels(trained).kernels
    assert names <= {row.name for row in rows} and len(names) > 1
    assert all(row.is_right for row in rows)
    # Results, arguments and gradients: of the weight and the bias.
    assert sum(row.name.startswith("the model") for row in rows) == 1 + 1 + 2


def test_a_wrong_backward_kernel_is_found(trained):
    used = set(re.findall(r"kernels\.(\w+)\(", (trained / "backward.py").read_text()))
    kernel = next(path for path in sorted(trained.glob("kernels/*.cpp")) if path.stem in used)
    text = kernel.read_text()
    kernel.write_text(re.sub(r"^( +d_\w+\[[^\]]*\] = )", r"\1 2 * ", text, flags=re.MULTILINE))
    try:
        assert kernel.read_text() != text
        assert not all(row.is_right for row in check_kernels(trained, [kernel.stem]).kernels)
    finally:
        kernel.write_text(text)


def test_a_kernel_that_the_check_does_not_call_has_not_passed(tmp_path):
    out = tmp_path / "relu"
    longhand.generate(lambda x: torch.relu(x) * 2, (torch.randn(32, 48),), out=out)
    (name,) = json.loads((out / "longhand.lock").read_text())["kernels"]
    check = out / ".base/check.py"
    call = next(line for line in check.read_text().splitlines() if line.strip().startswith("results = "))
    check.write_text(check.read_text().replace(call, call.partition("=")[0] + "= torch.relu(x) * 2"))
    (row,) = check_kernels(out, [name]).kernels
    assert not row.is_right and "did not call it" in row.mismatch


def test_what_rounding_decides_is_right_either_way_and_nothing_else(trained):
    check = ast.parse((trained / "check.py").read_text())
    (function,) = (node for node in check.body if getattr(node, "name", "") == "differences")
    exec(ast.unparse(function), words := {"torch": torch})
    differences = words["differences"]

    exact, plain = torch.tensor([True, False, True, False]), torch.tensor([True, False, False, True])
    assert differences(plain, exact, plain).tolist() == [0, 0, 0, 0]
    assert differences(exact, exact, plain).tolist() == [0, 0, 0, 0]
    assert differences(torch.tensor([False, True, True, True]), exact, plain).tolist() == [1, 1, 0, 0]
    # A place that neither float64 nor the tensors' own types choose.
    place = torch.tensor([7])
    assert differences(place, torch.tensor([3]), torch.tensor([4])).tolist() == [torch.inf]
    # A number that only overflows in the tensors' own types is what it is there.
    inf = torch.tensor([torch.inf])
    assert differences(inf, torch.tensor([1e39], dtype=torch.float64), inf).tolist() == [0]
    assert differences(torch.tensor([1e38]), torch.tensor([1e39]).double(), inf).tolist() == [torch.inf]
