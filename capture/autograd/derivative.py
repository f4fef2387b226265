"""The derivative of one op, as a graph: torch's own autograd traced on fake tensors, once for each kind of call.

What is traced computes the op and, from the gradients of its results, the gradients of its arguments. Its calls fall in
two: those that follow from the arguments alone (what the backward pass wants to know about the forward), and those
that need a gradient.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from longhand.capture import torch_private
from longhand.capture.autograd.eager_derivative import differentiable_twin
from longhand.capture.functionalize.decompositions import decomposition_table
from longhand.capture.trace_isolation import isolated_saves
from longhand.capture.traced_on_zeros import sizes_were_of_zeros
from longhand.options import Device

# Ops whose derivative has a name: several operations that together are one thing.
NAMED = frozenset(
    [
        "layer_norm",
        "native_layer_norm",
        "rms_norm",
        "group_norm",
        "batch_norm",
        "_native_batch_norm_legit_functional",
        "softmax",
        "log_softmax",
        "gelu",
        "silu",
        "relu",
        "elu",
        "selu",
        "celu",
        "mish",
        "leaky_relu",
        "softplus",
        "hardswish",
        "sigmoid",
        "tanh",
        "glu",
        "cross_entropy_loss",
        "nll_loss",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "logsumexp",
        "var",
        "std",
        "var_mean",
        "linalg_vector_norm",
        "dropout",
    ]
)


@dataclasses.dataclass(frozen=True, eq=False)
class Derivative:
    """One op's forward and backward as one graph.

    Attributes:
        module: Placeholders: the call's tensors, then the gradients of its chosen results. The output is (the list of
            results, the list of gradients, None where there is none).
        after: Nodes that need a gradient.
        n_tensors: How many of the placeholders are the call's tensors.
    """

    module: fx.GraphModule
    after: frozenset[fx.Node]
    n_tensors: int


# Vectors that are known up to a complex factor: autograd looks whether the loss depends on it.
_LOOKING = frozenset(["aten::_linalg_eigh", "aten::linalg_eigh", "aten::_linalg_svd", "aten::linalg_svd"])


class NotDifferentiable(Exception):
    """torch has no derivative for an op that gradients must flow through."""


class OnlyAutograd(NotDifferentiable):
    """Autograd finds the derivative of an op when it runs, and no trace of it is right."""


class DerivativeLooksAtData(OnlyAutograd):
    """The derivative takes another course, or other sizes, for other data."""


class Derivatives:
    """Traces derivatives, each kind of call once.

    Args:
        fake_mode: The mode of the fake values that calls are described by. All of them are on the CPU.
        device: Where the derivative will run: what torch does for the CPU alone must not be in it.
    """

    def __init__(self, fake_mode: torch_private.FakeTensorMode, device: Device) -> None:
        self._fake_mode = fake_mode
        self._device = device
        self._known: dict[Any, Derivative] = {}

    def of(
        self,
        target: torch._ops.OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        wanted: tuple[int, ...],
        given: tuple[int, ...],
    ) -> Derivative:
        """The derivative of one call.

        Args:
            target: The op.
            args: Its arguments, tensors as fakes.
            kwargs: Likewise.
            wanted: Which of the tensors among the arguments (flattened) a gradient is wanted for.
            given: Which results a gradient is given for.

        Raises:
            DerivativeLooksAtData: It cannot be traced.
            NotDifferentiable: There is none.
        """
        target = differentiable_twin(target)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        key = (target, str(spec), tuple(map(_signature, leaves)), wanted, given)
        if key not in self._known:
            try:
                self._known[key] = self._trace(target, leaves, spec, wanted, given)
            except torch_private.LOOKS_AT_DATA as error:
                raise DerivativeLooksAtData(str(error)) from None
        return self._known[key]

    def _trace(
        self,
        target: torch._ops.OpOverload,
        leaves: list[Any],
        spec: Any,
        wanted: tuple[int, ...],
        given: tuple[int, ...],
    ) -> Derivative:
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors = [leaves[place] for place in places]

        def call(*values: Any) -> list[Any]:
            filled = list(leaves)
            for place, value in zip(places, values, strict=True):
                filled[place] = value
            args, kwargs = pytree.tree_unflatten(filled, spec)
            made = target(*args, **kwargs)
            return list(made) if isinstance(made, list | tuple) else [made]

        def run(*values: Any) -> tuple[list[Any], list[Any]]:
            inputs = [value.detach() for value in values[: len(tensors)]]
            for place in wanted:
                inputs[place].requires_grad_()
            with torch.enable_grad():
                results = call(*inputs)
            chosen = [results[place] for place in given]
            if not all(result.requires_grad for result in chosen):
                raise NotDifferentiable(f"{target} has no derivative")
            gradients = torch.autograd.grad(
                chosen, [inputs[place] for place in wanted], values[len(tensors) :], allow_unused=True
            )
            if any(gradient is not None and gradient.layout is not torch.strided for gradient in gradients):
                raise NotDifferentiable(f"{target} has a sparse gradient")
            return results, list(gradients)

        # Anomaly detection would look for NaN in values that there are none of.
        name = target._schema.name
        is_complex = any(one.is_complex() for one in tensors)
        if name == "aten::linalg_eig" or (name in _LOOKING and is_complex):
            raise OnlyAutograd(
                f"the derivative of {target} raises where the values of a gradient are unsound"
            )
        with (
            self._fake_mode,
            isolated_saves(),
            torch.autograd.set_detect_anomaly(False),
            _for_any_device(self._device, target),
        ):
            values = [self._alike(tensor) for tensor in tensors]
            with torch.no_grad():
                results = call(*values)
            values += [self._alike(results[place]) for place in given]
            module = torch_private.make_fx(run, decomposition_table=_IMPLICIT)(*values)
            if _writes(module):
                # A write is no argument of what reads it: what needs what would not be seen.
                with torch.no_grad():
                    module = torch_private.make_fx(torch.func.functionalize(module, remove="mutations"))(
                        *values
                    )
                if _writes(module):
                    raise OnlyAutograd(f"the derivative of {target} writes in a way that cannot be followed")
        if any(_depends_on_data(node) or sizes_were_of_zeros(node) for node in module.graph.nodes):
            raise DerivativeLooksAtData(f"a size or number in the derivative of {target} depends on the data")
        inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
        after: set[fx.Node] = set(inputs[len(tensors) :])
        for node in module.graph.nodes:
            if any(source in after for source in node.all_input_nodes):
                after.add(node)
        return Derivative(module, frozenset(after), len(tensors))

    def _alike(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")


@contextlib.contextmanager
def _for_any_device(device: Device, target: torch._ops.OpOverload) -> Iterator[None]:
    """While inside, ops that pick a kernel by device are made of smaller ones, unless they are for the CPU.

    Attention would be the flash kernel for CPUs, and an LSTM oneDNN's: that one is no good for the CPU either, since
    its backward reads a workspace which is kept while grad mode is on, as it is in no unit.
    """
    if device is Device.CPU and target._schema.name != "aten::lstm":
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # torch 2.13 warns of a flag for Intel's GPUs, which stays what it was
        with sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False):
            yield


def _depends_on_data(node: fx.Node) -> bool:
    for value in pytree.tree_leaves(node.meta.get("val")):
        sizes = tuple(value.shape) if isinstance(value, torch.Tensor) else (value,)
        for size in sizes:
            is_symbolic = isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool)
            if is_symbolic and torch_private.free_unbacked_symbols(size):
                return True
    return False


def _writes(module: fx.GraphModule) -> bool:
    return any(
        isinstance(node.target, torch._ops.OpOverload) and bool(torch_private.writes(node.target))
        for node in module.graph.nodes
    )


# Ops that autograd sees as one although nobody wants their derivative so: none at present.
_IMPLICIT: dict[Any, Any] = {
    op: function for op, function in decomposition_table().items() if op in (torch.ops.aten.unbind.int,)
}


def _signature(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return ("tensor", str(tuple(leaf.shape)), str(leaf.stride()), leaf.dtype)
    return (type(leaf), str(leaf))
