"""A loaded unit as one operator of PyTorch, where calls are traced: torch.compile, torch.export, FakeTensorMode.

A call that is not traced runs the unit's own code as before. A traced one is `longhand_units::NAME_DIGEST` with the
weights and the inputs as its arguments. Its name follows from the unit's text: a process that loads an exported
program finds the operator once it has loaded the same unit.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import re
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn

from longhand.capture.torch_tracing import n_listening, n_transforms, no_modes
from longhand.deploy.after_import import after_import
from longhand.deploy.call_literal import described, rebuilt
from longhand.deploy.random_state import n_state_bytes, random_state, set_random_state
from longhand.deploy.shape_run import (
    gradients_of_fakes,
    held,
    import_for_shapes,
    n_parameters,
    on_meta,
    put,
    reached,
    without_memory,
)
from longhand.errors import UnitError

_SCHEMA = "(Tensor[] weights, Tensor[] inputs, str call) -> Tensor[]"
_BACKWARD = "(Tensor[] weights, Tensor[] inputs, str call, Tensor state, Tensor[] d_results) -> Tensor[]"
_KNOWN: dict[str, _Operator] = {}
_LOCK = threading.Lock()
_DOOR = (
    "longhand_door"  # on what a unit exports: what load() returns in its place, one and the same each time
)


def as_operator(unit: Any, folder: Path) -> Any:
    """The unit, whose traced calls are one operator. A class stays the class that it is."""
    package = unit.__module__.rpartition(".")[0]
    if f"{package}.runtime" not in sys.modules:
        return unit
    with _LOCK:
        if not hasattr(unit, _DOOR):
            word = re.sub(
                r"\W", "_", unit.__name__, flags=re.ASCII
            )  # PyTorch's schemas know no other letters
            name = f"{word}_{_digest(folder)}"
            operator = _KNOWN.get(name)
            if operator is None:
                operator = _KNOWN[name] = _Operator(name, unit, folder)
            operator.folders[folder] = None  # one text may be in several, and any of them may be gone later
            setattr(unit, _DOOR, _behind_a_door(unit, operator))
        return getattr(unit, _DOOR)


def _behind_a_door(unit: Any, operator: _Operator) -> Any:
    if not isinstance(unit, type):
        return _door(unit, operator, is_method=False)
    unit.forward = _door(unit.forward, operator, is_method=True)  # type: ignore[attr-defined]
    unit.longhand_operator = operator.name  # type: ignore[attr-defined]
    return unit


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in (path for kind in ("*.py", "kernels/*", "*.[ch]") for path in sorted(folder.glob(kind))):
        if path.is_file():
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _door(run: Callable[..., Any], operator: _Operator, *, is_method: bool) -> Callable[..., Any]:
    """What is called in a unit's place: its own code, unless the call is traced."""
    call, unit = operator.call, run.__globals__["__name__"]

    is_impure = operator.impurity is not None

    @functools.wraps(run)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or n_listening() > 0 or any(map(_is_fake, args[is_method:])):
            if is_impure and not any(map(_is_fake, args)) and _can_run():
                return run(*args, **kwargs)
            module = args[0] if is_method else None
            if module is not None and not torch.compiler.is_dynamo_compiling():
                module.__dict__.pop(
                    _SEEN, None
                )  # export puts other dicts of parameters there, and takes them away
            weights = tuple(held(module)) if module is not None else ()
            return call(weights, args[is_method:], kwargs, module.training if module is not None else False)
        if n_transforms() > 0:
            refuse_transform(unit)
        try:
            return run(*args, **kwargs)
        except RuntimeError:
            if not (is_method and _has_fakes(args[0].__dict__.pop(_SEEN, {}))):
                raise
        return run(*args, **kwargs)

    return forward


def _has_fakes(seen: dict[str, Any]) -> bool:
    """Whether a unit's check_weights looked at fake tensors: torch.export leaves them in what a module remembers."""
    return any(_is_fake(tensor) for held_ones in seen.get("holders", ()) for tensor in held_ones.values())


