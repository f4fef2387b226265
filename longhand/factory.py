"""From ``MODULE:FACTORY`` and ``--input`` on the command line to a model with example arguments."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from longhand.errors import FactoryError, OptionError
from longhand.vector_math import settle_vector_math

_INPUT = re.compile(r"(?P<name>\w+)=(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\]")
_HINT = "The factory must return (model, args) or (model, args, kwargs): see examples/attention.py."


@dataclasses.dataclass(frozen=True)
class Call:
    """A model and one call of it.

    Attributes:
        model: A module or a function.
        args: Positional arguments.
        kwargs: Keyword arguments.
    """

    model: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def resolve(spec: str, inputs: tuple[str, ...] = ()) -> Call:
    """Imports and calls what ``package.module:name`` names; the name may be dotted.

    Without `inputs` the name is a factory. With inputs (``x=float32[4,1024]``) it is a function, a module, or a
    module class that takes no arguments, and the call is made of random tensors of that description.

    Raises:
        FactoryError: It cannot be imported, raises, or returns something else.
        OptionError: An input does not read ``name=dtype[sizes]``.
    """
    settle_vector_math()
    target = _import(spec)
    if not inputs:
        with _blaming(spec, "raised", "longhand calls it without arguments."):
            made = target()
        return _checked(spec, made)
    kwargs = dict(_random_input(text) for text in inputs)
    model = target
    if inspect.isclass(target) and issubclass(target, nn.Module):
        with _blaming(
            spec, "raised", "longhand calls it without arguments. Else name a factory that makes the model."
        ):
            model = target()
    return Call(model, *_positional(model, kwargs))


def dynamic_shapes(call: Call, texts: tuple[str, ...]) -> dict[str, Any] | None:
    """``x:0`` and the like as torch.export wants them: an entry for each parameter of the call.

    Raises:
        OptionError: A text does not read ``NAME:DIM``, or there is no such dimension.
    """
    if not texts:
        return None
    names = parameter_names(call.model)[: len(call.args)] + list(call.kwargs)
    given = dict(zip(names, [*call.args, *call.kwargs.values()], strict=False))
    shapes: dict[str, Any] = dict.fromkeys(names)
    for text in texts:
        name, _, dim = text.partition(":")
        if name not in shapes or not dim.isdigit():
            raise OptionError(
                f"--dynamic {text!r} does not read NAME:DIM.", hint=f"Names: {', '.join(names)}."
            )
        n_dims = getattr(given[name], "ndim", 0)
        if int(dim) >= n_dims:
            raise OptionError(
                f"--dynamic {text!r}: {name} has {n_dims} dimensions.", hint="The first is number 0."
            )
        shapes[name] = {**(shapes[name] or {}), int(dim): torch.export.Dim.AUTO}
    return shapes


def parameter_names(model: Callable[..., Any]) -> list[str]:
    """What the function, or the module's forward, calls its parameters."""
    return list(inspect.signature(model.forward if isinstance(model, nn.Module) else model).parameters)


def _import(spec: str) -> Any:
    module_name, _, path = spec.partition(":")
    if not module_name or not path:
        raise FactoryError(
            f"{spec!r} does not read MODULE:FACTORY.", hint="For instance examples.attention:small."
        )
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    hint = "Run longhand from the folder that the module's name starts in, with what it imports installed."
    if module_name.endswith(".py"):
        hint = f"Name the module, not its file: {module_name[:-3].replace('/', '.')}:{path}."
    with _blaming(spec, "could not be imported:", hint):
        imported: Any = importlib.import_module(module_name)
    for name in path.split("."):
        if not hasattr(imported, name):
            known = ", ".join(sorted(key for key in vars(imported) if not key.startswith("_"))[:12])
            raise FactoryError(f"{module_name} has no {path!r}.", hint=f"It has: {known}." if known else None)
        imported = getattr(imported, name)
    if not callable(imported):
        raise FactoryError(f"{spec} is no function but {type(imported).__name__}.", hint=_HINT)
    return imported


@contextlib.contextmanager
def _blaming(spec: str, what: str, hint: str) -> Iterator[None]:
    """Turns whatever the user's code raises, sys.exit() too, into a FactoryError with the user's line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        own = str(Path(__file__).parent)
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith((own, "<frozen")) and "importlib" not in frame.filename
        ]
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
        words = " ".join(str(error).split()).rstrip(".")
        raise FactoryError(
            f"{spec} {what} {type(error).__name__}: {words}.", where=where, hint=hint
        ) from error


def _checked(spec: str, made: object) -> Call:
    match made:
        case (model, tuple() as args) if callable(model):
            return Call(model, args, {})
        case (model, tuple() as args, dict() as kwargs) if callable(model):
            return Call(model, args, kwargs)
        case tuple():
            kinds = ", ".join(type(item).__name__ for item in made)
            raise FactoryError(f"{spec} returned ({kinds}).", hint=_HINT)
    hint = "With --input it may be a module class or a function." if isinstance(made, nn.Module) else _HINT
    raise FactoryError(f"{spec} returned {type(made).__name__}.", hint=hint)


def _random_input(text: str) -> tuple[str, torch.Tensor]:
    match = _INPUT.fullmatch(text.strip())
    dtype = getattr(torch, match["dtype"], None) if match else None
    if match is None or not isinstance(dtype, torch.dtype):
        raise OptionError(
            f"--input {text!r} does not read name=dtype[sizes].", hint='For instance "x=float32[4,1024]".'
        )
    shape = [int(size) for size in match["shape"].split(",") if size.strip()]
    if dtype.is_floating_point or dtype.is_complex:
        return match["name"], torch.randn(shape).to(dtype)
    # Small enough to be a position in any table that the model is likely to have.
    return match["name"], torch.randint(0, 2, shape).to(dtype)


def _positional(model: Callable[..., Any], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Splits named inputs into positional arguments, as far as the signature goes, and keyword arguments."""
    signature = inspect.signature(model.forward if isinstance(model, nn.Module) else model)
    unknown = [name for name in named if name not in signature.parameters]
    if unknown:
        raise OptionError(f"The model takes no {unknown[0]!r}.", hint=f"It takes {signature}.")
    args = []
    rest = dict(named)
    for name, parameter in signature.parameters.items():
        if (
            parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            or name not in rest
        ):
            break
        args.append(rest.pop(name))
    return tuple(args), rest
