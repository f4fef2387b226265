"""A method that calls the model itself runs in eager behind longhand.compile: it is told, with what to do instead."""

import copy
import inspect
import warnings

import pytest
import torch
from torch import nn

import longhand
from longhand.errors import EagerWarning, OptionError


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.calls = 0

    def forward(self, x):
        return torch.relu(self.layer(x)) * 0.5

    def generate(self, x, n):
        return self.looped(x, n)

    def looped(self, x, n):
        for _ in range(n):
            x = self(x)
        return x

    def signature(self):
        return list(inspect.signature(self.forward).parameters)

    def chosen(self, x, how):
        return getattr(type(self), how)(self, x, 1)

    def width(self):
        return self.layer.in_features


def test_a_loop_around_the_model_is_told_once_with_its_place_and_the_remedy():
    compiled = longhand.compile(Model().eval())
    with pytest.warns(
        EagerWarning, match=r"Model\.generate is the original's.*test_loops_around\.py:\d+"
    ) as told:
        compiled.generate(torch.ones(2, 8), 2)
    assert "model.forward = longhand.compile(model.forward)" in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EagerWarning)
        assert compiled.width() == 8 and compiled.signature() == ["x"]
        compiled.generate(torch.ones(2, 8), 1)
        copy.deepcopy(compiled).eval().state_dict()


def test_a_method_that_is_chosen_by_name_may_be_the_loop():
    with pytest.warns(EagerWarning, match=r"Model\.chosen is the original's"):
        longhand.compile(Model().eval()).chosen(torch.ones(2, 8), "looped")


def test_the_remedy_runs_each_step_in_kernels(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path))
    model = Model().eval()
    x = torch.randn(2, 8)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", EagerWarning)
        expected = model.generate(x, 3)
        model.forward = longhand.compile(model.forward)
        torch.testing.assert_close(model.generate(x, 3), expected)
    assert list(tmp_path.rglob("model.py")), "a unit was written"


def test_an_exported_program_is_told_by_explain_too():
    program = torch.export.export(Model().eval(), (torch.ones(2, 8),))
    with pytest.raises(OptionError, match=r"ExportedProgram.*program\.module\(\)"):
        longhand.explain(program)
