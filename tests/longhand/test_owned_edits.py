"""Edits in `out=` are what runs; a unit that does not fit the model is never run silently."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.compiled import backend
from longhand.errors import CaptureError, EditError


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
            Net(), backend=backend.longhand_backend, options={"out": str(tmp_path / "units"), "strict": True}
        )
        with torch.no_grad():
            return compiled(x)

    torch.testing.assert_close(run(), F.gelu(x + 1))
    kernel = kernel_of(tmp_path)
    edit(kernel, "1.0f", "3.0f")
    backend._units_of.clear()  # as in another process
    assert not torch.allclose(run(), F.gelu(x + 1))


# ---- a model that changes after it was compiled ----------------------------------------------------------------------


SHIFT = 1.0


def shifted(x):
    return x + SHIFT


class Settings:
    power = 2


class Layers(nn.Module):
    slope = 0.5

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(300, 300)
        self.act = nn.GELU()
        self.norm = nn.LayerNorm(300)
        self.drop = nn.Dropout(0.5)
        self.scale = 2
        self.function = torch.tanh
        self.sizes = [3, 4]
        self.offset = torch.full((300,), 0.5)

    def forward(self, x):
        x = self.drop(self.norm(self.act(self.first(x)))) * self.scale
        x = shifted(self.function(x)) * self.sizes[0] + self.offset
        return self.finished(x**Settings.power)

    def finished(self, x):
        return torch.relu(x) * self.slope


class Twice(nn.GELU):
    def forward(self, x):
        return 2 * super().forward(x)


def move_weights(model):
    model.load_state_dict({key: value * 1.5 for key, value in model.state_dict().items()}, assign=True)


def replace_weight(model):
    model.first.weight = nn.Parameter(model.first.weight * 1.5)


def write_weights(model):
    model.first.weight.data.mul_(2)


def swap_layer(model):
    model.act = nn.ReLU()


def swap_class(model):
    model.act.__class__ = Twice


def set_number(model):
    model.scale = 3


def set_probability(model):
    model.drop.p = 0.0
    model.drop.training = True


def set_eps(model):
    model.norm.eps = 0.5


def set_function(model):
    model.function = torch.sigmoid


def write_list(model):
    model.sizes[0] = 7


def write_tensor(model):
    model.offset.mul_(3)


def set_class_attribute(model):
    Layers.slope = 0.75


def set_forward(model):
    model.forward = lambda x: x * 3


def set_forward_of_class(model):
    Layers.forward = lambda self, x: x * 5


def set_helper(model):
    Layers.finished = lambda self, x: x * 7


def set_global(model):
    global SHIFT
    SHIFT = 2.0


def set_object_in_globals(model):
    Settings.power = 3


def rewrite_code(model):
    shifted.__code__ = (lambda x: x - SHIFT).__code__


def add_hook(model):
    model.norm.register_forward_hook(lambda module, given, result: result * 2)


def change_type(model):
    model.double()


GLOBAL_HOOKS = []


def add_global_hook(model):
    double = torch.nn.modules.module.register_module_forward_hook(
        lambda module, given, result: result * 2 if module is model.norm else None
    )
    GLOBAL_HOOKS.append(double)


@pytest.fixture
def restored():
    """What the changes do to this module, undone."""
    kept = Layers.forward, Layers.finished, Layers.slope, shifted.__code__
    yield
    global SHIFT
    SHIFT, Settings.power = 1.0, 2
    Layers.forward, Layers.finished, Layers.slope, shifted.__code__ = kept
    while GLOBAL_HOOKS:
        GLOBAL_HOOKS.pop().remove()


OF_WEIGHTS = (move_weights, replace_weight, write_weights)
OF_CODE = (
    swap_layer, swap_class, set_number, set_probability, set_eps, set_function, write_list, write_tensor,
    set_class_attribute, set_forward, set_forward_of_class, set_helper, set_global, set_object_in_globals,
    rewrite_code, add_hook, add_global_hook, change_type,
)  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with the unit of `Layers`, so that each test only looks at it again."""
    out = tmp_path_factory.mktemp("written") / "net"
    with torch.no_grad():
        longhand.compile(Layers().eval(), out=out)(torch.randn(4, 300))
    return out


@pytest.mark.parametrize("change", OF_WEIGHTS + OF_CODE)
def test_a_model_that_changed_after_compiling_is_never_run_as_it_was(written, restored, x, change):
    torch.manual_seed(0)
    model = Layers().eval()
    compiled = longhand.compile(model, out=written)
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = model(x)
        torch.testing.assert_close(compiled(x), before)
        assert not caught
        change(model)
        x = x.double() if change is change_type else x
        found, again, expected = compiled(x), compiled(x), model(x)
    assert change is set_probability or not torch.equal(before.to(expected.dtype), expected)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(again, expected)
    told = [str(one.message) for one in caught if "the model was changed after" in str(one.message)]
    assert len(told) == (change in OF_CODE), "once, and not of new weights"


def test_a_model_that_is_again_as_it_was_runs_as_its_unit(written, x, monkeypatch):
    model = Layers().eval()
    compiled = longhand.compile(model, out=written)
    eager = []
    with torch.no_grad():
        expected = compiled(x)
        monkeypatch.setattr(Layers, "__call__", lambda self, x: eager.append(x) or self.forward(x))
        model.train()
        with pytest.warns(UserWarning, match="the model was changed"):
            compiled(x)
        assert len(eager) == 1
        model.eval()
        torch.testing.assert_close(compiled(x), expected)
        assert len(eager) == 1


def outer(gain, linear):
    def inner(x, shift=SHIFT):
        return torch.tanh(linear(x)) * gain + shift

    return inner


def set_cell(function):
    function.__closure__[0].cell_contents = 4.0


def set_default(function):
    function.__defaults__ = (9.0,)


def write_module_of_closure(function):
    function.__closure__[1].cell_contents.bias.add_(1)


def replace_module_of_closure(function):
    function.__closure__[1].cell_contents = nn.Linear(300, 300)


@pytest.mark.parametrize(
    "change", [set_cell, set_default, write_module_of_closure, replace_module_of_closure]
)
def test_a_function_whose_closure_changed_is_never_run_as_it_was(tmp_path_factory, x, change):
    function = outer(2.0, nn.Linear(300, 300))
    compiled = longhand.compile(function, out=tmp_path_factory.getbasetemp() / "closure")
    with torch.no_grad():
        before = compiled(x)
        torch.testing.assert_close(before, function(x))
        change(function)
        with pytest.warns(UserWarning, match="the model was changed after"):
            found = compiled(x)
        assert not torch.allclose(function(x), before)
        torch.testing.assert_close(found, function(x))


def test_other_shapes_types_and_autocast_run_in_eager(written):
    model = Layers().eval()
    compiled = longhand.compile(model, out=written)
    with torch.no_grad():
        compiled(torch.randn(4, 300))
        for x in (torch.randn(7, 300), torch.randn(300, 4).t(), torch.randn(2, 4, 300)):
            torch.testing.assert_close(compiled(x), model(x))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = torch.randn(4, 300)
            torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)


def test_a_first_call_under_autocast_is_refused(tmp_path, x):
    compiled = longhand.compile(Layers().eval(), out=tmp_path / "net")
    under_autocast = torch.autocast("cpu", dtype=torch.bfloat16)
    with torch.no_grad(), under_autocast, pytest.raises(CaptureError, match=r"inside torch\.autocast"):
        compiled(x)
    assert not (tmp_path / "net").exists()
