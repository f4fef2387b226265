"""Dimensions that meet in an operation have one word, in both directions; a shape that has a name tells its words."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import torch
from torch import fx, nn
from torch.nn import functional as F

from benchmarks.readability.units import text_of
from longhand.capture.graph import Provenance
from longhand.schedule.names.backward_names import _flattened
from longhand.schedule.names.dimensions.compound_names import ProductWord, Words
from longhand.schedule.names.dimensions.dimension_names import DimNamer
from longhand.schedule.names.dimensions.met_dimensions import learned, words_met
from longhand.schedule.names.dimensions.reshaped_words import reshaped
from longhand.schedule.names.dimensions.stated_sizes import word_of_split, words_of_reshape

SOURCE = """
class Attention:
    def forward(self, hidden_states):
        input_shape = hidden_states.shape[:-1]
        hidden_shape = (*input_shape, -1, self.head_dim)
        other = (1, 2)
        other = (2, 1)
        query_states = self.q_proj(hidden_states).view(hidden_shape)
"""


@pytest.fixture
def origin(tmp_path: Path) -> Provenance:
    file = tmp_path / "attention.py"
    file.write_text(SOURCE)
    return Provenance("q = self.q(x).view(hidden_shape)", "Attention.forward", str(file))


def test_a_shape_that_has_a_name_is_looked_up(origin: Provenance) -> None:
    assert words_of_reshape(origin, (2, 19, 4, 12)) == (None, None, "n_heads", "head_dim")


def test_a_name_that_is_assigned_twice_tells_nothing(origin: Provenance) -> None:
    twice = Provenance("y = x.view(other)", origin.qualname, origin.file)
    assert words_of_reshape(twice, (1, 2)) == (None, None)


def test_a_split_into_sizes_has_a_word_for_each_part() -> None:
    statement = "kv, k_rot = torch.split(compressed, [self.kv_lora_rank, self.rope_dim], dim=-1)"
    assert [word_of_split(statement, piece) for piece in (0, 1)] == ["kv_lora_rank", "rope_dim"]


def _nodes(op: object, *shapes: tuple[int, ...]) -> tuple[fx.Node, list[fx.Node]]:
    graph = fx.Graph()
    given = []
    for place, shape in enumerate(shapes):
        node = graph.placeholder(f"x{place}")
        node.meta["val"] = torch.empty(shape)
        given.append(node)
    made = graph.call_function(op, tuple(given))  # type: ignore[arg-type]
    made.meta["val"] = op(*(node.meta["val"] for node in given))  # type: ignore[operator]
    return made, given


def test_a_table_of_cosines_is_as_long_as_what_it_is_multiplied_with() -> None:
    made, (q, cos) = _nodes(torch.ops.aten.mul.Tensor, (2, 4, 19, 12), (1, 1, 19, 12))
    words: dict[str, Words] = {q.name: ("batch", "n_heads", "seq", "head_dim"), cos.name: (None,) * 4}
    words[made.name] = words[q.name]
    found = dict(words_met(made, words))
    assert found[cos.name] == (None, None, "seq", "head_dim")


def test_equal_numbers_that_do_not_meet_have_no_word() -> None:
    """What indices are looked up in has as many columns as the result, and no more rows than it likes."""
    made, (table, rows) = _nodes(torch.ops.aten.linear.default, (19, 19), (19, 19))
    assert dict(words_met(made, {made.name: ("seq", "dim")})) == {table.name: ("seq", None)}
    assert rows.name not in dict(words_met(made, {made.name: ("seq", "dim")}))


def test_no_word_stands_for_two_dimensions() -> None:
    assert learned((None, "seq"), ("seq", None)) == (None, "seq")
    assert learned((None, "seq"), ("batch", None)) == ("batch", "seq")


def test_dimensions_of_one_element_come_and_go() -> None:
    assert reshaped((2, 1, 19, 128), ("batch", None, "seq", None), (2, 19, 4, 32)) == (
        "batch",
        "seq",
        None,
        None,
    )


def test_dimensions_that_become_one_remember_how_long_each_was() -> None:
    word = reshaped((2, 19, 4, 12), ("batch", "seq", "n_heads", "head_dim"), (2, 19, 48))[2]
    assert isinstance(word, ProductWord) and word.sizes == (4, 12)


class SharedKeys(nn.Module):
    """Attention of four heads of queries over two of keys, as transformers writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.head_dim = 8
        self.q_proj, self.k_proj = nn.Linear(32, 32), nn.Linear(32, 16)

    def forward(self, hidden_states: torch.Tensor, cos: torch.Tensor) -> torch.Tensor:
        hidden_shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2) * cos.exp()
        key = (self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2) * cos.exp()).relu()
        key = key.repeat_interleave(2, dim=1)
        return F.scaled_dot_product_attention(query, key, key)


def test_keys_of_fewer_heads_have_a_word_of_their_own() -> None:
    model = text_of(
        (SharedKeys(), (torch.randn(2, 19, 32), torch.randn(1, 1, 19, 8)), {}), "cpu", train=False
    )["model.py"]
    assert "n_heads" in model and "n_kv_heads" in model
    assert "19" not in model.partition("def forward")[2].partition("batch")[2]


class Translator(nn.Module):
    """Two sequences of tokens, of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Embedding(50, 16)

    def forward(self, input_ids: torch.Tensor, decoder_input_ids: torch.Tensor) -> torch.Tensor:
        return (self.shared(input_ids) * 2).mean(1) + (self.shared(decoder_input_ids) * 2).sin().mean(1)


def test_a_second_sequence_is_called_after_its_argument() -> None:
    given = torch.randint(50, (2, 19)), torch.randint(50, (2, 7))
    model = text_of((Translator(), given, {}), "cpu", train=False)["model.py"]
    assert "decoder_input_ids  int64 (batch, decoder_seq=7)" in model


class Listener(nn.Module):
    """Whisper's beginning: a signal of channels, which becomes a sequence of features."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(6, 10, 3)
        self.norm = nn.LayerNorm(10)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        return self.norm(F.gelu(self.first(sound * 2.0)).permute(0, 2, 1))


def test_what_a_convolution_over_a_line_reads_has_channels_and_a_length() -> None:
    """They were called seq and dim, and after the permutation the other way round: out_dim positions of out_seq."""
    text = text_of((Listener().eval(), (torch.randn(2, 6, 20),), {}), "cpu", train=False)["model.py"]
    assert "sound  float32 (batch=2, channels=6, length=20)" in text
    assert "out_seq" not in text and "out_dim" not in text


def test_two_pairs_of_dimensions_that_become_one_each_have_two_words() -> None:
    words = reshaped((2, 19, 4, 512), ("batch", "seq", "n_heads", "head_dim"), (38, 2048))
    assert words == ("batch * seq", "n_heads * head_dim")
    assert reshaped((2, 3, 4), ("a", "b", "c"), (8, 3)) == (None, None)


def test_what_is_computed_again_as_rows_has_the_words_of_its_dimensions() -> None:
    """It was new_empty(38, 2048)."""

    class Known:
        def of(self, node: str, n_dims: int) -> tuple[str | None, ...]:
            return ("batch", "seq", "n_heads", "head_dim")

    node = torch.fx.Graph().placeholder("x")
    node.meta["val"] = torch.empty(2, 19, 4, 512)
    rows, cols = _flattened(node, torch.empty(38, 2048), cast(DimNamer, Known()))
    assert (rows, cols) == ("batch * seq", "n_heads * head_dim")
    # One function is written for layers of several sizes: how long each is here is no part of the word.
    assert isinstance(rows, ProductWord) and not rows.sizes
