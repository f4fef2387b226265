"""What the layers of a list save for their backward pass: one record a layer, whatever stands around the loop."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from examples import gpt_train
from longhand.schedule.layers.model_steps import Loop, records_apart
from longhand.schedule.layers.saved_layers import SavedLayers
from longhand.schedule.plan import Repeat
from tests.same_gradients import assert_same_gradients


class Layer(nn.Module):
    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.act(self.up(self.norm(x)))
        return x + self.down(hidden)


class Stack(nn.Module):
    def __init__(self, n_layers: int = 5, odd: int | None = None) -> None:
        super().__init__()
        acts = [nn.Tanh() if place == odd else nn.GELU() for place in range(n_layers)]
        self.layers = nn.ModuleList(map(Layer, acts))
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Reversed(Stack):
    """The last layer runs first."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in reversed(self.layers):
            x = layer(x)
        return self.norm(x)


class Embedded(Stack):
    """What makes the first layer's norm is fused with the sum before it: it is no run of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x * 2 + self.first(x))


class Watched(Stack):
    """Every layer's result is one of the model's, too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(x)
        for layer in self.layers:
            x = layer(x)
            total = total + x
        return self.norm(total)


class Layered(nn.Module):
    """The list is called as one of its layers would be, and every layer's result is the model's, too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Layer(nn.GELU()) for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(x)
        for layer in self.layer:
            x = layer(x)
            total = total + x
        return total


class TwoStacks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Stack()
        self.decoder = Stack(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(x))


class TwoKinds(TwoStacks):
    """The layers that run last save no records, the others do."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = Watched(4)


class Stage(nn.Module):
    """One layer beside a list of layers."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, 16)
        self.branches = nn.ModuleList([nn.ModuleList([Layer(nn.GELU())]), Stack(4).layers])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for branch in self.branches:
            for layer in branch:
                x = layer(x)
        return self.first(torch.tanh(x))


class Stages(nn.Module):
    """The first stage is written out, with a loop over its list; the others are one class."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(Stage(16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2 + x.roll(1, -1)
        for stage in self.stages:
            x = stage(x)
        return x


class Numbered(Stack):
    """Layers that are lists, in lists."""

    def __init__(self) -> None:
        super().__init__()
        parts = (nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.Tanh()) for _ in range(5))
        self.layers = nn.ModuleList(nn.Sequential(nn.Sequential(part)) for part in parts)


class Mixing(nn.Module):
    """Two streams; each becomes a sum of both."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.out, self.left, self.right = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = torch.relu(self.up(x)), torch.relu(self.out(y))
        return torch.relu(x + self.left(y)), torch.relu(self.right(x) + y)


class TwoStreams(nn.Module):
    """The decoder saves records; the encoder saves none, and its backward reads what is in them, too."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(Mixing() for _ in range(4))
        self.middle = nn.Linear(16, 16)
        self.decoder = nn.ModuleList(Mixing() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x)
        for layer in self.encoder:
            x, y = layer(x, y)
        middle = self.middle(x)
        for layer in self.decoder:
            x, y = layer(x, y)
        return x + y + middle


MODELS: dict[str, Callable[[], nn.Module]] = {
    "a stack": Stack,
    "behind a sum": Embedded,
    "watched": Watched,
    "two stacks": TwoStacks,
    "an odd layer inside": lambda: Stack(6, odd=3),
    "an odd first layer": lambda: Stack(6, odd=0),
    "an odd last layer": lambda: Stack(6, odd=5),
    "two streams": TwoStreams,
    "reversed, an odd layer first": lambda: Reversed(6, odd=5),
    "reversed, an odd layer last": lambda: Reversed(6, odd=0),
}