def _can_run() -> bool:
    """Whether a traced call may run as it is: Dynamo breaks its graph there; other modes only look on."""
    return torch.compiler.is_dynamo_compiling() or not torch.compiler.is_compiling()


def _is_fake(value: Any) -> bool:
    return type(value).__name__ == "FakeTensor"


def refuse_transform(unit: str) -> None:
    """Says what to do where torch.func asks for what kernels do not compute."""
    raise UnitError(
        "A unit was called inside a transform of torch.func (grad, vmap, jvp), and its kernels are for plain tensors.",
        where=_caller(unit),
        hint="Transform the original model. For gradients generate the unit with --train and call backward(); "
        "instead of vmap, generate it for the batch.",
    )


def _caller(unit: str) -> str | None:
    """The line of the user's that called."""
    ours = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent))
    package = unit.rpartition(".")[0]
    frame = sys._getframe(1)
    while frame is not None:
        name, file = str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename
        if not file.startswith(ours) and not name.startswith(package) and not file.startswith("<"):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None


class _Operator:
    """A unit's operator, and its backward pass if it has one.

    Args:
        name: Of the operator.
        unit: The class or function.
        folder: Where it is.
    """

    def __init__(self, name: str, unit: Any, folder: Path) -> None:
        self.name = f"longhand_units::{name}"
        self.folders = {folder: None}
        self.unit = unit
        self.original: Any = getattr(unit, "forward", unit)
        self.package = unit.__module__.rpartition(".")[0]
        self.trains = f"{self.package}.backward" in sys.modules
        self.impurity = self._impurity()
        self._kept = False  # whether a first call left the weights and buffers as they were
        self._structures: dict[tuple[Any, ...], tuple[list[Any], Any]] = {}
        self._reaching: dict[tuple[Any, ...], list[bool]] = {}
        self._local = threading.local()
        self._op: Any = torch.library.custom_op(self.name, self._run, mutates_args=(), schema=_SCHEMA)
        self._op.register_fake(self._results_of_fakes)
        self._op.register_autograd(self._backward, setup_context=_keep)
        self._gradients: Any = torch.library.custom_op(
            f"{self.name}_backward", self._run_backward, mutates_args=(), schema=_BACKWARD
        )
        self._gradients.register_fake(gradients_of_fakes)

        def call(weights: Any, args: Any, kwargs: Any, is_training: bool) -> Any:
            return self._call(weights, args, kwargs, is_training)

        self.call = call
        after_import("torch._dynamo", lambda: torch.compiler.allow_in_graph(call))

    def _call(self, weights: Any, args: Any, kwargs: Any, is_training: bool) -> Any:
        """A traced call, as a call of the operator."""
        if self.impurity:
            raise UnitError(
                f"{self.folder} cannot be one operator where calls are traced: {self.impurity}.",
                where=_caller(self.unit.__module__),
                hint="Call it outside of what is traced; under torch.compile wrap the call in torch.compiler.disable.",
            )
        tensors: list[torch.Tensor] = []
        call = repr([bool(is_training), described(args, tensors), described(kwargs, tensors)])
        results = self._op(list(weights), tensors, call)
        leaves, spec = self._structure(list(weights), tensors, call)
        given = iter(results)
        return pytree.tree_unflatten([next(given) if leaf is _TENSOR else leaf for leaf in leaves], spec)

    def _impurity(self) -> str | None:
        """Why the unit is no pure function, which an operator must be."""
        names = vars(sys.modules[f"{self.package}.model"])
        if "check_apart" in names or "check_lists_apart" in names:
            return "it writes into its arguments"
        if self.trains and "buffer" in names:
            return "it trains, and may write into its buffers"
        return None

    @property
    def folder(self) -> Path:
        """Where its files are, of all folders in which they were found."""
        there = [folder for folder in self.folders if (folder / "model.py").is_file()]
        return next(iter(there or self.folders))

    def _on_shapes(self) -> Any:
        """What computes shapes: the function, or a module of this thread's."""
        if not hasattr(self._local, "shapes"):
            folder = self.folder
            if not (folder / "model.py").is_file():
                raise UnitError(
                    f"{folder} is gone, and a traced call asks its model.py what the results are.",
                    where=_caller(self.unit.__module__),
                    hint="Put the unit back, or load it from where it is now.",
                )
            with no_modes():
                made = import_for_shapes(
                    self.package, folder, sys.modules[f"{self.package}.runtime"], self.unit.__name__
                )
                self._local.shapes = on_meta(made) if isinstance(made, type) else made
        return self._local.shapes

    def _runner(self) -> Any:
        """What computes: the function, or a module of this thread's, which is given the weights of each call."""
        if not hasattr(self._local, "runner"):
            self._local.runner = on_meta(self.unit) if isinstance(self.unit, type) else self.original
        return self._local.runner

    def _computed(
        self, runner: Any, weights: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], call: str
    ) -> Any:
        is_training, args, kwargs = ast.literal_eval(call)
        given = iter(inputs)
        args, kwargs = rebuilt(args, given), rebuilt(kwargs, given)
        if not isinstance(runner, nn.Module):
            return runner(*args, **kwargs)
        put(runner, weights)
        runner.train(is_training)
        run = self.original if isinstance(runner, self.unit) else type(runner).forward
        return run(runner, *args, **kwargs)

    def _structure(
        self, weights: list[torch.Tensor], inputs: list[torch.Tensor], call: str
    ) -> tuple[list[Any], Any]:
        """The leaves of a call's result, of which some are tensors, and how they hang together."""
        if any(isinstance(n, torch.SymInt) for tensor in inputs for n in tensor.shape):
            with torch.no_grad():  # in the modes that are on: sizes among the leaves are theirs
                return _structure_of(self._computed(self._on_shapes(), weights, inputs, call))
        key = (call, *(tensor.shape for tensor in inputs))  # a unit may return sizes
        if key not in self._structures:
            runner = self._on_shapes()
            with no_modes(), torch.no_grad(), _private().FakeTensorMode():
                result = self._computed(
                    runner, [*map(without_memory, weights)], [*map(without_memory, inputs)], call
                )
            self._structures[key] = _structure_of(result)
        return self._structures[key]

    def _run(self, weights: list[torch.Tensor], inputs: list[torch.Tensor], call: str) -> list[torch.Tensor]:
        state = [random_state([*inputs, *weights])] if self.trains else []
        with torch.no_grad():
            held_ones, given = ([tensor.detach() for tensor in tensors] for tensors in (weights, inputs))
            buffers = [] if self._kept else held_ones[n_parameters(self._runner()) :]
            before = [tensor.clone() for tensor in buffers]
            result = self._computed(self._runner(), held_ones, given, call)
        if any(((was != now) & (was == was)).any() for was, now in zip(before, buffers, strict=True)):
            raise UnitError(
                f"{self.folder} cannot be one operator where calls are traced: it writes into its buffers.",
                hint="Call it outside of what is traced.",
            )
        self._kept = True
        return [*_apart(result, [*weights, *inputs]), *state]

    def _results_of_fakes(
        self, weights: list[torch.Tensor], inputs: list[torch.Tensor], call: str
    ) -> list[torch.Tensor]:
        with torch.no_grad():
            results = _apart(self._computed(self._on_shapes(), weights, inputs, call), [*weights, *inputs])
        n_bytes = 16 if any(tensor.is_cuda for tensor in inputs) else n_state_bytes()
        return [*results, *([torch.empty(n_bytes, dtype=torch.uint8, device="cpu")] if self.trains else [])]

    def _backward(self, ctx: Any, d_results: list[torch.Tensor | None]) -> Any:
        """The gradients, for which the forward pass is computed once more."""
        if not self.trains:
            raise UnitError(
                f"{self.folder} computes no gradients, and backward() came to it.",
                hint="Generate it with --train (train=True), or call it under torch.no_grad().",
            )
        *tensors, state = ctx.saved_tensors
        weights, inputs = tensors[: ctx.n_weights], tensors[ctx.n_weights :]
        given = [
            torch.zeros(shape, dtype=dtype, device=device) if d_result is None else d_result.contiguous()
            for d_result, (shape, dtype, device) in zip(d_results, ctx.results, strict=False)
        ]
        wanted = [*ctx.needs_input_grad[0], *ctx.needs_input_grad[1]]
        flows = tuple(d_result is not None for d_result in d_results[:-1])
        reached = self._reached(weights, inputs, ctx.call, flows)
        wanted = [is_wanted and is_reached for is_wanted, is_reached in zip(wanted, reached, strict=True)]
        grads = iter(self._gradients(weights, inputs, repr([ctx.call, [*map(int, wanted)]]), state, given))
        each = [next(grads) if is_wanted else None for is_wanted in wanted]
        return each[: ctx.n_weights], each[ctx.n_weights :], None

    def _reached(
        self, weights: list[torch.Tensor], inputs: list[torch.Tensor], call: str, flows: tuple[bool, ...]
    ) -> list[bool]:
        """Whether a gradient of these results comes to each argument: the others get none, which is no zero."""
        given = [*weights, *inputs]
        if any(isinstance(size, torch.SymInt) for tensor in given for size in tensor.shape):
            return [True] * len(given)
        key = (call, flows, *(tensor.shape for tensor in given))
        if key not in self._reaching:
            runner = self._on_shapes()
            with no_modes(), torch.enable_grad(), _private().FakeTensorMode():
                run = lambda weights, inputs: self._computed(runner, weights, inputs, call)  # noqa: E731
                self._reaching[key] = reached(run, weights, inputs, flows)
        return self._reaching[key]

    def _run_backward(
        self,
        weights: list[torch.Tensor],
        inputs: list[torch.Tensor],
        call: str,
        state: torch.Tensor,
        d_results: list[torch.Tensor],
    ) -> list[torch.Tensor]:
        call, wanted = ast.literal_eval(call)
        leaves: dict[Any, torch.Tensor] = {}  # tied weights are one
        given, asked = [], []
        for tensor, is_wanted in zip([*weights, *inputs], wanted, strict=True):
            key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
            leaf = leaves.setdefault(key, tensor.detach())
            asked += [leaf.requires_grad_()] if is_wanted else []
            given.append(leaf)
        before = random_state(given)
        with torch.enable_grad():
            set_random_state(given, state)
            result = self._computed(self._runner(), given[: len(weights)], given[len(weights) :], call)
            set_random_state(given, before)
        made = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        flowing = [(one, d) for one, d in zip(made, d_results, strict=False) if one.requires_grad]
        asked_gradients = torch.autograd.grad(
            [one for one, _ in flowing], asked, [d for _, d in flowing], allow_unused=True
        )
        told: set[int] = set()
        gradients = []
        for leaf, gradient in zip(asked, asked_gradients, strict=True):
            result = torch.empty_like(leaf, requires_grad=False)
            result.zero_() if gradient is None or id(leaf) in told else result.copy_(gradient)
            told.add(id(leaf))
            gradients.append(result)
        return gradients


