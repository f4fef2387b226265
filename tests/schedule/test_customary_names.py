"""Words of dimensions that nobody wrote out: tokens, parts of heads, what is sliced, two meanings of one letter."""

from __future__ import annotations

import torch
from torch import fx, nn

from benchmarks.readability.units import text_of
from longhand.capture.graph import Provenance
from longhand.schedule.names.dimensions.compound_names import ProductWord
from longhand.schedule.names.dimensions.customary_names import words_apart_from_heads, words_of_tokens
from longhand.schedule.names.dimensions.dimension_propagation import propagated_names
from longhand.schedule.names.dimensions.reshaped_words import reshaped
from longhand.schedule.names.dimensions.stated_sizes import word_of_end, words_of_reshape


def model_of(module: nn.Module, *args: torch.Tensor) -> str:
    """model.py of a unit for the CPU."""
    return text_of((module.eval(), args, {}), "cpu", train=False)["model.py"]


def joined(*shapes: tuple[int, ...]) -> fx.Node:
    """A cat along the second dimension."""
    graph = fx.Graph()
    pieces = [graph.placeholder(f"x{place}") for place in range(len(shapes))]
    for piece, shape in zip(pieces, shapes, strict=True):
        piece.meta["val"] = torch.empty(shape)
    made = graph.call_function(torch.ops.aten.cat.default, (pieces, 1))
    made.meta["val"] = torch.cat([piece.meta["val"] for piece in pieces], 1)
    return made


def test_vectors_put_together_are_tokens() -> None:
    words = (None, None, "dim")
    patches = ProductWord(("out_height", "out_width"), (4, 4))
    made = joined((2, 1, 8), (2, 16, 8))
    assert words_of_tokens(made, words, {"x1": ("batch", patches, "dim")})[1] == "n_tokens"
    assert words_of_tokens(made, words, {"x1": ("batch", "n_tokens", "dim")})[1] == "n_all_tokens"


def test_channels_put_together_are_no_tokens() -> None:
    made = joined((2, 3, 8), (2, 16, 8))
    for words in ((None, None, "length"), (None, None, None)):
        assert words_of_tokens(made, words, {}) == words
    assert words_of_tokens(made, (None, None, "dim"), {"x1": (None, "out_channels", "dim")})[1] is None


class OfFrames(nn.Module):
    """Attention over the pixels of each frame, in a module that calls a batch what is one of frames."""

    def __init__(self) -> None:
        super().__init__()
        self.frame = Frame()

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        batch_size, num_frames, num_pixels, dim = pixels.shape
        return self.frame(pixels.reshape(-1, num_pixels, dim)).view(batch_size, num_frames, -1)


