"""A statement that calls what holds a module does not tell what is done: the module does."""

from __future__ import annotations

import pytest

from longhand.capture.graph import Provenance
from longhand.schedule.modules.headings import Home
from longhand.schedule.modules.held import Branch
from longhand.schedule.modules.titles import (
    CalledModule,
    is_called_by_holder,
    title_of,
    told_apart,
    told_module,
)


def called(statement: str, module: str, name: str = "Conv2d", qualname: str = "Net.forward") -> Provenance:
    return Provenance(statement, qualname, module=module, module_class=name)


@pytest.mark.parametrize(
    ("where", "is_so"),
    [
        (called("x = self.features(x)", "features.4"), True),
        (called("x = layer(x)", "layers.0"), True),
        (called("x = self.layers[0](x)", "layers.0"), False),
        (called("x = self.conv1(x)", "block.conv1"), False),
        (called("return self.body(x)", "body.conv1"), True),
        (called("x = self.block(x)", "block", name="Block"), False),  # the user's own code says what it does
        (called("x = F.conv2d(x, w)", "features.4", qualname="Conv2d.forward"), False),
        (called("", "features.4"), False),
    ],
)
def test_which_statements_call_a_module_without_naming_it(where: Provenance, is_so: bool) -> None:
    assert is_called_by_holder(where) == is_so


@pytest.mark.parametrize(
    ("modules", "title"),
    [
        (["body.4 Conv2d", "body.6 ReLU", "body.5 Norm"], "body[4] to body[6]: Conv2d, Norm, ReLU"),
        (["body.0 Linear", "body.1 ReLU"], "body[0] and body[1]: Linear, ReLU"),
        (["body.0 Linear", "body.3 Linear"], "body[0], body[3]: Linear, Linear"),
        (["stem.conv Conv2d", "stem.norm Norm"], "stem.conv, stem.norm: Conv2d, Norm"),
        (["a.1 Norm", "b.2 ReLU"], "a[1]: Norm; b[2]: ReLU"),
    ],
)
def test_a_title_says_the_modules(modules: list[str], title: str) -> None:
    pairs = [one.split() for one in modules]
    assert title_of([CalledModule(tuple(path.split(".")), name) for path, name in pairs]) == title


def test_a_function_tells_modules_from_its_own_on() -> None:
    root = Branch()
    root.at("stage.0.body.1")
    plain, holder = called("x = x + y", "stage.0", "Block"), called("x = self.body(x)", "stage.0.body.1")
    told, modules = told_apart([plain, holder], Home(root, "stage", word="stage"))
    assert told == [plain] and modules == (CalledModule(("stage", "0", "body", "1"), "Conv2d"),)
    both = [
        called("y = x + self.body(x)", "stage.0", "Block"),
        called("y = x + self.body(x)", "stage.0.body.1"),
    ]
    assert told_apart(both, Home(root, "stage")) == (both[:1], ())  # the statement does more than call it
    assert told_apart([plain, holder], None) == ([plain, holder], ())
    assert told_module(holder) == "stage[0].body[1]: Conv2d" and not told_module(plain)


def test_a_long_path_is_said_once() -> None:
    net = ["multi_scale_encoder", "layers", "0", "0", "layers", "0", "1", "net"]
    layers = [CalledModule((*net, str(place)), "GELU") for place in (1, 2, 3)]
    path = "multi_scale_encoder.layers[0][0].layers[0][1].net"
    assert title_of(layers[:2]) == f"{path}[1] and [2]: GELU, GELU"
    assert title_of(layers) == f"{path}[1] to [3]: GELU, GELU, GELU"
