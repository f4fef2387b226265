"""What cannot be captured is said in one paragraph, with the user's line and a way out."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from longhand.capture.frontends.export import capture_export
from longhand.errors import CaptureError
from longhand.options import Device, Target

CPU = Target(Device.CPU)


def branches_on_values(x):
    y = x * 2
    if y.sum() > 0:  # blamed
        return y
    return -y


def takes_a_size_from_values(x):
    return x[: int(x.sum().item())]  # blamed


def adds_to_what_a_mask_selects(x):
    return x[x > 0] + x[0]  # blamed


def compares_all_values(x):
    return x * 2 if torch.equal(x, x.abs()) else x  # blamed


def gives_as_many_as_the_data_say(x):
    batch = x.t().expand(2, 4, 3)
    return torch.linalg.lstsq(batch, batch, driver="gelsd")  # blamed


def takes_a_part_at_a_tensor(x):
    return torch.ops.aten.narrow.Tensor(x, 0, x.argmax() * 0, 1)  # blamed


def is_wrong_in_eager_too(x):
    return x @ x  # blamed


def raises(x):
    raise ValueError("only for training")  # blamed


def uses_control_flow(x):
    return torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))  # blamed


def resizes(x):
    y = x.clone()
    y.resize_(9, 9)  # blamed
    return y


def leaves_torch(x):
    return torch.from_numpy(x.numpy() + 1)  # blamed


def asks_for_cuda(x):
    return x + torch.ones(4, device="cuda:7")  # blamed


WHAT = [
    (branches_on_values, "only known when it runs"),
    (takes_a_size_from_values, "only known when it runs"),
    (adds_to_what_a_mask_selects, "depends on the data"),
    (compares_all_values, "a value that is only known when it runs"),
    (gives_as_many_as_the_data_say, "depends on the data (aten.linalg_lstsq.default)"),
    (takes_a_part_at_a_tensor, "the place of a part"),
    (is_wrong_in_eager_too, "same reduction dim"),
    (raises, "only for training"),
    (uses_control_flow, "depends on tensors"),
    (resizes, "resize_"),
    (leaves_torch, "NumPy"),
    (asks_for_cuda, "device"),
]


@pytest.mark.parametrize("function, words", WHAT, ids=lambda value: getattr(value, "__name__", ""))
def test_says_what_and_where(function, words, capfd):
    source, first = inspect.getsourcelines(function)
    blamed = next(first + number for number, line in enumerate(source) if "# blamed" in line)
    with pytest.raises(CaptureError) as caught:
        capture_export(function, (torch.randn(3, 4),), target=CPU)
    error = caught.value
    assert words in error.what
    assert error.where == f"{__file__}:{blamed}"
    assert error.hint
    assert "\n" not in str(error) and "Traceback" not in str(error)
    assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)
    assert capfd.readouterr() == ("", "")


class StoresATensor(nn.Module):
    def forward(self, x):
        self.last = x * 2
        return self.last + 1


def test_a_tensor_stored_on_the_module_is_refused():
    with pytest.raises(CaptureError, match="stores a tensor on the module"):
        capture_export(StoresATensor(), (torch.randn(3),), target=CPU)


def test_a_dynamic_size_that_the_code_fixes():
    def fixed(x):
        return x + torch.ones(3)

    with pytest.raises(CaptureError, match="fixed by the code"):
        capture_export(fixed, (torch.randn(3),), target=CPU, dynamic_shapes=({0: torch.export.Dim("n")},))


def test_arguments_that_do_not_fit():
    with pytest.raises(CaptureError, match="does not take these arguments"):
        capture_export(raises, (torch.randn(3), torch.randn(3)), target=CPU)


def test_a_result_that_is_no_container():
    with pytest.raises(CaptureError, match="no plain container"):
        capture_export(lambda x: object(), (torch.randn(3),), target=CPU)


def test_ambient_autocast_is_refused():
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(CaptureError, match="autocast"):
        capture_export(lambda x: x @ x, (torch.randn(3, 3),), target=CPU)


SCRIPT = """
import torch
from longhand.capture.frontends.export import capture_export
from longhand.options import Device, Target
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True).eval()
sizes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("seq")},)
print(capture_export(layer, (torch.randn(2, 5, 16),), target=Target(Device.CPU), dynamic_shapes=sizes))
"""


def test_the_same_text_in_every_process():
    texts = set()
    for seed in ("0", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        texts.add(run.stdout)
    assert len(texts) == 1 and "def forward" in texts.pop()


def test_built_in_functions_have_no_signature() -> None:
    with pytest.raises(CaptureError, match="exp is built in") as failure:
        capture_export(torch.exp, (torch.randn(3),), {}, target=Target(Device.CPU))
    assert "def f(x): return exp(x)" in str(failure.value)
