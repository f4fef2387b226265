"""Programs of one op each, from the samples of PyTorch's operator database, and what is seen of a step of one.

A program is text, so that one that fails can be read and run by itself.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.testing._internal import common_methods_invocations

from longhand.verify.original import InFloat64

# Ops that draw random numbers are wrapped into something that seeds the generator inside; here the step does that.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
op_db = common_methods_invocations.op_db
SEED = 0
_PLAIN = (bool, int, str, type(None), type(...))


class Form(enum.Enum):
    """Where the op stands."""

    ALONE = "alone"  # its arguments are the program's, its results too
    BETWEEN = "between"  # other arithmetic before and after it, which may fuse with it
    IN_PLACE = "in place"  # its variant that writes into its first argument


@dataclasses.dataclass(frozen=True)
class Program:
    """An op on one sample.

    Attributes:
        name: The op's, as in the database: ``std:unbiased``.
        number: Which of the op's samples.
        form: Where the op stands.
        text: The source of ``program(one, t0, t1, ...)``; `one` is the number 1 as a tensor.
        names: What the text needs besides.
        tensors: The arguments after `one`.
        dtype: What the op's sample is of, and `one`.
    """

    name: str
    number: int
    form: Form
    text: str
    names: dict[str, Any]
    tensors: tuple[torch.Tensor, ...]
    dtype: torch.dtype = torch.float32

    def function(self) -> Callable[..., Any]:
        """The program, compiled by Python anew."""
        names = dict(self.names)
        exec(compile(self.text, f"<string {self.name} {self.number} {self.form.value}>", "exec"), names)
        function: Callable[..., Any] = names["program"]
        return function

    def in_float64(self) -> Callable[..., Any]:
        """The program, computing in float64 whatever it is given."""
        return InFloat64(self.function())

    def arguments(self, *, train: bool, dtype: torch.dtype | None = None) -> list[torch.Tensor]:
        """Fresh arguments, `one` first; those that carry gradients as leaves.

        Args:
            train: Whether any carries gradients.
            dtype: What floats of the program's type are instead.
        """
        one = torch.ones((), dtype=self.dtype)
        given = copy.deepcopy([tensor.detach() for tensor in (one, *self.tensors)])
        if dtype is not None and self.dtype.is_floating_point:
            given = [tensor.to(dtype) if tensor.dtype is self.dtype else tensor for tensor in given]
        wanted = [self.dtype.is_floating_point, *(tensor.requires_grad for tensor in self.tensors)]
        return [tensor.requires_grad_(train and grad) for tensor, grad in zip(given, wanted, strict=True)]


def op_names(*, of_autograd: bool = False, dtype: torch.dtype = torch.float32) -> list[str]:
    """The ops of the database that take a dtype on the CPU; only those with derivatives."""
    return [
        _name(info)
        for info in op_db
        if dtype in info.supported_dtypes("cpu") and (info.supports_autograd or not of_autograd)
    ]


def programs(
    name: str, forms: Sequence[Form], seed: int = SEED, dtype: torch.dtype = torch.float32
) -> Iterator[Program]:
    """A program for each of the forms, each on another sample (while there are any), drawn by the seed."""
    info, samples = _samples(name, seed, dtype)
    numbers = list(range(len(samples)))
    random.Random(f"{seed} {name}").shuffle(numbers)
    for place, form in enumerate(forms):
        op = info.inplace_variant if form is Form.IN_PLACE else info.op
        if numbers and op is not None:
            number = numbers[place % len(numbers)]
            yield _program(name, number, form, op, samples[number], dtype)


def every_program(name: str, dtype: torch.dtype, seed: int = SEED) -> Iterator[Program]:
    """A program for each of an op's samples, in turn alone and between other arithmetic."""
    info, samples = _samples(name, seed, dtype)
    for number, sample in enumerate(samples):
        yield _program(name, number, (Form.ALONE, Form.BETWEEN)[number % 2], info.op, sample, dtype)


def _samples(name: str, seed: int, dtype: torch.dtype) -> tuple[Any, list[Any]]:
    """An op of the database, and its samples; none of an op that this version of torch has not."""
    info = next((info for info in op_db if _name(info) == name), None)
    if info is None:
        return None, []
    torch.manual_seed(seed)
    random.seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        carries = info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")
        return info, list(info.sample_inputs("cpu", dtype, requires_grad=carries))


