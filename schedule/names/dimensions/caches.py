"""Words for caches of keys and values: what the attention that reads them says of their dimensions."""

from __future__ import annotations

from torch import fx

from longhand.capture.graph import CapturedGraph
from longhand.schedule.names.dimensions.compound_names import Words
from longhand.schedule.names.dimensions.dimension_propagation import shape_of
from longhand.schedule.names.dimensions.stated_sizes import FEWER_HEADS, HEADS
from longhand.schedule.names.operation_names import aten_name

_WRITES = frozenset(
    {"index_put", "_unsafe_index_put", "index_copy", "scatter", "slice_scatter", "select_scatter", "copy"}
)
_STACKED = "layers"
_LENGTH = "cache_len"


def words_of_caches(graph: CapturedGraph) -> dict[str, Words]:
    """Words for the tensors of a call that attention reads keys and values from, and for stacks of them."""
    given = {entry.node for entry in graph.inputs if entry.is_given}
    written = graph.written
    words: dict[str, Words] = {}
    for node in graph.graph.nodes:
        if node.op != "call_function" or aten_name(node) != "scaled_dot_product_attention":
            continue
        queries = shape_of(node.all_input_nodes[0])
        for place in (1, 2):
            cache = node.args[place] if place < len(node.args) else None
            while isinstance(cache, fx.Node) and cache.op == "call_function" and aten_name(cache) in _WRITES:
                cache = cache.args[0]
            if isinstance(cache, fx.Node) and cache.name in given & written and len(shape_of(cache)) == 4:
                is_one_for_each = str(shape_of(cache)[1]) == str(queries[1])
                heads = HEADS if is_one_for_each else FEWER_HEADS
                words.setdefault(cache.name, ("batch", heads, _LENGTH, "head_dim"))
    for entry in graph.inputs:
        if entry.part is not None and entry.node in words:
            words.setdefault(entry.part[0], (_STACKED, *words[entry.node]))
    return words
