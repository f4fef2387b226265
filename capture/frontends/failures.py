"""Turns what torch raises while it traces into one paragraph: what happened, the user's line, what to do next."""

from __future__ import annotations

import dataclasses
import os
import re
import sysconfig
import traceback

import torch

from longhand.errors import CaptureError, LonghandError

_ELSEWHERE = tuple(
    os.path.abspath(path) + os.sep
    for path in (
        os.path.dirname(torch.__file__),
        os.path.dirname(os.path.dirname(__file__)),
        sysconfig.get_path("stdlib"),
    )
)


@dataclasses.dataclass(frozen=True)
class _Known:
    """A kind of failure.

    Attributes:
        pattern: What torch's message, or its exception's name, contains.
        what: What happened, in our words.
        hint: What to do.
        detail: Whether torch's own first sentence tells the user more.
    """

    pattern: str
    what: str
    hint: str
    detail: bool = True


COMPUTED_EACH_TIME = (
    "Register it as a buffer and write it in place (`self.cache.copy_(...)`), or return it. What is kept for later "
    "calls and depends on no argument, frontend='bytecode' computes in each call."
)

_KNOWN = (
    _Known(
        r"GuardOnDataDependent|data-dependent|data dependent|Could not guard|Could not extract specialized",
        "the code branches on, or takes a size from, a value that is only known when it runs",
        "Use torch.where or torch.clamp instead of `if`, or compute that part outside.",
        detail=False,
    ),
    _Known(
        r"DataDependentOutput|DynamicOutputShape",
        "the code calls what gives a number, or a tensor of a size, that depends on the data",
        "Take it out of the compiled part, or use an op whose result has a size of its own (torch.where, a mask).",
    ),
    _Known(
        r"PendingUnbackedSymbolNotFound",
        "the code takes a size, or the place of a part, from a value that is only known when it runs",
        "Pass it as a plain number, or use gather, index_select or torch.where, which take tensors.",
        detail=False,
    ),
    _Known(
        r"assigned during export",
        "the code stores a tensor on the module while it runs, which a graph would not do",
        COMPUTED_EACH_TIME,
    ),
    _Known(
        r"dynamic_shapes",
        "dynamic_shapes does not fit the call",
        "Give it as torch.export.export takes it: one entry for each argument, by name or in order.",
    ),
    _Known(
        r"ConstraintViolation|Constraints violated|specializ",
        "a size that was asked to be dynamic is fixed by the code",
        "Leave that dimension out of dynamic_shapes, or give the range that the code allows.",
        detail=False,
    ),
    _Known(
        r"not a known type",
        "the call takes or returns an object that is no plain container of tensors",
        "Use tensors, tuples, lists or dicts (for a Hugging Face model: pass use_cache=False).",
    ),
    _Known(
        r"not linked with support for cuda|Torch not compiled with CUDA|Found no NVIDIA driver|on the same device",
        "the code mixes devices, or asks for one that this machine does not have",
        "Create tensors on the device of an input (`device=x.device`); the target is chosen with --device.",
    ),
    _Known(
        r"\.numpy\(\)|from_numpy",
        "the code leaves PyTorch for NumPy",
        "Write it with torch functions, or move it out of forward.",
    ),
)


def capture_error(error: Exception, name: str) -> LonghandError:
    """The CaptureError for something raised while `name` was traced."""
    if isinstance(error, LonghandError):
        return error
    words = f"{type(error).__name__}: {error}"
    for known in _KNOWN:
        if re.search(known.pattern, words):
            detail = f" ({_first_sentence(error)})" if known.detail else ""
            what = f"{name} cannot be captured: {known.what}{detail}."
            return CaptureError(what, where=_place(error), hint=known.hint)
    what = f"{name} cannot be captured: {type(error).__name__}: {_first_sentence(error)}."
    hint = "Call it with the same arguments in eager mode: if that works, this is a limit of capture."
    return CaptureError(what, where=_place(error), hint=hint)


def _first_sentence(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return re.split(r"\.\s", line)[0].rstrip(".:! ")[:200]


def _place(error: BaseException) -> str | None:
    """The user's innermost ``file:line`` in the error's traceback, or that which torch's message names."""
    inside: list[traceback.FrameSummary] = []
    in_torch = False
    for frame in traceback.extract_tb(error.__traceback__):
        in_torch = in_torch or frame.filename.startswith(_ELSEWHERE[0])
        if in_torch and os.path.exists(frame.filename) and not frame.filename.startswith(_ELSEWHERE):
            inside.append(frame)
    if inside:
        return f"{inside[-1].filename}:{inside[-1].lineno}"
    named = re.findall(r'File "([^"]+)", line (\d+)', str(error))
    users = [(file, line) for file, line in named if not os.path.abspath(file).startswith(_ELSEWHERE)]
    return ":".join(users[-1]) if users else None
