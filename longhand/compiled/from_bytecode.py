"""A function, module or class behind longhand's own capture (``frontend="bytecode"``)."""

from __future__ import annotations

import copy
import functools
import inspect
import types
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from longhand.capture import torch_private, torch_transforms
from longhand.capture.bytecode.entry.breaks import BreakRecord
from longhand.capture.bytecode.entry.entries import Capture, Event, EventKind
from longhand.capture.bytecode.hook import frame_hook, is_available
from longhand.capture.bytecode.skips import GENERATED, reason_to_skip
from longhand.compiled.backend import GraphReport, is_strict, longhand_backend
from longhand.compiled.loops_around import tell_of_loop
from longhand.errors import CaptureError
from longhand.options import Frontend
from longhand.telling.logs import Subject, logger
from longhand.telling.tally import frame_in_eager
from longhand.telling.tracebacks import hide_own_frames

__all__ = ["CompiledFunction", "CompiledModule", "captured", "default_frontend", "log_event"]

_SUBJECTS = {
    EventKind.BREAK: Subject.GRAPH_BREAKS,
    EventKind.SKIP: Subject.GRAPH_BREAKS,
    EventKind.RECOMPILE: Subject.RECOMPILES,
    EventKind.GRAPH: Subject.GUARDS,
    EventKind.EAGER: Subject.EAGER,
}


def default_frontend(original: Any) -> Frontend:
    """What captures a callable unless the user says: our own capture, where its hook is built.

    It does not look into torch.optim, whose code asks torch's Dynamo for more than Python says, nor into the
    transforms of torch.func (grad, vmap and their like); Dynamo does.
    """
    owner = getattr(original, "__self__", None)
    is_step = isinstance(owner, torch.optim.Optimizer) and getattr(original, "__name__", "") == "step"
    is_for_dynamo = is_step or torch_transforms.is_transformed(original)
    return Frontend.BYTECODE if is_available() and not is_for_dynamo else Frontend.DYNAMO


def captured(
    original: Any,
    *,
    mode: str = "default",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
    report: Callable[[GraphReport], None] | None = None,
    listener: Callable[[Event], None] | None = None,
) -> Any:
    """What `original` is, with calls that run captured.

    A module becomes a module with the same state, a class the same class whose instances' calls run captured, any
    other callable a function.

    Args:
        original: A module, a class or a callable.
        mode: As in torch.compile.
        fullgraph: The first graph break is an error.
        dynamic: As in torch.compile.
        options: As in longhand.compile.
        report: Is told what became of each graph.
        listener: Is told what capture meets; by default the logs are.
    """
    _make_callable()
    _tell_generated_code(original, listener or log_event, strict=is_strict(options))
    settings = {"mode": mode, "fullgraph": fullgraph, "dynamic": dynamic, "options": options}
    if isinstance(original, type):
        call = CompiledFunction(original.__call__, settings, report, listener)
        setattr(original, "__call__", call)  # noqa: B010
        return original
    if isinstance(original, nn.Module):
        return _module_class(type(original))(original, settings, report, listener)
    return CompiledFunction(original, settings, report, listener)


def _tell_generated_code(original: Any, tell: Callable[[Event], None], *, strict: bool) -> None:
    """What was made of text that is in no file, and is no session's, stays CPython's: that must not be silent."""
    entry = getattr(original, "forward", None) if isinstance(original, nn.Module) else original
    code = getattr(entry, "__code__", None)  # also a bound method's
    if isinstance(code, types.CodeType) and reason_to_skip(code) == GENERATED:
        where = f"{code.co_filename}:{code.co_firstlineno}"
        hint = "Name its text <string ...> where it is compiled to code, or write it to a file."
        if strict:
            raise CaptureError(
                f"{code.co_qualname} is {GENERATED}, which runs in eager.", where=where, hint=hint
            )
        record = BreakRecord(
            f"{code.co_qualname} is {GENERATED}, which runs in eager", where, hint, skipped=True
        )
        tell(Event(EventKind.SKIP, f"{where}: {record.reason}", record))


def _capture(
    settings: Mapping[str, Any],
    report: Callable[[GraphReport], None] | None,
    listener: Callable[[Event], None] | None,
) -> Capture:
    backend = functools.partial(
        longhand_backend, mode=settings["mode"], options=settings["options"], report=report
    )
    return Capture(
        backend,
        fullgraph=settings["fullgraph"],
        dynamic=settings["dynamic"],
        listener=listener or log_event,
        strict=is_strict(settings["options"]),
    )


