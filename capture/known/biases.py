"""An attention mask that stays is made once, in the form in which attention reads it.

Attention turns a mask of bools into a bias, 0 where a key is kept and minus infinity where it is not, in each call: two
launches a layer. And on CUDA it copies a bias whose rows do not begin at multiples of 16 elements, and no fused kernel
takes one whose keys do not lie side by side (sdp_utils' check_last_dim_stride_equals_1): a table of (query, key, head)
that is permuted, as in T5 and Swin, makes of one launch some eight. So the bias is made once, where the mask is, in the
dtype of the queries, with keys side by side and rows of a good length; the values are the very same.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch
from torch import fx

from longhand.capture.functionalize.dead_code import remove_dead_code
from longhand.capture.functionalize.view_nodes import as_it_lies
from longhand.capture.known.call import shape_of
from longhand.capture.known.deduction import facts_of
from longhand.capture.known.spelling import Emit
from longhand.capture.provenance import Provenance
from longhand.options import Device

aten = torch.ops.aten

ATTENTION = aten.scaled_dot_product_attention.default
_MASK = 3
# Memory-efficient attention wants the rows of its bias to begin at multiples of this many elements.
ALIGNMENT = 16
_SHARED_REMARK = "Once for all layers: of a mask of bools attention makes this bias in each call."
_BOOLS_REMARK = "What attention would make of a mask of bools, by kernels of its own."
_ALIGNED_REMARK = (
    f"Rows begin at multiples of {ALIGNMENT} elements, as memory-efficient attention reads a bias."
)
_ROWS_REMARK = "Keys side by side: no fused attention reads a bias that lies otherwise."


def mask_of(attention: fx.Node) -> fx.Node | None:
    """The mask that a call of attention is given."""
    given = attention.args[_MASK] if len(attention.args) > _MASK else attention.kwargs.get("attn_mask")
    return given if isinstance(given, fx.Node) else None


def mask_word(attention: fx.Node, mask: fx.Node) -> str:
    """What the user calls the mask where attention is called: the statement quoted above the call says so, too."""
    statement = Provenance.of(attention).statement
    given = re.search(r"\battn_mask=([^\W\d]\w*)\b(?!\s*[.(\[])", statement)
    if given is not None and given[1] != "None":
        return given[1]
    return Provenance.of(mask).local or "the mask"


def give_mask(attention: fx.Node, mask: fx.Node) -> None:
    """Calls attention with another mask."""
    if len(attention.args) > _MASK:
        attention.update_arg(_MASK, mask)
    else:
        attention.update_kwarg("attn_mask", mask)


def make_biases(graph: fx.Graph, emit: Emit, device: Device) -> None:
    """Rewrites the graph in place.

    Args:
        graph: Functional; each node has its fake value and its provenance.
        emit: Adds a call at the graph's insertion point.
        device: What the graph is for.
    """
    readers: dict[tuple[fx.Node, torch.dtype], list[fx.Node]] = {}
    for node in graph.nodes:
        mask = mask_of(node) if node.target is ATTENTION else None
        if mask is not None:
            query = node.args[0]
            assert isinstance(query, fx.Node)
            readers.setdefault((_narrow(mask), query.meta["val"].dtype), []).append(node)
    facts = facts_of(graph) if readers else {}
    for (mask, dtype), calls in readers.items():
        # What the caller gives as it is and one call reads stays as the user wrote it.
        if len(calls) == 1 and mask.op != "call_function":
            continue
        maker = _Maker(graph, mask, _bias_word(mask_word(calls[0], mask)), emit, is_shared=len(calls) > 1)
        bias = maker.bias(dtype) if mask.meta["val"].dtype is torch.bool else mask
        if device is Device.CUDA and mask not in facts:
            bias = maker.in_rows(maker.aligned(bias))
        if bias is not mask:
            for call in calls:
                give_mask(call, bias)
    remove_dead_code(graph)


def _narrow(mask: fx.Node) -> fx.Node:
    """The mask before it was repeated for batches, heads or queries: attention does that by itself."""
    source = mask
    while source.target is aten.expand.default and isinstance(source.args[0], fx.Node):
        if len(shape_of(source.args[0])) != len(shape_of(mask)):
            break
        source = source.args[0]
    return source if shape_of(source)[-1:] == shape_of(mask)[-1:] else mask


def _bias_word(mask: str) -> str:
    """``attention_mask`` is `attention_bias` then."""
    if not mask.isidentifier():
        return "attention_bias"
    return mask.replace("mask", "bias") if "mask" in mask else f"{mask}_bias"


@dataclasses.dataclass(frozen=True)
class _Maker:
    """Adds calls right behind a mask, in its words."""

    graph: fx.Graph
    mask: fx.Node
    word: str
    emit: Emit
    is_shared: bool

    def bias(self, dtype: torch.dtype) -> fx.Node:
        """0 where the mask is True, minus infinity where it is not."""
        made = {"dtype": dtype, "device": self.mask.meta["val"].device}
        kept = self._call(aten.full.default, [], 0.0, **made)
        dropped = self._call(aten.full.default, [], float("-inf"), **made)
        remark = _SHARED_REMARK if self.is_shared else _BOOLS_REMARK
        return self._call(aten.where.self, self.mask, kept, dropped, remark=remark)

    def aligned(self, bias: fx.Node) -> fx.Node:
        """The bias as a part of one with longer rows, where its own do not begin well."""
        count = shape_of(bias)[-1]
        if not isinstance(count, int) or count == 1 or count % ALIGNMENT == 0:
            return bias
        remark = Provenance.of(bias).remark if bias is not self.mask else ""
        padded = self._call(
            aten.constant_pad_nd.default,
            bias,
            [0, -count % ALIGNMENT],
            0.0,
            behind=bias,
            remark=remark or _ALIGNED_REMARK,
        )
        return self._call(aten.slice.Tensor, padded, -1, 0, count, behind=padded)

    def in_rows(self, bias: fx.Node) -> fx.Node:
        """The bias with its keys side by side, where they are not."""
        value = as_it_lies(bias)
        if value.shape[-1] == 1 or value.stride(-1) == 1:
            return bias
        rows = self._call(aten.clone.default, bias, memory_format=torch.contiguous_format, behind=bias)
        told: Provenance = Provenance.of(bias)
        is_made = bias is not self.mask
        rows.meta["provenance"] = dataclasses.replace(
            told, local=told.local or self.word, remark=(is_made and told.remark) or _ROWS_REMARK
        )
        return rows

    def _call(
        self,
        target: torch._ops.OpOverload,
        *args: Any,
        remark: str = "",
        behind: fx.Node | None = None,
        **made: Any,
    ) -> fx.Node:
        told: Provenance = Provenance.of(self.mask)
        with self.graph.inserting_before(_after(behind or self.mask, args)):
            node = self.emit(target, args, made)
        node.meta["provenance"] = dataclasses.replace(
            told, local=self.word if remark else None, remark=remark
        )
        return node


def _after(node: fx.Node, args: tuple[Any, ...]) -> fx.Node:
    """The first node behind a node, and behind all that a call reads."""
    last = max((node, *(arg for arg in args if isinstance(arg, fx.Node))))
    behind = last.next
    while behind.op == "placeholder":
        behind = behind.next
    return behind
