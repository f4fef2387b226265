"""What a graph may not have of what depends on data: numbers, branches' checks, in training any size.

`capture.data_sizes` says what becomes of the sizes that it may have.
"""

from __future__ import annotations

import operator
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private, whole_calls
from longhand.capture.data_sizes import READS, depends_on_data
from longhand.capture.provenance import user_frames
from longhand.capture.traced_on_zeros import sizes_were_of_zeros
from longhand.errors import CaptureError

aten = torch.ops.aten

_CHECKS = ("_assert_scalar", "_functional_assert_scalar")


def refuse_data_dependence(node: fx.Node, *, may_have_sizes: bool) -> None:
    """Refuses a traced node that the graph may not have.

    Args:
        may_have_sizes: Whether its tensors may have sizes that depend on the data.

    Raises:
        CaptureError: It is sparse; it yields a number that depends on the data, or a size where there may be none;
            or the code checks one, and a graph checks nothing.
    """
    if any(isinstance(one, torch.Tensor) and one.layout is not torch.strided for one in _leaves(node)):
        raise CaptureError(
            f"`{node.target}` gives a sparse tensor, which a graph has no form for.",
            where=place(node),
            hint="Make it sparse outside, from the dense tensor that the call returns.",
        )
    if sizes_were_of_zeros(node):
        raise CaptureError(
            f"`{node.target}` gives a tensor of a size that depends on the data.",
            where=place(node),
            hint="Take it out of the compiled part.",
        )
    if _checks_data(node) or _is_settled(node):
        raise CaptureError(
            "The code requires something of a size or number that depends on the data.",
            where=place(node),
            hint="Take the part out that follows from the check, or pass the size as a plain number.",
        )
    if not depends_on_data(node.meta.get("val")) or (may_have_sizes and _is_of_sizes(node)):
        return
    raise CaptureError(
        f"`{whole_calls.original(node.target) or node.target}` yields a size or number that depends on the data.",
        where=place(node),
        hint="Take it out of the compiled part, or use torch.where instead of indexing by a mask.",
    )


def _leaves(node: fx.Node) -> list[Any]:
    return pytree.tree_leaves(node.meta.get("val"))


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
    least_or_most = 0 if condition.target is operator.ge else 1
    return is_truth and isinstance(bound, int) and bound == least_or_most


def _always_holds(condition: sympy.Basic, node: fx.Node) -> bool:
    """Whether a condition says only what the op that made a size promises of it: the least and the most it can be."""
    if not isinstance(condition, sympy.Ge | sympy.Le):
        return False
    size, bound = condition.lhs, condition.rhs
    if not size.is_Symbol or not bound.is_Integer:
        return False
    made = (one for one in node.graph.nodes if size in (one.meta.get("unbacked_bindings") or ()))
    promise = next((_promise(one, size) for one in made), None)
    if promise is None:
        return False
    return bool(bound <= promise[0] if isinstance(condition, sympy.Ge) else bound >= promise[1])


def _promise(node: fx.Node, size: sympy.Symbol) -> tuple[Any, Any] | None:
    """The least and the most that a size can be which a call makes, by the call alone; None if that is not known.

    What the code requires of it later has narrowed the symbol's own range: the call is made again, of tensors that
    nobody has required anything of.
    """
    environment = torch_private.ShapeEnv(allow_dynamic_output_shape_ops=True)

    def fresh(value: Any) -> Any:
        value = value.meta.get("val") if isinstance(value, fx.Node) else value
        if not isinstance(value, torch.Tensor):
            return value
        shape, stride = map(int, value.shape), map(int, value.stride())
        return torch.empty_strided(tuple(shape), tuple(stride), dtype=value.dtype, device=value.device)

    sources = [one.meta.get("val") for one in node.all_input_nodes]
    if not all(isinstance(one, torch.Tensor) and not _is_symbolic(one) for one in sources):
        return None
    with torch_private.FakeTensorMode(shape_env=environment), torch.no_grad():
        args, kwargs = fx.node.map_aggregate((node.args, node.kwargs), fresh)
        made: Any = node.target(*args, **kwargs)  # type: ignore[operator]
    for key in node.meta["unbacked_bindings"][size]:
        made = key.get(made)
    symbol = torch_private.symbolic_expression(made) if isinstance(made, torch.SymInt) else None
    return torch_private.symbol_range(environment, symbol) if symbol in environment.var_to_range else None


def _is_symbolic(tensor: torch.Tensor) -> bool:
    return not all(isinstance(size, int) for size in (*tensor.shape, *tensor.stride()))


def place(node: fx.Node) -> str | None:
    """The user's ``file:line`` of a traced node."""
    frames = user_frames(node.meta.get("stack_trace") or "")
    return f"{frames[-1].file}:{frames[-1].statement.line}" if frames else None
