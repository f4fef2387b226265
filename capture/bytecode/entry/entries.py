"""What the frame hook runs for a user's code: compiled entries, newest first, each behind its guards."""

from __future__ import annotations

import inspect
import linecache
import types
import warnings
import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from torch import fx, nn

from longhand.capture.bytecode.entry.breaks import BreakRecord
from longhand.capture.bytecode.entry.captured import Captured
from longhand.capture.bytecode.entry.capturing import capture_frame, flat_parameters, reason_to_wait
from longhand.capture.bytecode.entry.compiling import compiling
from longhand.capture.bytecode.entry.events import Event, EventKind
from longhand.capture.bytecode.entry.resume import is_continuation
from longhand.capture.bytecode.entry.shapes import DynamicSizes
from longhand.capture.bytecode.hook import frame_hook
from longhand.capture.bytecode.skips import is_closed, reason_to_skip
from longhand.errors import CaptureError, EagerWarning

__all__ = ["Backend", "Capture", "Event", "EventKind", "forget_all"]

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]
_MOST_ENTRIES = 8
# Of the modules that share a code: a function that breaks calls its layers one by one, and each has entries of its own.
_MOST_MODULES = 8
# A call that does nothing with tensors tells little of the next ones: after each, twice as many wait for another look.
_MOST_LOOKS = 6