def unit_of(model: nn.Module, folder: Path) -> tuple[str, str]:
    """model.py and backward.py of a unit whose gradients are the model's."""
    x = torch.randn(3, 7, 16)
    longhand.generate(model, (x,), out=folder, device="cpu", train=True)
    assert_same_gradients(model, folder, x, rtol=1e-4, atol=1e-5)
    return (folder / "model.py").read_text(), (folder / "backward.py").read_text()


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_the_models(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, backward = unit_of(MODELS[name](), tmp_path / "unit")
    has_records = ".append(saved)" in model
    assert "class " in backward and has_records == (
        name
        in (
            *(
                "a stack",
                "behind a sum",
                "two stacks",
                "an odd first layer",
                "an odd last layer",
                "two streams",
            ),
            *("reversed, an odd layer first", "reversed, an odd layer last"),
        )
    )


def test_every_layer_is_called_in_the_loop_or_by_its_function(tmp_path: Path) -> None:
    model, backward = unit_of(Embedded(), tmp_path / "unit")
    launch = model[model.index("def launch(") :]
    assert "saved_layers.append(saved)" in launch
    assert "norm=" not in launch, "no record is put together by hand"
    assert "layer_backward(model.layers[layer], saved.layers.pop(), " in "".join(
        backward.split("\n            ")
    )
    assert "layer.up.weight" in backward


class Early(Stack):
    """What the first layer makes is the model's result, too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.layers[0](x)
        x = first
        for layer in self.layers[1:]:
            x = layer(x)
        return torch.cat([self.norm(x), first * 2], -1)


def without_gradients(layer: int) -> Stack:
    """A stack of which one layer is not trained."""
    model = Stack(6)
    model.layers[layer].requires_grad_(False)
    return model


@pytest.mark.parametrize(
    ("make", "fields", "layers"),
    [
        (Stack, ["up_out=saved_layers[0].up_out"], "saved_layers[1:]"),
        (lambda: without_gradients(0), ["up_out=saved_layers[0].up_out"], "saved_layers[1:]"),
        (
            lambda: without_gradients(-1),
            ["up_out=saved_layers[0].up_out", "up_out=saved_layers[5].up_out"],
            "saved_layers[1:5]",
        ),
        (Early, ["up_out=saved_layers[0].up_out", "up_out=saved_layers[1].up_out"], "saved_layers[2:]"),
    ],
)
def test_the_loop_covers_layers_that_the_backward_pass_writes_out(
    make: Callable[[], nn.Module], fields: list[str], layers: str, tmp_path: Path
) -> None:
    """Their records are read field by field; the others' are what the backward pass's loop takes."""
    torch.manual_seed(0)
    model, _ = unit_of(make(), tmp_path / "unit")
    end = model[model.index("saved = StackSaved(" if make is not Early else "saved = EarlySaved(") :]
    assert all(field in end for field in fields) and f"layers={layers}" in end
    assert "ups.append(" not in model, "no list beside the records"


def test_a_layer_inside_that_is_written_out_leaves_lists(tmp_path: Path) -> None:
    """What the backward pass's loops take of one list of records is one stretch of it."""
    torch.manual_seed(0)
    model, _ = unit_of(without_gradients(3), tmp_path / "unit")
    assert "saved_layers = []" not in model and "in zip(self.layers, norms[1:], strict=True):" in model


def test_two_lists_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    model, backward = unit_of(TwoStacks(), tmp_path / "unit")
    for stack in ("encoder", "decoder"):
        assert f"saved_{stack}_layers.append(saved)" in model
        assert f"d_{stack}_layers = {{}}" in backward
    assert backward.count("class LayerSaved:") == 1


def test_lists_with_records_and_without_are_lists_of_records(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, backward = unit_of(TwoKinds(), tmp_path / "unit")
    assert ": list[LayerSaved]" in backward and ": list[DecoderLayerSaved]" in backward
    assert "one_for_each(" in model and ".append(saved)" in model


def test_a_layer_that_is_written_out_has_lists_of_classes_of_their_own(tmp_path: Path) -> None:
    """Its list is looped over: no class of the layers after it makes that."""
    torch.manual_seed(0)
    model, _ = unit_of(Stages(), tmp_path / "unit")
    assert "nn.ModuleList(Layer() for _ in range(4))" in model
    assert "for layer in range(1, len(self.stages)):" in model


def test_a_list_called_layer_is_not_the_one_layer(tmp_path: Path) -> None:
    _, backward = unit_of(Layered(), tmp_path / "unit")
    assert "saved.layers.pop(), " in backward


def test_a_record_has_fields_that_a_named_tuple_can_have(tmp_path: Path) -> None:
    _, backward = unit_of(Numbered(), tmp_path / "unit")
    assert "layer_1_weight" not in backward.split("class NumberedFunction")[0], "weights are no fields"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gradients_in_a_layer_are_named_after_what_the_layer_saved(device: str, tmp_path: Path) -> None:
    """``d_x`` is the gradient of ``saved.x``, although the layer after calls its input x, too."""
    example = gpt_train.small()
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(*example, out=tmp_path / "unit", device=device, arch=arch, train=True)
    tree = ast.parse((tmp_path / "unit" / "backward.py").read_text())
    (block,) = (
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "block_backward"
    )
    (record,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "BlockSaved")
    fields = {line.target.id for line in record.body if isinstance(line, ast.AnnAssign)}
    assert {"x", "residual"} <= fields
    assert not {f"d_{field}" for field in fields} & {argument.arg for argument in block.args.args}
    norms = [
        [ast.unparse(argument) for argument in node.args]
        for node in ast.walk(
            tree
        )  # of the parts of a block: its attention and its MLP have functions of their own
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".d_add_layer_norm")
    ]
    assert [(given[0], [word for word in given if word in ("d_x", "d_residual")]) for given in norms] == [
        ("saved.residual", ["d_residual"]),
        ("saved.x", ["d_residual", "d_x"]),
    ]


@pytest.mark.parametrize("inside", [(2, 1), (1, 2), (3, 2, 1), (2, 1, 0)])
def test_records_of_layers_outside_of_a_loop_stand_where_these_run(inside: tuple[int, ...]) -> None:
    """Of VITS's flow, which runs the last layer first, the first and the last one had each other's record."""
    buffers = {place: (f"x_{place}",) for place in range(4)}
    record = SavedLayers(
        "flows", "saved_flows", "FlowSaved", ("x",), ("",), buffers, {}, (False,), frozenset()
    )
    loop = Loop(Repeat(*[[("x",)] * len(inside)] * 4), "flows", inside, "Flow", (), (), {}, (), record=record)
    saved = [buffers[place] for place in inside]
    for _, place, made in records_apart([loop]):
        saved.insert(place, made)
    run = range(4) if inside[0] < inside[1] else reversed(range(4))
    assert saved == [buffers[place] for place in run]


class Scaled(nn.Module):
    """A layer whose own parameter is used last: a unit lists it before its layers, capture after them."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(16))
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(x))) * self.scale


class ScaledStack(Stack):
    """Layers with scales."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Scaled() for _ in range(4))


def test_gradients_in_another_order_than_the_layers_return_them() -> None:
    """ConvNeXt's training step raised: one layer's gradients were returned twice in part."""
    torch.manual_seed(0)
    model = ScaledStack()
    x = torch.randn(5, 16)
    model(x).square().sum().backward()
    expected = {name: one.grad for name, one in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    longhand.compile(model)(x).square().sum().backward()
    for name, one in model.named_parameters():
        torch.testing.assert_close(one.grad, expected[name], msg=name)