class CompiledFunction:
    """A callable whose calls run captured; everything else is the original's.

    As a class attribute it binds like the function it stands for.

    Args:
        original: The callable.
        settings: What `captured` was given.
        report: See `captured`.
        listener: See `captured`.
    """

    _tidy = staticmethod(hide_own_frames)
    _set_dynamo = staticmethod(torch_private.set_dynamo)
    if TYPE_CHECKING:

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(
        self,
        original: Callable[..., Any],
        settings: Mapping[str, Any],
        report: Callable[[GraphReport], None] | None = None,
        listener: Callable[[Event], None] | None = None,
    ) -> None:
        self._original = original
        self._settings = settings
        self._asked = _capture(settings, report, listener).asked
        functools.update_wrapper(self, original, updated=())

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "_original":
            raise AttributeError(name)  # while it is being unpickled
        return getattr(self._original, name)

    def __repr__(self) -> str:
        return f"longhand.compile({self._original!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._original, dict(self._settings))


def _again(original: Any, settings: dict[str, Any]) -> Any:
    return captured(original, **settings)


_OWN = frozenset(
    [
        "_original",
        "_settings",
        "_asked",
        "_tidy",
        "_set_dynamo",
        "__call__",
        "__reduce__",
        "__reduce_ex__",
        "__deepcopy__",
        "__copy__",
    ]
)


class CompiledModule(nn.Module):
    """A module whose calls run captured, with the original's state: it *is* the original in everything but the call.

    Attributes, parameters, hooks, ``state_dict``, ``train``, ``to`` and all the original's own methods are the
    original's; what is set here is set there.

    Args:
        original: The module.
        settings: What `captured` was given.
        report: See `captured`.
        listener: See `captured`.
    """

    _tidy = staticmethod(hide_own_frames)
    _set_dynamo = staticmethod(torch_private.set_dynamo)

    def __init__(
        self,
        original: nn.Module,
        settings: Mapping[str, Any],
        report: Callable[[GraphReport], None] | None = None,
        listener: Callable[[Event], None] | None = None,
    ) -> None:
        object.__setattr__(self, "_original", original)
        object.__setattr__(self, "_settings", settings)
        object.__setattr__(self, "_asked", _capture(settings, report, listener).asked)

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN:
            return object.__getattribute__(self, name)
        original = object.__getattribute__(self, "_original")
        attribute = getattr(original, name)
        tell_of_loop(original, attribute)
        return attribute

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._original, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._original, name)

    def __eq__(self, other: object) -> bool:
        """Who keeps a table by module, as fully_shard does, finds the original's entry."""
        return self._original is (other._original if isinstance(other, CompiledModule) else other)

    def __hash__(self) -> int:
        return hash(self._original)

    def __repr__(self) -> str:
        return f"longhand.compile({self._original!r})"

    def __dir__(self) -> list[str]:
        return dir(self._original)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _again, (self._original, dict(self._settings))

    def __copy__(self) -> Any:
        return _again(copy.copy(self._original), dict(self._settings))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _again(copy.deepcopy(self._original, memo), dict(self._settings))


_MODULE_CLASSES: weakref.WeakKeyDictionary[type, type[CompiledModule]] = weakref.WeakKeyDictionary()


def _module_class(kind: type) -> type[CompiledModule]:
    """CompiledModule with what Python looks up on classes, such as ``__len__`` and ``__getitem__`` of Sequential."""
    if kind not in _MODULE_CLASSES:
        _MODULE_CLASSES[kind] = _make_module_class(kind)
    return _MODULE_CLASSES[kind]


def _make_module_class(kind: type) -> type[CompiledModule]:

    def delegate(name: str) -> Callable[..., Any]:
        return lambda self, *args: getattr(self._original, name)(*args)

    names = {
        name
        for name, value in inspect.getmembers(kind)
        if name.startswith("__") and inspect.isroutine(value) and not hasattr(nn.Module, name)
    }
    return type("CompiledModule", (CompiledModule,), {name: delegate(name) for name in sorted(names)})


@functools.cache
def _make_callable() -> None:
    """Gives both classes their ``__call__``: the hook's, which is C and so in no traceback.

    Raises:
        CaptureError: The hook was not built.
    """
    for kind in (CompiledFunction, CompiledModule):
        setattr(kind, "__call__", frame_hook().call)  # noqa: B010


def log_event(event: Event) -> None:
    """Tells LONGHAND_LOGS=graph_breaks,recompiles,guards,eager."""
    if event.kind is EventKind.EAGER:
        frame_in_eager(event.text)
    logger(_SUBJECTS[event.kind]).info("%s", event.text)
    for guard in event.guards:
        logger(Subject.GUARDS).info("    %s", guard)
