"""A module of a unit for all layers that a graph serves, or one for each where calls are recorded."""

from __future__ import annotations

import torch
from torch import nn

from longhand.compiled import unit_binding
from longhand.compiled.unit_binding import ModulesOfThread
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
    assert [(slots is holder._parameters, name, i) for slots, name, i in bound.slots] == [
        (True, "weight", 1),
        (True, "bias", 2),
    ]
    assert bound.module.table.tolist() == [0, 1]


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