class CodeEntries:
    """The entries of one code object.

    Args:
        owner: The capture that they belong to.
        code: The user's code.
    """

    def __init__(self, owner: Capture, code: CodeType) -> None:
        self.owner = owner
        self.code = code
        self.sizes = DynamicSizes(owner.dynamic)
        self.entries: list[Callable[..., Any]] = []
        self.captured: list[Captured] = []
        self.modules: list[weakref.ref[nn.Module] | None] = []  # whose call each entry was made for
        self.is_full = False  # no more is compiled
        self.n_looks = self.n_waiting = 0  # for a call that does something with tensors; calls until the next
        self.given_up = ""  # why this code and all that it calls run in eager for good
        n = len(flat_parameters(code))
        flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        self.eager_code = code.replace(
            co_argcount=n, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags
        )
        frame_hook().mark(self.eager_code, frame_hook().SKIP)

    def eager(self, function: Any, *args: Any) -> Any:
        """The call as CPython runs it."""
        plain = types.FunctionType(
            self.eager_code, function.__globals__, function.__name__, None, function.__closure__
        )
        return plain(*args)

    def waiting(self, function: Any, *args: Any) -> Any:
        """A call of what has done nothing with tensors so far, as CPython runs it."""
        self.n_waiting -= 1
        if self.n_waiting <= 0:
            frame_hook().mark(self.code, self.miss)
        return self.eager(function, *args)

    def uncaptured(self, function: Any, *args: Any) -> Any:
        """The call with the hook off, for it and for all that it calls."""
        hook = frame_hook()
        paused = hook.pause()
        try:
            return self.eager(function, *args)
        finally:
            hook.resume(paused)

    def failed(self, raised: str, function: Any, *args: Any) -> Any:
        """The graph raised, and wrote nothing: eager's effects and exception, which the code itself may handle.

        Where eager does not raise it either, the graph is not tried again.
        """
        result = self.eager(function, *args)
        if self.owner.strict:
            raise CaptureError(f"{self.title()}: the graph raised {raised}, which eager does not.")
        self._give_up(f"its graph raised {raised}, which eager does not; LONGHAND_STRICT=1 raises instead")
        self.entries, self.modules = [], []
        frame_hook().mark(self.code, self.miss)
        return result

    def _give_up(self, reason: str) -> None:
        if not self.given_up:
            self.given_up = f"{self.title()}: {reason}"
            text = f"longhand: {self.title()} and what it calls run in eager from now on: {reason}."
            warnings.warn(text, EagerWarning, stacklevel=3)

    def miss(self, function: Any, *args: Any) -> Any:
        """No entry fits: capture anew, or run in CPython. Another capture's calls go to its own entries."""
        hook = frame_hook()
        paused = hook.pause()
        if paused is not self.owner.asked:
            try:  # with the hook off: an audit hook in Python, say, would be captured while entries are made
                run = _newest(paused, self.code, self.eager)
            finally:
                hook.resume(paused)
            return run(function, *args)
        if reason := self.given_up or reason_to_wait(args):
            try:
                self.owner.tell_eager(self, reason)
                return self.eager(function, *args)
            finally:
                hook.resume(paused)
        if self.is_full:
            hook.resume(paused)
            return self.eager(function, *args)
        n_before = len(self.entries)
        try:
            with compiling.lock:
                # Meanwhile another thread may have compiled just this: its entry's guards decide.
                entry = self.entries[-1] if len(self.entries) > n_before else self._compile(function, args)
        finally:
            hook.resume(paused)
        if entry is None and self.given_up:
            return self.uncaptured(function, *args)
        return (entry or self.eager)(function, *args)

    def _compile(self, function: Any, args: tuple[Any, ...]) -> Callable[..., Any] | None:
        owner, hook = self.owner, frame_hook()
        if self.captured:
            owner.tell(Event(EventKind.RECOMPILE, f"{self.title()}: {self._first_failure(function, args)}"))
        if self._has_most(args):
            if all(one.does_nothing for one in self.captured):  # CPython is as fast, whatever changes
                self._skip()
                return None
            if owner.strict:
                raise CaptureError(
                    f"{self.title()} was compiled {len(self.entries)} times, and this call needs another.",
                    hint="What changes from call to call is told with LONGHAND_LOGS=recompiles.",
                )
            self.given_up = f"{self.title()} was compiled {len(self.entries)} times"
            warnings.warn(
                f"longhand: {self.given_up}; other calls run in eager. What changes from call to call is told with "
                "LONGHAND_LOGS=recompiles.",
                EagerWarning,
                stacklevel=2,
            )
            return None
        names = flat_parameters(self.code)
        older = self.entries[-1] if self.entries else self.miss
        captured = capture_frame(
            function,
            self.code,
            names,
            args,
            self.sizes,
            owner.backend,
            older,
            self.failed,
            owner.asked,
            keeps_empty=owner.begins_with(self) or bool(self.entries),
        )
        for record in captured.breaks:
            if not captured.does_nothing or owner.begins_with(self):  # else nothing is lost
                owner.tell_break(record)
        if captured.failure:
            owner.tell_failure(f"{self.title()} runs in eager: {captured.failure}")
        if captured.entry is None:
            if owner.strict and not captured.failure and (owner.begins_with(self) or captured.is_skipped):
                owner.refuse_left(self, captured.breaks)
            if captured.leaves_calls:
                self._leave_calls(captured.breaks[-1])
                return None
            if not captured.failure and captured.breaks and owner.begins_with(self):
                owner.tell_left(f"{self.title()} runs in eager: {captured.breaks[-1].reason}")
            if not captured.breaks and not captured.failure and self._looks_again():
                return None
            if not self.entries:
                self._skip()
            self.is_full = True
            return None
        if captured.n_ops:
            owner.tell(
                Event(EventKind.GRAPH, f"{self.title()}: {captured.n_ops} ops", guards=captured.guards)
            )
        self.entries.append(captured.entry)
        self.captured.append(captured)
        module = _module_of(self.code, args)
        self.modules.append(None if module is None else weakref.ref(module))
        hook.mark(self.code, captured.entry)
        _MARKED.append(self.code)
        return captured.entry

    def _leave_calls(self, record: BreakRecord) -> None:
        """All that the code calls is CPython's, too; entries that it has stay."""
        self.given_up = f"{self.title()}: {record.reason}"
        text = f"longhand: {self.title()} and what it calls run in eager: {record.reason} ({record.where})."
        warnings.warn(f"{text} {record.hint or ''}".rstrip(), EagerWarning, stacklevel=4)
        if not self.entries:
            frame_hook().mark(self.code, self.uncaptured)
            _MARKED.append(self.code)

    def _looks_again(self) -> bool:
        """Whether later calls of what did nothing with tensors are looked at; tells where they are not."""
        self.n_looks += 1
        if self.n_looks >= _MOST_LOOKS:
            if not is_continuation(self.code):
                text = f"{self.title()}: none of the calls that were looked at did anything with tensors"
                self.owner.tell(Event(EventKind.EAGER, text))
            return False
        self.n_waiting = 2 ** (self.n_looks - 1) - 1
        frame_hook().mark(self.code, self.waiting if self.n_waiting else self.miss)
        _MARKED.append(self.code)
        return True

    def _has_most(self, args: tuple[Any, ...]) -> bool:
        """Whether no more is compiled: for the module whose call this is, or for all that share the code."""
        most, module = self.owner.most_entries, _module_of(self.code, args)
        n_own = sum(module is None or (one is not None and one() is module) for one in self.modules)
        return n_own >= most or len(self.entries) >= most * _MOST_MODULES

    def _skip(self) -> None:
        """The code is CPython's for good; what it calls is looked at."""
        self.is_full = True
        self.entries, self.modules = [], []
        frame_hook().mark(self.code, frame_hook().SKIP)
        _SKIPPED.append(self.code)

    def _first_failure(self, function: Any, args: tuple[Any, ...]) -> str:
        return self.captured[-1].first_failure(function, args)

    def title(self) -> str:
        return f"{self.code.co_qualname} ({self.code.co_filename}:{self.code.co_firstlineno})"


def _module_of(code: CodeType, args: tuple[Any, ...]) -> nn.Module | None:
    """The module whose method is called, or goes on after a break: there it is no longer the first argument."""
    names = flat_parameters(code)
    own = names.index("self") if is_continuation(code) and "self" in names else 0
    return args[own] if own < len(args) and isinstance(args[own], nn.Module) else None


# Codes that captures left to CPython, and codes that have entries.
_SKIPPED: list[CodeType] = []
_MARKED: list[CodeType] = []


