"""Which callables are leaves: torch functions that become one node, and plain objects that are known by identity."""

from __future__ import annotations

import numbers
import re
import types
from typing import Any

import torch
import torch.nn.functional

from longhand.capture.torch_allowed import is_allowed_in_graph

__all__ = ["is_constant_object", "is_numpy_scalar", "is_torch_leaf"]

_BUILTIN = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.GetSetDescriptorType,
    types.ClassMethodDescriptorType,
)
_ALIASES = (types.GenericAlias, types.UnionType)
_MODULES = frozenset(
    [
        "torch",
        "torch.functional",
        "torch.nn.functional",
        "torch._tensor",
        "torch._C._nn",
        "torch._C._VariableFunctions",
        "torch._C._linalg",
        "torch._C._fft",
        "torch._C._special",
        "torch.fft",
        "torch.linalg",
        "torch.special",
        "torch._jit_internal",
    ]
)
# Not computations on tensors, or not safe to record.
_NO_LEAF = frozenset(
    [
        "save",
        "load",
        "compile",
        "manual_seed",
        "seed",
        "initial_seed",
        "get_rng_state",
        "set_rng_state",
        "set_default_dtype",
        "set_default_device",
        "set_default_tensor_type",
        "set_num_threads",
        "use_deterministic_algorithms",
        "is_tensor",
        "is_storage",
        "set_grad_enabled",
        "is_grad_enabled",
        "is_inference_mode_enabled",
        "get_default_dtype",
        "get_default_device",
        "are_deterministic_algorithms_enabled",
        "is_autocast_enabled",
        "set_printoptions",
        "cond",
        "vmap",
        "get_autocast_dtype",
        "is_floating_point",
        "is_complex",
        "from_numpy",
        "get_num_threads",
        "is_nonzero",
        "equal",
        "allclose",
        "set_autocast_enabled",
        "is_warn_always_enabled",
        "_assert",
        "typename",
    ]
)


_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.FunctionType,
)


def is_torch_leaf(value: Any) -> bool:
    """Whether a callable is a torch function that goes into the graph whole."""
    if isinstance(value, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return True
    # Nothing is asked of any other object: a __getattr__ of the user's own may count the questions.
    if not isinstance(value, _FUNCTIONS) or (name := value.__name__) in _NO_LEAF:
        return False
    if isinstance(value, types.BuiltinFunctionType):
        owner = value.__self__
        if isinstance(owner, type) and owner.__module__ == "torch._C":
            return True
        return value.__module__ in _MODULES or (
            isinstance(owner, types.ModuleType) and owner.__name__ in _MODULES
        )
    if isinstance(value, types.MethodDescriptorType | types.WrapperDescriptorType):
        return issubclass(torch.Tensor, value.__objclass__) and value.__objclass__ is not object
    if isinstance(value, types.FunctionType):
        is_of_torch = value.__module__ in _MODULES and not name.startswith("is_")
        return is_of_torch or is_allowed_in_graph(value)
    return False


def is_numpy_scalar(value: Any) -> bool:
    """A number or truth value of numpy's own, which is immutable. numpy need not be there."""
    kind = type(value)
    return kind.__module__ == "numpy" and (
        isinstance(value, numbers.Number) or kind.__name__ in ("bool", "bool_")
    )


def is_constant_object(value: Any) -> bool:
    """Classes, modules, compiled patterns and built-in functions: known by identity."""
    if isinstance(value, type | types.ModuleType | re.Pattern):
        return True
    if isinstance(value, types.BuiltinFunctionType):
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType | type):
            return True
        # pybind11 binds its functions to an object of its own.
        return type(owner).__name__ == "PyCapsule" or type(owner).__module__ == "pybind11_builtins"
    return isinstance(value, (_BUILTIN, _ALIASES)) or type(value).__module__ == "typing"