class Frame(nn.Module):
    """Puts a vector before those of each image."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Parameter(torch.randn(8)), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch_size = x.shape[0]
        return self.norm(torch.cat([self.first.expand(batch_size, 1, -1), x], dim=1))[:, 0]


def test_a_modules_own_batch_is_the_product_that_it_is_made_of() -> None:
    """`batch_size` is 2 for the caller and 6 for the module that it calls: 6 was written as a number."""
    text = model_of(OfFrames(), torch.randn(2, 3, 16, 8))
    assert "batch_size * num_frames" in text
    assert "6" not in text.partition("def forward")[2].partition("shape=")[2].partition("\n")[2]


def test_one_letter_for_two_sizes() -> None:
    """`d` is all of a vector in one pattern and how large a head is in another; beside `w`, `h` is no head."""
    made = joined((2, 19, 48))
    known = {
        "x0": ("b", "n", "d"),
        made.name: ("b", "n", "d"),
        "q": ("b", "h", "n", "d"),
        "out": ("b", "n", ProductWord(("h", "d"), (4, 12))),
        "image": ("b", "h", "w", "d"),
    }
    q = made.graph.call_function(torch.ops.aten.exp.default, (made,))
    q.name = "q"
    q.meta["val"] = torch.empty(2, 4, 19, 12)
    found = words_apart_from_heads(made.graph, known)
    assert found == {"q": ("b", "h", "n", "head_dim"), "out": ("b", "n", "h * head_dim")}
    q.meta["val"] = torch.empty(2, 4, 19, 48)
    assert not words_apart_from_heads(made.graph, known)


def test_a_square_has_one_word_twice() -> None:
    assert reshaped((8, 19, 19), ("b * h", "n", "n"), (2, 4, 19, 1, 19))[2::2] == ("n", "n")
    assert reshaped((8, 19, 7), ("b * h", "n", "m"), (2, 4, 19, 1, 7))[2::2] == ("n", "m")


def test_the_end_of_a_slice_tells_its_word() -> None:
    assert word_of_end("x = hidden_states[:, :seq_length, :]", 1, 3) == "seq_length"
    assert word_of_end("q_rot, q_pass = q[..., :rotary_dim], q[..., rotary_dim:]", 3, 4) == "rotary_dim"
    assert word_of_end("x = hidden_states[:, :seq_length, :]", 2, 3) is None
    assert word_of_end("x = y[:, 2:n]", 1, 2) is None
    assert word_of_end("with x[:n]:", 0, 1) is None


def test_what_is_put_together_again_has_its_words() -> None:
    graph = fx.Graph()
    q = graph.placeholder("q")
    q.meta["val"] = torch.empty(2, 4, 19, 12)
    ends = [graph.call_function(torch.ops.aten.slice.Tensor, (q, 3, *ends)) for ends in ((0, 6), (6, 12))]
    for end in ends:
        end.meta["val"] = torch.empty(2, 4, 19, 6)
    made = graph.call_function(torch.ops.aten.cat.default, (ends, -1))
    made.meta["val"] = torch.empty(2, 4, 19, 12)
    known = {"q": ("batch", "n_heads", "seq", "head_dim")}
    assert propagated_names(made, known) == known["q"]


def test_a_shape_that_is_added_to(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """`x.size()[:-1] + (heads, size)`, as older models of transformers write it."""
    file = tmp_path / "attention.py"
    file.write_text(
        "class A:\n    def split_heads(self, x):\n"
        "        new_shape = x.size()[:-1] + (self.n_head, x.size(-1) // self.n_head)\n"
        "        return x.view(*new_shape)\n"
    )
    origin = Provenance("x = x.view(*new_shape)", "A.split_heads", str(file))
    assert words_of_reshape(origin, (2, 19, 4, 12)) == (None, None, "n_head", "head_dim")


class Alibi(nn.Module):
    """Scores that begin at a bias for each head; the caller may look at the weights."""

    def __init__(self, *, gives_weights: bool) -> None:
        super().__init__()
        self.gives_weights = gives_weights
        self.slopes = nn.Parameter(torch.rand(4))
        self.fused = nn.Linear(48, 144)

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        batch, seq, _ = hidden_states.shape
        num_heads, head_dim = 4, 12
        fused = self.fused(hidden_states).view(batch, seq, num_heads, 3, head_dim)
        q, k, v = (fused[..., which, :].transpose(1, 2).reshape(-1, seq, head_dim) for which in range(3))
        alibi = self.slopes[:, None, None] * torch.arange(seq)
        scores = torch.baddbmm(alibi.repeat(batch, 1, 1), q, k.transpose(1, 2))
        places = torch.arange(seq)
        mask = torch.where(places[:, None] >= places, 0.0, torch.finfo(torch.float32).min)
        weights = torch.softmax(scores + mask, dim=-1)
        return (torch.bmm(weights, v), weights)[: 1 + self.gives_weights]


def test_scores_that_begin_at_a_bias() -> None:
    """What is added has the product's words; strides of parts are so many heads; the least float has a name."""
    files = text_of((Alibi(gives_weights=True).eval(), (torch.randn(2, 19, 48),), {}), "cpu", train=False)
    body = files["model.py"].partition("batch, seq, ")[2]
    assert "19" not in body and "36" not in body and "_stride=3 * HEAD_DIM" in body
    softmax = next(text for path, text in files.items() if path.endswith(".cpp") and "is_causal" in text)
    assert "constexpr float LEAST_FLOAT = -3.4028235e+38f;  // of float32" in softmax
    assert "arange" not in softmax.partition("#include")[0] or "mask" in softmax.partition("#include")[0]
    assert body.count("self.slopes[:, None, None] *") <= 1


def test_a_mask_is_as_large_as_the_scores() -> None:
    """As attention is called with it: its dimensions are those of queries and keys, also if these are as many."""
    files = text_of((Alibi(gives_weights=False).eval(), (torch.randn(2, 19, 48),), {}), "cpu", train=False)
    body = files["model.py"].partition("batch, seq, ")[2]
    assert "F.scaled_dot_product_attention(" in body and "(batch * NUM_HEADS, 1, seq, seq)" in body
    assert "19" not in body and "36" not in body and "n_cols=seq" in body


class Boxes(nn.Module):
    """Whose argument has a last dimension of another size than its table, and that pools by a square layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(11, 24), nn.Linear(24, 24)
        self.norm = nn.LayerNorm(24)

    def forward(self, ids: torch.Tensor, boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.norm(self.table(ids))
        return torch.tanh(self.out(x)[:, 0]) * 2.0, boxes.mean(-1)


def test_a_table_beside_an_argument_of_another_size() -> None:
    text = model_of(Boxes(), torch.randint(0, 11, (2, 5)), torch.randn(2, 5, 7))
    assert "boxes  float32 (batch, seq, dim=7)" in text
    assert "EMBEDDING_DIM = 24" in text and "n_cols=EMBEDDING_DIM" in text
    assert "out_dim" not in text.lower()  # as wide as what it reads


class Heads(nn.Module):
    """A square layer that makes heads: what it reads are none."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.out = nn.Linear(24, 24), nn.Linear(24, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.out(torch.tanh(self.q(x))))


def test_only_a_square_layer_makes_what_it_reads() -> None:
    text = model_of(Heads(), torch.randn(2, 5, 24))
    assert "24" not in text.partition("def forward")[2].partition("batch")[2].replace("24)", "")
    assert "out_dim" in text.lower() or "numel()" in text
