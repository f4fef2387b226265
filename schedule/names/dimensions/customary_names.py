"""The words of dimensions that nobody wrote, by what they are customarily: of tables, and of tokens put together."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

from longhand.capture.graph import CapturedGraph, InputKind, Provenance
from longhand.schedule.names.dimensions.compound_names import ProductWord, Words, parts_of
from longhand.schedule.names.dimensions.dimension_propagation import RESHAPES, shape_of
from longhand.schedule.names.dimensions.stated_sizes import HEADS as N_HEADS
from longhand.schedule.names.operation_names import aten_name
from longhand.schedule.names.words import identifier

_ALONG = ("length", "samples", "n_frames", "seq", "width")  # what channels lie before, and not tokens
_LETTER, _HEAD_DIM = "d", "head_dim"
_HEADS = frozenset({"h", "heads", "n_heads", "num_heads"})
_FEATURES = "dim"
OF_IMAGES = frozenset({"w", "height", "width"})  # beside these ``h`` is a height


def words_of_every_table(graph: CapturedGraph, arguments: Mapping[str, Words]) -> dict[str, Words]:
    """Words for all tables; where an argument has another size for ``dim``, theirs is that of ``nn.Embedding``."""
    tables = {**words_of_sliced_tables(graph), **words_of_tables(graph)}
    nodes = {node.name: node for node in graph.graph.nodes}
    sizes = {
        str(size)
        for name, words in arguments.items()
        if name in nodes
        for size, word in zip(shape_of(nodes[name]), words, strict=False)
        if word == _FEATURES
    }
    return {
        name: (rows, _FEATURES if sizes <= {str(shape_of(nodes[name])[-1])} else "embedding_dim")
        for name, (rows, _) in tables.items()
    }


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
            words.setdefault(table.name, (rows, _FEATURES))
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
            words[table.name] = ("max_positions", _FEATURES)
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


def words_of_heads(node: fx.Node, words: Words) -> Words:
    """The words; features that are taken apart, the first part then brought before the tokens, are those of heads."""
    given, shape = (node.all_input_nodes or [node])[0], shape_of(node)
    is_split = aten_name(node) in RESHAPES and list(map(str, shape[:-2])) == list(
        map(str, shape_of(given)[:-1])
    )
    if not is_split or len(shape) != 4 or words[-2:] != (None, None) or not node.users:
        return words
    return (*words[:-2], N_HEADS, _HEAD_DIM) if all(map(_brings_heads_forward, node.users)) else words


def _brings_heads_forward(node: fx.Node) -> bool:
    """Whether a value is (batch, heads, tokens, features of a head), of one that has the heads behind the tokens."""
    match aten_name(node), node.args[1:]:
        case "transpose", (int(one), int(other)):
            return {one % 4, other % 4} == {1, 2}
        case "permute", (order, *_):
            dims = order if isinstance(order, list | tuple) else []
            return [dim % 4 for dim in dims if isinstance(dim, int)][:2] == [0, 2]
    return False


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


def makes_features(node: fx.Node) -> bool:
    """Whether a value's last dimension is its own: what a linear layer makes, or one of the parts of that."""
    source = node.args[0] if aten_name(node) == "getitem" else None
    is_part = (
        isinstance(source, fx.Node) and aten_name(source).startswith("split") and len(shape_of(node)) > 1
    )
    return is_part or aten_name(node) in ("linear", "addmm")


def word_of_square(node: fx.Node, known: Mapping[str, Words]) -> str | None:
    """The word of what a linear layer reads, if it makes as much of it; of heads the layer makes something else."""
    if aten_name(node) != "linear":
        return None
    given, weight = node.all_input_nodes[:2]
    words = known.get(given.name, ())
    is_square = len({str(size) for size in shape_of(weight)}) == 1
    if not words or not is_square or isinstance(words[-1], ProductWord):
        return None
    return words[-1] if words[-1] and words[-1].isidentifier() and "head" not in words[-1] else None


def dim_of_made(node: fx.Node, word: str) -> str:
    """``mlp_dim``, of what a layer makes; ``mlp_out_dim`` of what one makes further on in that Sequential."""
    place = Provenance.of(node).module.rpartition(".")[2]
    return f"{word}_out_dim" if place.isdigit() and int(place) and not word[-1:].isdigit() else f"{word}_dim"
