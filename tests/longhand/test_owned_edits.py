"""Edits in `out=` are what runs; a unit that does not fit the model is never run silently."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand import backend
from longhand.errors import EditError


class Net(nn.Module):
    def forward(self, x):
        return F.gelu(x + 1)


def kernel_of(out):
    (path,) = [path for path in out.rglob("kernels/*.cpp") if ".base" not in path.parts]
    return path


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.fixture
def x():
    return torch.randn(4, 300)


def test_an_edit_runs_and_a_wrong_one_is_told(tmp_path, x):
    out = tmp_path / "net"
    with torch.no_grad():
        torch.testing.assert_close(longhand.compile(Net(), out=out)(x), F.gelu(x + 1))
        edit(kernel_of(out), "1.0f", "3.0f")
        with pytest.warns(UserWarning, match=r"is wrong at \[0"):
            found = longhand.compile(Net(), out=out)(x)
    assert not torch.allclose(found, F.gelu(x + 1)), "what the file says is what runs"


def test_conflicting_edits_leave_the_model_in_eager(tmp_path, x):
    out = tmp_path / "net"
    with torch.no_grad():
        longhand.compile(Net(), out=out)(x)
        # As if an earlier version had said 2.0f, somebody made it 3.0f, and the model now says 1.0f.
        edit(kernel_of(out), "1.0f", "3.0f")
        edit(out / ".base/kernels" / kernel_of(out).name, "1.0f", "2.0f")
        compiled = longhand.compile(Net(), out=out)
        with pytest.warns(UserWarning, match="edits in kernels/.* conflict"):
            found = compiled(x)
        torch.testing.assert_close(found, F.gelu(x + 1))
        torch.testing.assert_close(compiled(x), F.gelu(x + 1))
    assert "3.0f" in kernel_of(out).read_text()


def test_a_broken_edit_is_an_error_with_its_place(tmp_path, x):
    out = tmp_path / "net"
    with torch.no_grad():
        longhand.compile(Net(), out=out)(x)
        kernel = kernel_of(out)
        edit(kernel, f"void {kernel.stem}(", "void renamed(")
        with pytest.raises(EditError, match=rf"{kernel.name}:\d+"):
            longhand.compile(Net(), out=out)(x)


def test_the_backend_runs_edits_too(tmp_path, x):
    def run():
        torch.compiler.reset()
        compiled = torch.compile(
            Net(), backend="longhand", options={"out": str(tmp_path / "units"), "strict": True}
        )
        with torch.no_grad():
            return compiled(x)

    torch.testing.assert_close(run(), F.gelu(x + 1))
    kernel = kernel_of(tmp_path)
    edit(kernel, "1.0f", "3.0f")
    backend._units_of.clear()  # as in another process
    assert not torch.allclose(run(), F.gelu(x + 1))


# ---- a model that changes after it was compiled ----------------------------------------------------------------------


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(300, 300)
        self.act = nn.GELU()
        self.norm = nn.LayerNorm(300)
        self.scale = 2

    def forward(self, x):
        return self.norm(self.act(self.first(x))) * self.scale


def move_weights(model):
    model.load_state_dict({key: value * 1.5 for key, value in model.state_dict().items()}, assign=True)


def replace_weight(model):
    model.first.weight = nn.Parameter(model.first.weight * 1.5)


def write_weights(model):
    model.first.weight.data.mul_(2)


def swap_layer(model):
    model.act = nn.ReLU()


def set_number(model):
    model.scale = 3


def change_type(model):
    model.double()


@pytest.mark.parametrize(
    "change", [move_weights, replace_weight, write_weights, swap_layer, set_number, change_type]
)
def test_a_model_that_changed_after_compiling_is_never_run_as_it_was(tmp_path, x, change):
    model = Layers().eval()
    compiled = longhand.compile(model, out=tmp_path / "net")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        change(model)
        x = x.double() if change is change_type else x
        if change in (swap_layer, set_number, change_type):
            with pytest.warns(UserWarning, match="the model was changed after .* was written"):
                found = compiled(x)
        else:
            found = compiled(x)
        torch.testing.assert_close(found, model(x))
        torch.testing.assert_close(compiled(x), model(x))
