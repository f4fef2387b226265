"""Products that are summands of one gradient become one sum, each added where its total lies.

A value that several linear layers read (queries, keys and values; gate and up) has the sum of as many products as its
gradient. ``d_x = d_q @ W_q; d_x.addmm_(d_k, W_k)`` is how a person writes it: one tensor instead of one for each
product, and whoever reads the sum reads one. The bytes that are moved are the same. Products are rounded as eager
rounds them: it adds the gradients one by one, too.

Only products that one module's call makes: a value that every layer reads (an encoder's result) has a total through
all of them, which the first layer would begin and the others go on with, and so no two layers would be equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import fx

from longhand.capture.autograd.sums.trees import outermost_sums, summands, sums_inside
from longhand.capture.graph import GradientPart, Provenance

aten = torch.ops.aten


@dataclasses.dataclass(frozen=True)
class _Summand:
    """A summand that is a product which nothing else reads.

    Attributes:
        node: The summand: the product, or a view of it.
        product: The product, a matrix.
    """

    node: fx.Node
    product: fx.Node


def add_products(graph: fx.Graph) -> None:
    """Rewrites every sum of this kind, in place; nodes that are sums stay the nodes they are.

    Args:
        graph: A joint graph, with fake values in ``meta["val"]``.
    """
    order = {node: number for number, node in enumerate(graph.nodes)}
    for node in outermost_sums(graph):
        if not Provenance.of(node).is_of_gradient:
            continue  # the user's own
        terms = summands(node)
        products = [one for term in terms if (one := _product(term)) is not None]
        for group in _groups(products):
            group.sort(key=lambda one: order[one.product])
            _add(graph, node, group)


def _product(node: fx.Node) -> _Summand | None:
    product = node
    if node.target is aten.reshape.default and isinstance(node.args[0], fx.Node):
        product = node.args[0]
    if product.target is not aten.mm.default or len(product.users) > 1 or len(node.users) > 1:
        return None
    return _Summand(node, product)


def _groups(products: Sequence[_Summand]) -> list[list[_Summand]]:
    """Those of one module's call, where they are several, seen as matrices of one shape."""
    made_in = [Provenance.of(one.product) for one in products]
    groups: dict[tuple[object, ...], list[_Summand]] = {}
    for one, origin in zip(products, made_in, strict=True):
        is_alone = sum(other.module == origin.module for other in made_in) == 1
        place = _caller(origin) if is_alone else origin.module
        groups.setdefault((place, tuple(one.product.meta["val"].shape)), []).append(one)
    return [group for group in groups.values() if len(group) > 1]


def _caller(origin: Provenance) -> str:
    """The module whose own attribute a layer is; the layer itself where it stands in a list."""
    callers = [path for path, _ in origin.around if path != origin.module]
    caller = callers[-1] if callers else ""
    name = origin.module.removeprefix(f"{caller}.") if caller else origin.module
    return origin.module if "." in name or not name else caller


def _add(graph: fx.Graph, node: fx.Node, group: Sequence[_Summand]) -> None:
    """Makes the products one sum, each at its place, which is a summand of the node where the last product was."""
    total = group[0].product
    for one in group[1:]:
        factors = one.product.args
        with graph.inserting_before(one.product):
            added = graph.call_function(aten.addmm.default, (total, *factors))
        added.meta = dict(one.product.meta)
        total = added
    last = group[-1]
    is_all = len(group) == len(summands(node))
    _name(total, node if is_all else last.node, group)
    whole = total
    if last.node is not last.product:
        with graph.inserting_before(last.node):
            whole = graph.call_function(aten.reshape.default, (total, *last.node.args[1:]))
        whole.meta = dict(last.node.meta)
        _name(whole, node if is_all else last.node, group)
    _sum_up(graph, node, group, whole)


def _name(total: fx.Node, like: fx.Node, group: Sequence[_Summand]) -> None:
    """The sum is the gradient itself, or a summand of it that is their module's."""
    before = Provenance.of(total)
    told = Provenance.of(like)
    is_whole = told.part is GradientPart.WHOLE
    total.meta["word"] = like.meta.get("word", like.name)
    caller = _caller(before)
    around = tuple(one for one in before.around if len(one[0]) <= len(caller))
    total.meta["provenance"] = dataclasses.replace(
        before,
        local=told.local if is_whole else None,
        gradient_of=told.gradient_of,
        part=told.part,
        module=around[-1][0] if around else before.module,
        module_class=around[-1][1] if around else before.module_class,
        around=around or before.around,
    )


def _sum_up(graph: fx.Graph, node: fx.Node, group: Sequence[_Summand], whole: fx.Node) -> None:
    """The node adds up the other summands and the sum of the products."""
    taken = {one.node for one in group}
    rest = [term for term in summands(node) if term not in taken]
    inside = sums_inside(node)
    first = rest[0] if rest else whole
    with graph.inserting_before(node):
        for term in rest[1:]:
            made = graph.call_function(aten.add.Tensor, (first, term))
            made.meta = dict(node.meta) | {"val": node.meta["val"]}
            first = made
    if rest:
        node.args = (first, whole)
    else:
        node.target, node.args = aten.reshape.default, (whole, list(node.meta["val"].shape))
    replaced = [*(one.node for one in group), *(one.product for one in group[1:])]
    for done in dict.fromkeys([*inside, *replaced]):
        if not done.users:
            graph.erase_node(done)
