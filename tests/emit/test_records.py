"""The text of a record of what is saved."""

from __future__ import annotations

import ast

import black

from longhand.emit.layers.saved_records import Record

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