def forget_all() -> None:
    """Drops every entry of this process; the next calls are captured anew."""
    for codes in (_SKIPPED, _MARKED):
        while codes:
            frame_hook().mark(codes.pop(), None)
    for owner in list(_CAPTURES):
        owner.codes.clear()


_CAPTURES: weakref.WeakSet[Capture] = weakref.WeakSet()


def _newest(callback: Any, code: CodeType, eager: Callable[..., Any]) -> Callable[..., Any]:
    """What another capture runs for a code."""
    owner = getattr(callback, "__self__", None)
    if not isinstance(owner, Capture):
        return eager
    if code not in owner.codes:
        owner.codes[code] = CodeEntries(owner, code)
    code_entries = owner.codes[code]
    return code_entries.entries[-1] if code_entries.entries else code_entries.miss


class Capture:
    """One compiled function or module: what the hook's callback belongs to.

    Args:
        backend: Compiles a graph.
        fullgraph: The first graph break is an error.
        dynamic: As in torch.compile.
        listener: Is told events.
        strict: What fails in capture, or in a graph but not in eager, is an error.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        listener: Callable[[Event], None] | None = None,
        most_entries: int = _MOST_ENTRIES,
        strict: bool = False,
    ) -> None:
        self.backend = backend
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.most_entries = most_entries
        self.strict = strict
        self.codes: dict[CodeType, CodeEntries] = {}
        self._listener = listener
        self._told: set[str] = set()
        _CAPTURES.add(self)
        self.asked = self.callback  # one object: entries know their capture by it
        if fullgraph:  # what others skipped is an error here
            while _SKIPPED:
                frame_hook().mark(_SKIPPED.pop(), None)

    def tell(self, event: Event) -> None:
        if self._listener is not None:
            self._listener(event)

    def tell_break(self, record: BreakRecord) -> None:
        line = linecache.getline(*_split(record.where)).strip() if record.where else ""
        text = f"{record.where}: {record.reason}: `{line}`" if line else f"{record.where}: {record.reason}"
        self.tell(Event(EventKind.SKIP if record.skipped else EventKind.BREAK, text, record))
        if self.fullgraph:
            raise CaptureError(
                f"The code cannot be captured as one graph: {record.reason}.",
                where=record.where or None,
                hint=record.hint or "Without fullgraph=True that part runs in Python.",
            )

    def tell_eager(self, entries: CodeEntries, reason: str) -> None:
        """A call runs in eager, with all that it calls; warns once that functions do."""
        if self.strict:
            raise CaptureError(f"A call of {entries.title()} would run in eager: {reason}.")
        if entries.given_up:
            self.tell(Event(EventKind.EAGER, reason))
            return
        text = f"{entries.title()}: {reason}"
        self.tell(Event(EventKind.EAGER, text))
        if reason not in self._told:
            self._told.add(reason)
            where = f"{entries.code.co_filename}:{entries.code.co_firstlineno}"
            self.tell(Event(EventKind.SKIP, text, BreakRecord(reason, where, skipped=True)))
            text = f"longhand: {entries.title()} and what it calls run in eager, while {reason}."
            warnings.warn(text, EagerWarning, stacklevel=3)

    def begins_with(self, entries: CodeEntries) -> bool:
        """Whether a code is the first that was asked for: what the user compiled."""
        return next(iter(self.codes.values()), None) is entries

    def refuse_left(self, entries: CodeEntries, breaks: Sequence[BreakRecord]) -> None:
        """In strict mode: a function that is left to CPython whole is an error, with the reason."""
        if breaks:
            last = breaks[-1]
            raise CaptureError(
                f"{entries.title()} would run in eager: {last.reason}.",
                where=last.where or None,
                hint=last.hint,
            )

    def tell_left(self, text: str) -> None:
        """What the user compiled is CPython's, but for what it calls: that must not be silent."""
        warnings.warn(
            f"longhand: {text}. Functions that it calls are compiled one by one; longhand.explain tells what becomes "
            "of a call.",
            EagerWarning,
            stacklevel=3,
        )

    def tell_failure(self, text: str) -> None:
        """Capture itself failed: a bug, which is an error where the user wants it to be, else a warning, once."""
        if self.strict:
            raise CaptureError(f"{text}.")
        if "failure" not in self._told:
            self._told.add("failure")
            warnings.warn(f"longhand: {text}. LONGHAND_STRICT=1 raises instead.", EagerWarning, stacklevel=3)

    def callback(self, function: Any) -> Any:
        """What the hook asks for a function that it sees for the first time."""
        code = function.__code__
        # torch.compiler.disable's mark
        if getattr(function, "_torchdynamo_disable", False) or is_closed(code):
            return CodeEntries(self, code).uncaptured
        if reason_to_skip(code) is not None:
            return None
        if code not in self.codes:
            self.codes[code] = CodeEntries(self, code)
        return self.codes[code].miss

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls with the hook on."""
        hook = frame_hook()
        previous = hook.enable(self.asked)
        try:
            return function(*args, **kwargs)
        finally:
            hook.disable(previous)


def _split(where: str) -> tuple[str, int]:
    file, _, line = where.rpartition(":")
    return file, int(line)
