"""A module of a unit for all layers that a graph serves, or one for each where calls are recorded."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable

import pytest
import torch
from torch import nn

import longhand
from longhand.compiled import unit_binding
from longhand.compiled.unit_binding import ModulesOfThread, look_only_where_moved
from longhand.options import Device


class Unit(nn.Module):
    """Two weights, and a table of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.register_buffer("table", torch.arange(2))


WEIGHTS = [(1, "inner.weight"), (2, "inner.bias")]


def modules(is_recorded: bool) -> ModulesOfThread:
    return ModulesOfThread(Unit, WEIGHTS, Device.CPU, is_recorded)


def layer(bias: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
    return torch.ones(2), torch.ones(2, 2), torch.ones(2) if bias is None else bias


def test_one_module_serves_all_layers_where_nothing_is_recorded() -> None:
    bound = modules(is_recorded=False)
    first, second = layer(), layer()
    assert bound.of(first) is bound.of(second) is bound.of(first)


def test_each_layer_has_a_module_where_calls_are_recorded() -> None:
    bound = modules(is_recorded=True)
    bias = torch.ones(2)  # which two layers share
    layers = [layer(bias), layer(bias), layer()]
    found = [bound.of(inputs) for inputs in layers]
    assert len({id(one.module) for one in found}) == 3
    assert [bound.of(inputs) for inputs in layers] == found
    assert bound.of((torch.zeros(2), *layers[0][1:])) is found[0]  # other arguments


def test_weights_are_put_where_the_unit_has_them() -> None:
    bound = modules(is_recorded=True).of(layer())
    holder = bound.module.inner
    assert [(slots is holder._parameters, name) for slots, _, name in bound.slots] == [
        (True, "weight"),
        (True, "bias"),
    ]
    weights = [torch.ones(2, 2), torch.ones(2)]
    bound.hold(weights)
    assert holder._parameters["weight"] is weights[0] and holder._parameters["bias"] is weights[1]
    assert bound.module.table.tolist() == [0, 1]


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_module_keeps_its_weights_while_another_thread_reads_them(is_recorded: bool) -> None:
    made = modules(is_recorded)
    first, second = layer(), layer()
    read = made.holding(first, first[1:])
    new = first[0], torch.zeros(2, 2), first[2]
    with read.read_elsewhere():
        assert made.holding(first, first[1:]) is read  # the same weights
        other = made.holding(second if not is_recorded else first, new[1:])
    assert other is not read and other.held == new[1:]
    assert read.module.inner._parameters["weight"] is first[1]
    assert made.holding(second if not is_recorded else first, second[1:]) is other  # nobody reads these


def test_weights_that_are_new_in_each_call_make_no_endless_modules(monkeypatch) -> None:
    monkeypatch.setattr(unit_binding, "_MOST_LAYERS", 3)
    bound = modules(is_recorded=True)
    kept = [layer() for _ in range(6)]
    found = [bound.of(inputs) for inputs in kept]
    assert len({id(one.module) for one in found}) == 3
    assert found[3] is found[4] is found[5] is found[0]


def test_a_unit_without_weights_has_one_module() -> None:
    bound = ModulesOfThread(Unit, [], Device.CPU, True)
    assert bound.of((torch.ones(2),)) is bound.of((torch.zeros(2),))


@pytest.fixture
def look(monkeypatch) -> tuple[list[nn.Module], Callable[[nn.Module], None]]:
    """What the unit's own check looked at, and the check that its calls make."""
    looked: list[nn.Module] = []
    namespace = types.ModuleType("unit_of_two_weights")

    def own(module: nn.Module, device: torch.device) -> None:
        looked.append(module)
        if not module.inner._parameters["weight"].numel():
            raise TypeError("no memory")

    namespace.check_weights = own  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, namespace.__name__, namespace)
    monkeypatch.setattr(Unit, "__module__", namespace.__name__)
    for _ in range(2):  # two graphs of one unit
        look_only_where_moved(Unit)
    return looked, lambda module: namespace.check_weights(module, torch.device("cpu"))


def test_weights_that_stayed_are_not_looked_at_again(look) -> None:
    looked, check = look
    made = modules(is_recorded=False)
    first, second = layer(), layer()

    def call(inputs: tuple[torch.Tensor, ...]) -> int:
        bound = made.of(inputs)
        bound.hold(inputs[1:])
        assert bound.module.inner._parameters["bias"] is inputs[2]
        check(bound.module)
        return len(looked)

    assert [call(inputs) for inputs in (first, first, second, first, second)] == [1, 1, 2, 2, 2]
    first[1].data = torch.zeros(2, 2)  # the same tensor, elsewhere
    assert call(first) == 3
    check(Unit())  # of a unit that somebody loaded
    check(Unit())
    assert len(looked) == 5


def test_each_move_is_looked_at_where_calls_are_recorded(look) -> None:
    looked, check = look
    bound = modules(is_recorded=True).of(layer())
    one, other = layer()[1:], layer()[1:]
    for weights in (one, one, other, one):
        bound.hold(weights)
        check(bound.module)
    assert len(looked) == 3


def test_a_check_that_raised_is_made_again(look) -> None:
    looked, check = look
    bound = modules(is_recorded=False).of(layer())
    bound.hold([torch.ones(0), torch.ones(2)])
    for _ in range(2):
        with pytest.raises(TypeError):
            check(bound.module)
    assert len(looked) == 2


@pytest.mark.parametrize("trains", [False, True])
def test_weights_that_move_or_are_replaced_are_used(trains: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).train(trains)
    compiled = longhand.compile(model)
    x = torch.randn(3, 4)
    changes = [
        lambda: None,
        lambda: setattr(model[0].weight, "data", torch.randn(4, 4)),
        lambda: setattr(model[2], "bias", nn.Parameter(torch.randn(4))),
        lambda: model[2].bias.data.copy_(torch.randn(4)),
        lambda: setattr(model, "0", nn.Linear(4, 4)),
        lambda: model.double(),
        lambda: model.float(),
    ]
    for change in changes:
        change()
        given = x.to(model[0].weight.dtype)
        with torch.set_grad_enabled(trains):
            torch.testing.assert_close(compiled(given), model(given))
            if trains:
                compiled(given).sum().backward()
                found = [parameter.grad for parameter in model.parameters()]
                model.zero_grad()
                model(given).sum().backward()
                torch.testing.assert_close(found, [parameter.grad for parameter in model.parameters()])
                model.zero_grad()
