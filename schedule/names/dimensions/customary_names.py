"""The words of dimensions that nobody wrote, by what they are customarily: of tables, and of tokens put together."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

from longhand.capture.graph import CapturedGraph, InputKind, Provenance
from longhand.schedule.names.dimensions.compound_names import ProductWord, Words, parts_of
from longhand.schedule.names.dimensions.dimension_propagation import shape_of
from longhand.schedule.names.operation_names import aten_name
from longhand.schedule.names.words import identifier

_ALONG = ("length", "samples", "n_frames", "seq", "width")  # what channels lie before, and not tokens
_LETTER, _HEAD_DIM = "d", "head_dim"
_HEADS = frozenset({"h", "heads", "n_heads", "num_heads"})
OF_IMAGES = frozenset({"w", "height", "width"})  # beside these ``h`` is a height


def words_of_tables(graph: CapturedGraph) -> dict[str, Words]:
    """Words for the tables of embeddings; one that the call's own tokens are looked up in has a vocabulary."""
    arguments = {entry.node for entry in graph.inputs if entry.kind is InputKind.ARGUMENT}
    words: dict[str, Words] = {}
    for node in graph.graph.nodes:
        if node.op != "call_function" or aten_name(node) != "embedding":
            continue
        table, positions = node.args[:2]
        if isinstance(table, fx.Node) and table.op == "placeholder" and table.name not in arguments:
            rows = "vocab_size" if getattr(positions, "name", "") in arguments else None
            words.setdefault(table.name, (rows, "dim"))
    return words


def words_of_sliced_tables(graph: CapturedGraph) -> dict[str, Words]:
    """Words for the tables of positions that a call reads from the start: they have rows for longer ones, too."""
    owners = {entry.node: entry.target.rpartition(".")[0] for entry in graph.inputs}
    words: dict[str, Words] = {}
    for node in graph.graph.nodes:
        table = node.args[0] if node.op == "call_function" and aten_name(node) == "slice" else None
        owner = owners.get(table.name) if isinstance(table, fx.Node) and table.op == "placeholder" else None
        origin: Provenance = Provenance.of(node)
        is_longer = isinstance(table, fx.Node) and str(shape_of(table)[:1]) != str(shape_of(node)[:1])
        if owner and owner == origin.module and "pos" in owner.rpartition(".")[2] and is_longer:
            assert isinstance(table, fx.Node)
            words[table.name] = ("max_positions", "dim")
    return words


def words_of_tokens(node: fx.Node, words: Words, known: Mapping[str, Words]) -> Words:
    """The words; what joins vectors, such as patches of an image and what stands for its class, makes tokens."""
    if aten_name(node) != "cat" or len(words) != 3 or words[1] is not None or words[2] in (None, *_ALONG):
        return words
    joined = {known.get(piece.name, (None,) * 3)[1] or "" for piece in node.all_input_nodes}
    if (*node.args[1:], 0)[0] not in (1, -2) or any("channel" in word for word in joined):
        return words
    are_tokens = any(word and not isinstance(word, ProductWord) for word in joined)
    return (words[0], "n_all_tokens" if are_tokens else "n_tokens", words[2])


def words_apart_from_heads(graph: fx.Graph, known: Mapping[str, Words]) -> dict[str, Words]:
    """Values with other words, where ``d`` is how large a head is and somewhere else how large all of them are.

    Patterns call both so: ``"b n (h d) -> b h n d"`` takes apart what another had as ``"b n d"``.
    """
    sizes = {
        str(size)
        for node in graph.nodes
        for word, size in zip(known.get(node.name, ()), shape_of(node), strict=False)
        if word == _LETTER
    }
    if len(sizes) < 2:
        return {}
    return {
        name: tuple(map(_of_a_head, words))
        for name, words in known.items()
        if (parts := {part for word in words for part in parts_of(word)}) & _HEADS and not parts & OF_IMAGES
    }


def _of_a_head(word: str | None) -> str | None:
    if isinstance(word, ProductWord):
        return ProductWord([_HEAD_DIM if part == _LETTER else part for part in word.of], word.sizes)
    return _HEAD_DIM if word == _LETTER else word


def of_another_sequence(argument: str, word: str) -> str | None:
    """``decoder_seq``: of ``decoder_input_ids``, where ``seq`` is as long as something else."""
    first, _, rest = identifier(argument).partition("_")
    return f"{first}_{word}" if word == "seq" and first and rest else None