def seen(function: Callable[..., Any], arguments: Sequence[torch.Tensor], seed: int = SEED) -> dict[str, Any]:
    """What one step leaves: results, gradients, arguments, by name; and as plain values what shares memory.

    The gradients that come back for the results are drawn by the seed, the same in every precision.
    """
    torch.default_generator.manual_seed(
        seed
    )  # that of the CPU alone: torch.manual_seed looks for every device
    step = Step(arguments, function(*arguments), seed)
    if step.carrying:
        torch.autograd.backward(step.carrying, step.weights)
    return step.seen()


class Step:
    """What a call has left: its results, and what comes back for those that carry gradients."""

    def __init__(self, arguments: Sequence[torch.Tensor], results: Any, seed: int = SEED) -> None:
        leaves = pytree.tree_leaves(results)
        self.arguments = arguments
        self.tensors = [value for value in leaves if isinstance(value, torch.Tensor)]
        self.carrying = [value for value in self.tensors if value.requires_grad]
        self._found: dict[str, Any] = {
            "results": [None if isinstance(value, torch.Tensor) else value for value in leaves],
            "carrying": [value.requires_grad for value in self.tensors],
            "shared": _shared([*arguments, *self.tensors]),
        }
        self._found |= {f"result {place}": value.detach().clone() for place, value in enumerate(self.tensors)}
        generator = torch.Generator().manual_seed(seed)
        noise = [
            torch.randn(value.shape, generator=generator).bfloat16() for value in self.carrying
        ]  # exact in all
        self.weights = [one.to(value.dtype) for one, value in zip(noise, self.carrying, strict=True)]

    def seen(self) -> dict[str, Any]:
        """All of it, by name, after the backward pass."""
        found = self._found | {f"gradient {place}": value.grad for place, value in enumerate(self.arguments)}
        return found | {
            f"argument {place} afterwards": value.detach() for place, value in enumerate(self.arguments)
        }


def seen_in_float64(program: Program, *, train: bool) -> dict[str, Any]:
    """The same of the program in float64."""
    return seen(program.in_float64(), program.arguments(train=train, dtype=torch.float64))


def _shared(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """Which of the tensors share memory, as pairs."""
    places = [
        value.untyped_storage().data_ptr() if value.layout is torch.strided and value.numel() else None
        for value in tensors
    ]
    return [
        (first, second)
        for second, place in enumerate(places)
        for first in range(second)
        if place is not None and places[first] == place
    ]


def _name(info: Any) -> str:
    return f"{info.name}:{info.variant_test_name}" if info.variant_test_name else str(info.name)


def _program(
    name: str, number: int, form: Form, op: Callable[..., Any], sample: Any, dtype: torch.dtype
) -> Program:
    tensors: list[torch.Tensor] = []
    names: dict[str, Any] = {"torch": torch, "op": op}
    factor = "" if form is Form.ALONE else " & one" if dtype is torch.bool else " * one"

    def text_of(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            is_scaled = value.dtype is dtype and not value.is_sparse
            return f"(t{len(tensors) - 1}{factor})" if is_scaled and factor else f"t{len(tensors) - 1}"
        if type(value) in _PLAIN:
            return repr(value)
        if type(value) is float:
            return repr(value) if value - value == 0 else f"float({str(value)!r})"
        if type(value) in (torch.dtype, torch.memory_format, torch.layout):
            return str(value)
        if type(value) is slice:
            return f"slice({value.start!r}, {value.stop!r}, {value.step!r})"
        if type(value) is list:
            return f"[{', '.join(map(text_of, value))}]"
        if type(value) is tuple:
            return f"({''.join(text_of(one) + ', ' for one in value)})"
        names[f"c{len(names)}"] = value
        return f"c{len(names) - 1}"

    def listed(first: str) -> str:
        named = [f"{key}={text_of(value)}" for key, value in sample.kwargs.items()]
        return ", ".join([first, *map(text_of, sample.args), *named])

    if form is Form.IN_PLACE:
        body = [f"y = {text_of(sample.input)}", f"op({listed('y')})", f"return y{factor}"]
    elif form is Form.BETWEEN:
        body = [
            f"made = op({listed(text_of(sample.input))})",
            "leaves = made if isinstance(made, (tuple, list)) else [made]",
            "return [leaf * one if leaf.is_floating_point() else leaf for leaf in leaves]",
        ]
    else:
        body = [f"return op({listed(text_of(sample.input))})"]
    given = ", ".join(["one", *(f"t{place}" for place in range(len(tensors)))])
    text = "\n    ".join([f"def program({given}):", *body]) + "\n"
    return Program(name, number, form, text, names, tuple(tensors), dtype)
