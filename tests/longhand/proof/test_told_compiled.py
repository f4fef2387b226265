"""Models that compute something else where they hear that they are compiled: their units do what eager does."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from torch import nn

import longhand
from longhand.errors import OptionError, ToldCompiledWarning, VerificationError
from longhand.factory import Call
from longhand.proof.told_compiled import asks_whether_compiled

X = torch.randn(5, 5)


class Transposed(nn.Module):
    """Not the same function where it is compiled."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.t() if torch.compiler.is_compiling() else x * 2, -1)


class ByData(nn.Module):
    """The same, with a branch by data in eager."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            return torch.softmax(x, -1)
        return torch.softmax(x * 2, -1) if (x > -9).all() else x


class Alike(nn.Module):
    """Asks, and computes the same either way."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) if torch.compiler.is_compiling() else x.softmax(-1)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("frontend", [None, "export", "bytecode"])
def test_a_unit_does_what_eager_does(tmp_path, frontend, train):
    example = (X.clone().requires_grad_(train),)
    with pytest.warns(ToldCompiledWarning, match="Transposed computes something else"):
        longhand.generate(Transposed(), example, out=tmp_path / "unit", frontend=frontend, train=train)
    assert json.loads((tmp_path / "unit" / "longhand.lock").read_text())["frontend"] == "uncompiled"
    torch.testing.assert_close(longhand.load(tmp_path / "unit")()(*example), Transposed()(*example))


def test_where_eager_is_no_unit_the_error_says_what_it_is(tmp_path):
    with pytest.raises(
        VerificationError, match=r"(?s)is_compiling\(\) is True.*depends on a tensor's values"
    ):
        longhand.generate(ByData(), (X,), out=tmp_path / "unit")
    assert not (tmp_path / "unit").exists()


def test_a_model_that_only_asks_is_told_that_it_is_compiled(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        longhand.generate(Alike(), (X,), out=tmp_path / "unit")
    assert "frontend" not in json.loads((tmp_path / "unit" / "longhand.lock").read_text())


class Writing(nn.Module):
    """Asks, writes into its argument, and does not run to its end."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(float(torch.compiler.is_compiling()) + 1.0)
        raise ValueError(x.shape)


def test_who_asks_is_asked_of_copies():
    x = torch.zeros(3)
    assert asks_whether_compiled(Call(Writing(), (x,), {}), train=False)
    assert not x.any()


def test_who_asks():
    assert asks_whether_compiled(Call(Alike(), (X,), {}), train=False)
    assert not asks_whether_compiled(Call(nn.Softmax(-1), (X,), {}), train=False)


def test_one_graph_needs_a_folder():
    with pytest.raises(OptionError, match="'uncompiled' writes one graph"):
        longhand.compile(Alike(), frontend="uncompiled")
    with pytest.raises(OptionError, match="uncompiled makes one graph or none"):
        longhand.explain(Alike(), frontend="uncompiled")
