"""MODULE:FACTORY: what is accepted, and what the errors say."""

import pytest
import torch
from torch import nn

from longhand.errors import FactoryError, OptionError
from longhand.factory import resolve
from longhand.vector_math import settle_vector_math

SOURCE = """
import torch
from torch import nn

class Scale(nn.Module):
    def forward(self, x, factor=None):
        return x * 2 if factor is None else x * factor

def good():
    return Scale(), (torch.ones(2, 3),)

def with_keywords():
    return Scale(), (torch.ones(2, 3),), {"factor": torch.tensor(3.0)}

def raises():
    raise ValueError("no weights here")

def after_settling():
    from longhand.vector_math import settle_vector_math
    return Scale(), (torch.full((2, 3), float(settle_vector_math.cache_info().currsize)),)

def wrong_kind():
    return Scale()

def wrong_tuple():
    return Scale(), [torch.ones(2)]

class sizes:
    @staticmethod
    def small():
        return torch.sin, (torch.ones(4),)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "user_models.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "user_models", raising=False)
    return tmp_path / "user_models.py"


def test_vector_math_is_settled_before_a_model_makes_its_tables(module):
    settle_vector_math.cache_clear()
    assert resolve("user_models:after_settling").args[0].eq(1).all()


def test_a_factory_with_arguments(module):
    call = resolve("user_models:good")
    assert isinstance(call.model, nn.Module) and call.args[0].shape == (2, 3) and call.kwargs == {}


def test_a_factory_with_keyword_arguments(module):
    assert resolve("user_models:with_keywords").kwargs["factor"].item() == 3.0


def test_a_dotted_factory(module):
    assert resolve("user_models:sizes.small").model is torch.sin


def test_a_module_class_with_inputs(module):
    call = resolve("user_models:Scale", ("x=float16[4,1024]",))
    assert call.args[0].dtype == torch.float16 and call.args[0].shape == (4, 1024)


def test_inputs_after_a_gap_become_keywords(module):
    call = resolve("user_models:Scale", ("factor=float32[]",))
    assert call.args == () and call.kwargs["factor"].shape == ()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("user_models", "MODULE:FACTORY"),
        ("no_such_module_here:f", "no_such_module_here"),
        ("user_models:goood", "has no 'goood'"),
        ("user_models:raises", "ValueError: no weights here"),
        ("user_models:wrong_kind", "returned Scale"),
        ("user_models:wrong_tuple", "(Scale, list)"),
    ],
)
def test_errors_name_what_is_wrong(module, spec, words):
    with pytest.raises(FactoryError) as caught:
        resolve(spec)
    assert words in str(caught.value)


def test_an_error_inside_the_factory_names_its_line(module):
    with pytest.raises(FactoryError) as caught:
        resolve("user_models:raises")
    line = SOURCE.splitlines().index('    raise ValueError("no weights here")') + 1
    assert caught.value.where == f"{module}:{line}"


@pytest.mark.parametrize("text", ["x=float33[2]", "x:float32[2]", "x=float32[a]", "x=nn[2]"])
def test_inputs_that_do_not_read(module, text):
    with pytest.raises(OptionError, match="does not read"):
        resolve("user_models:Scale", (text,))


def test_an_input_that_the_model_does_not_take(module):
    with pytest.raises(OptionError, match="takes no 'y'"):
        resolve("user_models:Scale", ("y=float32[2]",))
