"""A kernel that does not compile, or cannot be printed, costs itself: it is PyTorch calls, the rest is kernels."""

import importlib
import json
import re
import sys

import pytest
import torch
from torch import nn

import longhand
from longhand.emit.unit.files import LANGUAGES, Cpp
from longhand.errors import KernelWarning
from longhand.loading import bound
from longhand.staleness.file_check import Staleness
from longhand.staleness.model_check import check
from longhand.verify.verification import verify


class Normed(nn.Module):
    """Three kernels: two norms with something around them, and a softmax."""

    def __init__(self):
        super().__init__()
        self.first = nn.LayerNorm(24)
        self.mix = nn.Linear(24, 24)

    def forward(self, x):
        hidden = self.first(x) * 2 + 1
        return torch.softmax(self.mix(hidden) * 0.5, -1)


def small():
    torch.manual_seed(0)
    return Normed().eval(), (torch.randn(6, 24),)


def training():
    torch.manual_seed(0)
    return Normed(), (torch.randn(6, 24, requires_grad=True),)


def large():
    torch.manual_seed(0)
    return Normed().eval(), (torch.randn(60_000, 24),)


def generated(out, *, device="cpu", train=False, factory=None):
    factory = factory or (training if train else small)
    model, args = factory()
    return longhand.generate(
        model,
        args,
        out=out,
        device=device,
        arch="sm_90" if device == "cuda" else None,
        train=train,
        factory=f"{__name__}:{factory.__name__}",
    )


def spoiled(monkeypatch, device, pattern, old, new):
    """The printer of one device errs in the kernels whose path has the pattern."""
    language = LANGUAGES[device]

    class Erring(type(language)):
        def files(self, *args):
            return {
                path: text.replace(old, new) if re.search(pattern, path) else text
                for path, text in language.files(*args).items()
            }

    monkeypatch.setitem(LANGUAGES, device, Erring())


def is_kernel(folder, name):
    text = (folder / "kernels" / f"{name}.py").read_text()
    return "triton.jit" in text or "load_kernel" in text


FAULTS = {"cpu": ("const float", "cnst float"), "cuda": ("tl.load(", "tl.lode(")}


@pytest.fixture
def here(monkeypatch):
    """The factory can be imported by its name, here and in other processes."""
    monkeypatch.setitem(sys.modules, __name__, importlib.import_module(__name__))


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_it_becomes_torch_calls(device, train, tmp_path, monkeypatch):
    spoiled(monkeypatch, device, "d_layer_norm" if train else "layer_norm", *FAULTS[device])
    with pytest.warns(KernelWarning) as told:
        summary = generated(tmp_path / "unit", device=device, train=train)
    kernels = json.loads((tmp_path / "unit" / "longhand.lock").read_text())["kernels"]
    bad = summary.in_torch
    assert all("layer_norm" in name for name in bad) and 0 < len(bad) < len(kernels)
    assert tuple(name for name in kernels if not is_kernel(tmp_path / "unit", name)) == bad
    warnings = [str(one.message) for one in told if one.category is KernelWarning]
    assert len(warnings) == len(bad)
    warning = warnings[0]
    target = "sm_90" if device == "cuda" else "this processor"
    assert f"kernel {bad[0]}" in warning and f"does not compile for {target}" in warning
    assert re.match(r"\S+test_one_bad_kernel\.py:\d+: ", warning) and "please report" in warning
    assert "hidden = self.first(x) * 2 + 1" in warning or train
    result = verify(tmp_path / "unit")
    assert result.is_right, result


def test_the_unit_is_what_its_model_generates(tmp_path, monkeypatch):
    spoiled(monkeypatch, "cpu", "layer_norm", *FAULTS["cpu"])
    with pytest.warns(KernelWarning):
        generated(tmp_path / "unit")
    assert check(tmp_path / "unit").staleness is Staleness.CURRENT


def test_a_printer_that_raises(tmp_path, monkeypatch):
    class Raising(Cpp):
        def files(self, kernel, name, reference):
            if "layer_norm" in name.kernel:
                raise KeyError("linear_2_d3_stride")
            return super().files(kernel, name, reference)

    monkeypatch.setitem(LANGUAGES, "cpu", Raising())
    with pytest.warns(KernelWarning, match="cannot be printed: KeyError: 'linear_2_d3_stride'"):
        summary = generated(tmp_path / "unit")
    assert len(summary.in_torch) == 1
    model, args = small()
    unit = bound(longhand.load(tmp_path / "unit"), model)
    with torch.no_grad():
        torch.testing.assert_close(unit(*args), model(*args))


def test_nothing_is_told_where_all_is_well(tmp_path):
    assert generated(tmp_path / "unit", device="cuda").in_torch == ()
    assert "in_torch" not in json.loads((tmp_path / "unit" / "longhand.lock").read_text())


def test_compile_keeps_its_other_kernels(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path))
    spoiled(monkeypatch, "cpu", "layer_norm", *FAULTS["cpu"])
    longhand.reset()
    model, args = small()
    for _ in range(2):  # the second finds the unit in the cache, and says it again
        longhand.reset()
        with pytest.warns(KernelWarning, match="does not compile"), torch.no_grad():
            torch.testing.assert_close(longhand.compile(model)(*args), model(*args))
    monkeypatch.setenv("LONGHAND_STRICT", "1")
    torch.compiler.reset()
    refused = pytest.raises(Exception, match="kernels that are PyTorch calls")
    with pytest.warns(KernelWarning), refused, torch.no_grad():
        torch.compile(model, backend="longhand")(*args)
