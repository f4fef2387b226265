"""longhand.compile's frontends: the same results; own capture as decorator, method, on modules, and pickled."""

import copy
import importlib.util

import pytest
import torch

import longhand
from longhand.errors import OptionError

IS_BUILT = importlib.util.find_spec("longhand.capture._frame_eval") is not None


def test_an_unknown_frontend():
    with pytest.raises(OptionError, match="frontend"):
        longhand.compile(torch.relu, frontend="typescript")


def test_export_needs_a_folder():
    with pytest.raises(OptionError, match="out="):
        longhand.compile(torch.relu, frontend="export")


def test_without_the_extension_the_error_says_what_to_do():
    if not IS_BUILT:
        with pytest.raises(longhand.errors.CaptureError, match="frontend='dynamo'"):
            longhand.compile(torch.relu, frontend="bytecode")(torch.ones(2))
    else:
        compiled = longhand.compile(lambda x: torch.relu(x) * 2 - 1, frontend="bytecode")
        x = torch.randn(6)
        assert torch.allclose(compiled(x), torch.relu(x) * 2 - 1)


def test_a_compiled_module_is_the_module_in_everything_else():
    module = torch.nn.Linear(3, 2)
    compiled = longhand.compile(module, frontend="bytecode")
    assert compiled.weight is module.weight and list(compiled.state_dict()) == ["weight", "bias"]
    compiled.eval()
    assert not module.training
    again = copy.deepcopy(compiled)
    assert again.weight is not module.weight and torch.equal(again.weight, module.weight)


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_on_a_parameter_is_not_lost_in_silence(register, tmp_path):
    """The unit's parameters are its own: its gradients were what the hook had not seen."""
    module, x = torch.nn.Linear(2, 2), torch.randn(3, 2)
    getattr(module.weight, register)(lambda given: None)
    with pytest.raises(longhand.errors.CaptureError, match="hook is registered on the gradient of weight"):
        longhand.generate(module, (x,), out=tmp_path / "unit", train=True)
