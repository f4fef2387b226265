"""What a graph may not have of what depends on data: numbers, branches' checks, in training any size.

`capture.data_sizes` says what becomes of the sizes that it may have.
"""

from __future__ import annotations

import operator

import sympy
import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private
from longhand.capture.data_sizes import READS, depends_on_data
from longhand.capture.provenance import user_frames
from longhand.errors import CaptureError

aten = torch.ops.aten

_CHECKS = ("_assert_scalar", "_functional_assert_scalar")


def refuse_data_dependence(node: fx.Node, *, may_have_sizes: bool) -> None:
    """Refuses a traced node that the graph may not have.

    Args:
        may_have_sizes: Whether its tensors may have sizes that depend on the data.

    Raises:
        CaptureError: It yields a number that depends on the data, or a size where there may be none; or the code
            checks one, and a graph checks nothing.
    """
    if _checks_data(node) or _is_settled(node):
        raise CaptureError(
            "The code requires something of a size or number that depends on the data.",
            where=place(node),
            hint="Take the part out that follows from the check, or pass the size as a plain number.",
        )
    if not depends_on_data(node.meta.get("val")) or (may_have_sizes and _is_of_sizes(node)):
        return
    raise CaptureError(
        f"`{node.target}` yields a size or number that depends on the data.",
        where=place(node),
        hint="Take it out of the compiled part, or use torch.where instead of indexing by a mask.",
    )


def _is_of_sizes(node: fx.Node) -> bool:
    """Whether it makes only tensors, a number of sizes that tensors have, or one that the call just returns."""
    leaves = pytree.tree_leaves(node.meta.get("val"))
    if all(isinstance(leaf, torch.Tensor) or not depends_on_data(leaf) for leaf in leaves):
        return True
    if node.target in READS or not isinstance(node.meta["val"], torch.SymInt):
        return _is_only_told(node, may_be_returned=node.target in READS)
    is_arithmetic = not isinstance(node.target, torch._ops.OpOverload) or node.target is aten.sym_size.int
    return is_arithmetic and all(user.op != "output" for user in node.users)


def _is_only_told(node: fx.Node, *, may_be_returned: bool) -> bool:
    """Whether a number goes into nothing but checks, or out of the graph."""
    for user in node.users:
        if user.op == "output":
            if not may_be_returned:
                return False
        elif not _is_check(user) and (
            isinstance(user.target, torch._ops.OpOverload) or not _is_only_told(user, may_be_returned=False)
        ):
            return False
    return True


def _is_settled(node: fx.Node) -> bool:
    """Whether a size that the node makes was taken for a number, or for another size: by a check, or to broadcast."""
    made = node.meta.get("unbacked_bindings")
    leaves = pytree.tree_leaves(node.meta.get("val"))
    numbers = [leaf for leaf in leaves if isinstance(leaf, torch.SymInt | torch.SymFloat | torch.SymBool)]
    sizes = [size for leaf in leaves if isinstance(leaf, torch.Tensor) for size in leaf.shape]
    known = [torch_private.symbolic_expression(one) for one in (*numbers, *sizes) if not isinstance(one, int)]
    return any(not any(symbol in one.free_symbols for one in known) for symbol in made or ())


def _is_check(node: fx.Node) -> bool:
    return getattr(node.target, "__name__", "").partition(".")[0] in _CHECKS


def _checks_data(node: fx.Node) -> bool:
    """Whether a call raises by what depends on data, other than by how many there can be at least and at most."""
    if not _is_check(node) or not isinstance(node.args[0], fx.Node) or _is_of_truth(node.args[0]):
        return False
    value = node.args[0].meta.get("val")
    condition = torch_private.symbolic_expression(value)
    if condition == sympy.true:  # of a size that the check itself made a number
        return True
    return depends_on_data(value) and not _always_holds(condition, node)


def _is_of_truth(condition: fx.Node) -> bool:
    """Whether a condition says that a truth value is 0 or 1."""
    if condition.target not in (operator.ge, operator.le):
        return False
    value, bound = condition.args
    is_truth = isinstance(value, fx.Node) and value.target is torch.sym_ite and value.args[1:] == (1, 0)
    return is_truth and bound == (0 if condition.target is operator.ge else 1)


def _always_holds(condition: sympy.Basic, node: fx.Node) -> bool:
    """Whether a condition says only what the op that made a size promises."""
    if not isinstance(condition, sympy.Ge | sympy.Le):
        return False
    size, bound = condition.lhs, condition.rhs
    if not size.is_Symbol or not bound.is_Integer:
        return False
    if isinstance(condition, sympy.Ge):
        return bool(bound <= 0)
    made = (one for one in node.graph.nodes if size in (one.meta.get("unbacked_bindings") or ()))
    most = next(map(_most_elements, made), None)
    return most is not None and bool(bound >= most)


def _most_elements(node: fx.Node) -> int | None:
    """How many positions a call can yield: as many as its mask has, or what it looks for them in."""
    given = [one.meta.get("val") for one in node.all_input_nodes]
    tensors = [value for value in given if isinstance(value, torch.Tensor) and not depends_on_data(value)]
    if node.target is aten.index.Tensor:
        tensors = [value for value in tensors if value.dtype in (torch.bool, torch.uint8)]
    sizes = [int(value.numel()) for value in tensors if all(isinstance(size, int) for size in value.shape)]
    if not sizes:
        return None
    return min(sizes) if node.target is aten.index.Tensor else max(sizes)


def place(node: fx.Node) -> str | None:
    """The user's ``file:line`` of a traced node."""
    frames = user_frames(node.meta.get("stack_trace") or "")
    return f"{frames[-1].file}:{frames[-1].statement.line}" if frames else None