def _keep(ctx: Any, inputs: Any, output: list[torch.Tensor]) -> None:
    ctx.set_materialize_grads(False)  # a result that nothing came back for is told from one of zeros
    weights, tensors, ctx.call = inputs
    ctx.n_weights = len(weights)
    ctx.results = [(one.shape, one.dtype, one.device) for one in output[:-1]]
    ctx.save_for_backward(*weights, *tensors, output[-1])


def _apart(result: Any, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors of a result, none in the memory of another or of an argument: an operator's may not be."""
    key_of = _private().storage_key
    taken = {key_of(tensor) for tensor in given}
    tensors = []
    for leaf in pytree.tree_leaves(result):
        if isinstance(leaf, torch.Tensor):
            tensor = leaf.detach()
            if key_of(tensor) in taken:
                tensor = tensor.clone()
            taken.add(key_of(tensor))
            tensors.append(tensor)
    return tensors


def _structure_of(result: Any) -> tuple[list[Any], Any]:
    leaves, spec = pytree.tree_flatten(result)
    return [_TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec


def _private() -> Any:
    """What only a traced call needs: importing it takes a quarter of a second, which loading a unit must not."""
    return importlib.import_module("longhand.capture.torch_private")


_TENSOR = object()
_SEEN = "seen weights"  # where a unit's check_weights keeps what it looked at
