"""A function or module behind longhand's own capture (``frontend="bytecode"``)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from longhand.backend import GraphReport, longhand_backend
from longhand.capture.bytecode.entries import Capture, Event, EventKind
from longhand.logs import Subject, logger

_SUBJECTS = {
    EventKind.BREAK: Subject.GRAPH_BREAKS,
    EventKind.SKIP: Subject.GRAPH_BREAKS,
    EventKind.RECOMPILE: Subject.RECOMPILES,
    EventKind.GRAPH: Subject.GUARDS,
}


class FromBytecode:
    """Calls run captured; everything else is the original's: attributes, parameters, state_dict.

    Args:
        original: A module, a function or a class instance with ``__call__``.
        mode: As in torch.compile.
        fullgraph: The first graph break is an error.
        dynamic: As in torch.compile.
        options: As in longhand.compile.
        report: Is told what became of each graph.
        listener: Is told what capture meets; by default the logs are.
    """

    def __init__(
        self,
        original: Callable[..., Any],
        *,
        mode: str,
        fullgraph: bool,
        dynamic: bool | None,
        options: Mapping[str, Any] | None,
        report: Callable[[GraphReport], None] | None = None,
        listener: Callable[[Event], None] | None = None,
    ) -> None:
        self._original = original
        self._settings = {"mode": mode, "fullgraph": fullgraph, "dynamic": dynamic, "options": options}
        backend = functools.partial(longhand_backend, mode=mode, options=options, report=report)
        self._capture = Capture(backend, fullgraph=fullgraph, dynamic=dynamic, listener=listener or log_event)
        if not isinstance(original, type) and hasattr(original, "__name__"):
            functools.update_wrapper(self, original, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._capture.call(self._original, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("_original", "_capture", "_settings"):
            raise AttributeError(name)  # while it is being unpickled
        return getattr(self._original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_original", "_capture", "_settings") or name.startswith("__"):
            object.__setattr__(self, name, value)
        else:
            setattr(self._original, name, value)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a decorator of methods: bound like the function it stands for."""
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._original, self._settings)


def _again(original: Callable[..., Any], settings: dict[str, Any]) -> FromBytecode:
    return FromBytecode(original, **settings)


def log_event(event: Event) -> None:
    """Tells LONGHAND_LOGS=graph_breaks,recompiles,guards."""
    logger(_SUBJECTS[event.kind]).info("%s", event.text)
    for guard in event.guards:
        logger(Subject.GUARDS).info("    %s", guard)
