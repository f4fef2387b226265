"""A decorator around ``forward`` names nothing: the model is called by its class, and arguments as they are passed."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import nn

from longhand.capture.bytecode.entry.entries import Capture
from longhand.capture.frontends.dynamo import capture_dynamo
from longhand.capture.graph import CapturedGraph, InputKind
from longhand.options import Device, Target


def checked(function: Any) -> Any:
    """What transformers puts around forward, in small."""

    @functools.wraps(function)
    def wrapper(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        kwargs["scale"] = kwargs.get("scale") or 2.0
        return function(self, *args, **kwargs)

    return wrapper


class Scaled(nn.Module):
    """A decorated module."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @checked
    def forward(self, hidden: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return self.linear(hidden) * scale


def twice(model: nn.Module, kwargs: dict[str, torch.Tensor]) -> torch.Tensor:
    """A function of the user's: nobody's decorator."""
    return model(kwargs["hidden"]) * 2


@pytest.fixture(params=["bytecode", "dynamo"])
def graph_of(request: pytest.FixtureRequest) -> Any:
    """The one graph of a call, through longhand's own capture or Dynamo's."""

    def capture(function: Any, *args: Any, **kwargs: Any) -> CapturedGraph:
        found = []

        def backend(module: Any, inputs: Any) -> Any:
            found.append(capture_dynamo(module, inputs, target=Target(Device.CPU)))
            return module.forward

        torch.compiler.reset()
        with torch.no_grad():
            if request.param == "dynamo":
                torch.compile(function, backend=backend, fullgraph=True)(*args, **kwargs)
            else:
                Capture(backend, fullgraph=True).call(function, args, kwargs)
        (graph,) = found
        return graph

    return capture


def arguments(graph: CapturedGraph) -> list[str]:
    return [entry.target for entry in graph.inputs if entry.kind is InputKind.ARGUMENT]


def test_the_class_and_the_arguments_have_their_own_names(graph_of: Any) -> None:
    graph = graph_of(Scaled(), hidden=torch.randn(3, 4))
    assert (graph.name, arguments(graph)) == ("Scaled", ["hidden"])
    assert graph.source.endswith("Scaled")


def test_a_function_that_calls_a_decorated_module_keeps_its_name(graph_of: Any) -> None:
    graph = graph_of(twice, Scaled(), {"hidden": torch.randn(3, 4)})
    assert (graph.name, arguments(graph)) == ("twice", ["kwargs_hidden"])


def test_a_nested_function_that_takes_no_self_keeps_its_name(graph_of: Any) -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * 2

    graph = graph_of(inner, torch.randn(3))
    assert (graph.name, arguments(graph)) == ("inner", ["x"])
