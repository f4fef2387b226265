"""A compiled model: nothing that changes between two of its calls may go unnoticed, whatever guards remember."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import nn

import longhand
from longhand.capture.bytecode.hook import frame_hook

pytestmark = pytest.mark.skipif(not frame_hook().REMEMBERS, reason="nothing is remembered on this Python")


class Layer(nn.Module):
    """A layer with settings of each kind that a model reads."""

    factor = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = 1.5
        self.settings = {"offset": 1.0, "words": ["a", "b"]}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if hasattr(self, "shift"):
            x = x + self.shift
        return (
            self.linear(x) * self.scale * self.factor + self.settings["offset"] + len(self.settings["words"])
        )


class Model(nn.Module):
    """Two of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for each in self.layers:
            x = each(x)
        return x


def new_weight(model: Model) -> None:
    model.layers[1].linear.weight = nn.Parameter(torch.eye(4))


def new_data(model: Model) -> None:
    model.layers[1].linear.weight.data = torch.eye(4)


def new_linear(model: Model) -> None:
    model.layers[1].linear = nn.Linear(4, 4, bias=False)


def new_layer(model: Model) -> None:
    model.layers[0] = nn.Identity()


def one_more(model: Model) -> None:
    model.layers.append(Layer())


def hooked(model: Model) -> None:
    model.layers[1].register_forward_hook(lambda module, args, result: result * 3)


def pre_hooked(model: Model) -> None:
    model.layers[0].linear.register_forward_pre_hook(lambda module, args: (args[0] * 3,))


def scaled(model: Model) -> None:
    model.layers[1].scale = 4.0


def own_forward(model: Model) -> None:
    model.layers[1].forward = lambda x: x * 7  # type: ignore[method-assign]


def dict_changed(model: Model) -> None:
    model.layers[1].settings["offset"] = 5.0


def list_changed(model: Model) -> None:
    model.layers[0].settings["words"].append("c")


def namespace_replaced(model: Model) -> None:
    model.layers[1].__dict__ = {**vars(model.layers[1]), "scale": 3.0}


def class_replaced(model: Model) -> None:
    class Deeper(Layer):
        factor = 5.0

    model.layers[1].__class__ = Deeper


def attribute_came(model: Model) -> None:
    model.layers[1].shift = 2.0


def buffer_came(model: Model) -> None:
    model.layers[1].register_buffer("shift", torch.ones(4))


def in_place(model: Model) -> None:
    with torch.no_grad():
        model.layers[0].linear.bias.add_(1.0)


def loaded(model: Model) -> None:
    state = {name: torch.full_like(value, 0.5) for name, value in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def swapped(model: Model) -> None:
    model.layers[0], model.layers[1] = model.layers[1], model.layers[0]


MODEL_CHANGES = [
    new_weight, new_data, new_linear, new_layer, one_more, hooked, pre_hooked, scaled, own_forward, dict_changed,
    list_changed, namespace_replaced, class_replaced, attribute_came, buffer_came, in_place, loaded, swapped,
]  # fmt: skip


@pytest.mark.parametrize("change", MODEL_CHANGES, ids=lambda change: change.__name__)
def test_a_change_of_a_model_between_two_calls_is_noticed(change: Callable[[Model], None]) -> None:
    torch.manual_seed(0)
    model, x = Model(), torch.randn(3, 4)
    compiled = longhand.compile(model)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), model(x))
        change(model)
        for _ in range(3):
            torch.testing.assert_close(compiled(x), model(x))


def test_changes_of_class_and_module_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Model(), torch.randn(3, 4)
    compiled = longhand.compile(model)
    with torch.no_grad():
        for change in (
            lambda: monkeypatch.setattr(Layer, "factor", 3.0),
            lambda: monkeypatch.setattr(Layer, "shift", 1.0, raising=False),
            lambda: monkeypatch.setitem(globals(), "hasattr", lambda owner, name: False),
            lambda: monkeypatch.setitem(globals(), "len", lambda items: 100),
        ):
            for _ in range(3):
                torch.testing.assert_close(compiled(x), model(x))
            change()
        torch.testing.assert_close(compiled(x), model(x))


def test_a_dropped_model_is_not_kept_alive_by_what_is_remembered() -> None:
    model = Model()
    compiled = longhand.compile(model)
    with torch.no_grad():
        for _ in range(3):
            compiled(torch.randn(3, 4))
    layers = [weakref.ref(layer) for layer in (model, *model.layers)]
    del compiled, model
    gc.collect()
    assert [layer() for layer in layers] == [None] * 3


def test_two_models_of_one_class_take_turns() -> None:
    models = [Model() for _ in range(3)]
    compiled = [longhand.compile(model) for model in models]
    x = torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(5):
            for model, run in zip(models, compiled, strict=True):
                torch.testing.assert_close(run(x), model(x))
