"""The text of a record of what is saved."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import black
import torch

from longhand.emit.layers.saved_records import Record, shapes_of
from longhand.lower.ir import Buffer, BufferKind
from longhand.schedule.named_plan import ProductWord

LONG = "stage_3_block_0_aggregation_1_hidden_state"
SHAPE = "float32 (batch, hidden_state_channels, hidden_state_height, hidden_state_width)"


def test_what_is_said_of_a_field_breaks_no_line() -> None:
    record = Record("Saved", "blocks", "", (("x", "float32 (batch, dim)"), (LONG, SHAPE)))
    assert record.lines == (
        "x: torch.Tensor  # float32 (batch, dim)",
        f"# {SHAPE}",
        f"{LONG}: torch.Tensor",
    )
    text = "class Saved:\n" + "".join(f"    {line}\n" for line in record.lines)
    assert black.format_str(text, mode=black.Mode(line_length=110)) == text
    (made,) = ast.parse(text).body
    assert isinstance(made, ast.ClassDef) and len(made.body) == 2


def test_whose_it_is_fits_a_line() -> None:
    def says(*places: str) -> str:
        return Record("Saved", "", "", (), modules=places).says

    stage = "backbone.encoder.stages.2.blocks.0.layers"
    told = "backbone.encoder.stages[2].blocks[0].layers[0]"
    assert says("a", "b") == "What a and b hand to the backward pass."
    assert says(f"{stage}.0", f"{stage}.4") == f"What {told} and 1 other hand to the backward pass."
    assert says(f"{stage}.0", f"{stage}.4", f"{stage}.9").startswith(f"What {told} and 2 others hand")


def test_a_word_for_two_sizes_of_one_record_says_neither() -> None:
    def buffer(name: str, *shape: int) -> Buffer:
        return Buffer(name, BufferKind.INTERMEDIATE, torch.float32, shape, (1,) * len(shape))

    shapes = {"q": (2, 1, 32), "k": (2, 65, 32), "out": (16, 65, 4)}
    words = {
        "q": ("b", "n", "dim"),
        "k": ("b", "n", "dim"),
        "out": (ProductWord(("b", "h"), (2, 8)), "n", "head_dim"),
    }
    dims = SimpleNamespace(of=lambda node, n_dims: words[node])
    buffers = {name: buffer(name, *shape) for name, shape in shapes.items()}
    said = shapes_of([["q"], ["k"], ["out"]], buffers, dims)
    assert said == ["float32 (b, 1, dim)", "float32 (b, 65, dim)", "float32 (b * h, 65, head_dim)"]
    assert shapes_of([["k"], ["out"]], buffers, dims)[0] == "float32 (b, n, dim)"


def test_the_sizes_of_all_records_of_a_class_are_told() -> None:
    def buffer(name: str, *shape: int) -> Buffer:
        return Buffer(name, BufferKind.INTERMEDIATE, torch.float32, shape, (1,) * len(shape))

    buffers = {
        name: buffer(name, 2, n) for name, n in (("narrow", 32), ("wide", 64), ("wider", 96), ("widest", 128))
    }
    dims = SimpleNamespace(of=lambda node, n_dims: ("batch", ""))
    assert shapes_of([["wide", "narrow"]], buffers, dims) == ["float32 (batch, 32 or 64)"]
    assert shapes_of([["narrow", "wide", "wider", "widest"]], buffers, dims) == ["float32"]
