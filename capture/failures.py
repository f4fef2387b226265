"""Turns what torch raises while it traces into one paragraph: what happened, the user's line, what to do next."""

from __future__ import annotations

import os
import re
import traceback

import torch

from longhand.errors import CaptureError, LonghandError

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep

# (what torch's message or exception's name contains, what happened in our words, what to do)
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"GuardOnDataDependent|data-dependent|data dependent|Could not guard|Could not extract specialized",
        "the code branches on, or takes a size from, a value that is only known when it runs",
        "Use torch.where or torch.clamp instead of `if`, or compute that part outside.",
    ),
    (
        r"ConstraintViolation|constraint|specializ",
        "a size that was asked to be dynamic is fixed by the code",
        "Leave that dimension out of dynamic_shapes, or give the range that the code allows.",
    ),
    (
        r"Dynamo|torch\.compile|fullgraph|graph break",
        "the code uses Python that cannot be traced",
        "Move it out of forward.",
    ),
    (
        r"registered as buffers|assigned during export|attribute.*assign",
        "the code stores a tensor on the module while it runs",
        "Register it as a buffer and write it in place (`self.cache.copy_(...)`).",
    ),
    (
        r"not a known type",
        "the call takes or returns an object that is no plain container of tensors",
        "Return tensors, tuples, lists or dicts (of a Hugging Face model: pass use_cache=False).",
    ),
    (
        r"not linked with support for cuda|Torch not compiled with CUDA|Found no NVIDIA driver",
        "the code asks for a CUDA device, which this machine does not have",
        "Create tensors on the device of an input (`device=x.device`); the target is chosen with --device.",
    ),
)


def capture_error(error: Exception, name: str) -> LonghandError:
    """The CaptureError for something raised while `name` was traced."""
    if isinstance(error, LonghandError):
        return error
    words = f"{type(error).__name__}: {error}"
    for pattern, what, hint in _KNOWN:
        if re.search(pattern, words):
            detail = f"{name} cannot be captured: {what} ({_first_sentence(error)})."
            return CaptureError(detail, where=_place(error), hint=hint)
    hint = "Call the model with the same arguments in eager mode: if that works, this is a limit of capture."
    return CaptureError(
        f"{name} cannot be captured: {type(error).__name__}: {_first_sentence(error)}.",
        where=_place(error),
        hint=hint,
    )


def _first_sentence(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line.rstrip(".:")[:200]


def _place(error: BaseException) -> str | None:
    """The user's innermost ``file:line`` in the error's traceback, or that which torch's message names."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((_TORCH, _OURS)) and os.path.exists(f.filename)]
    inside = [f for f in own if _follows_torch(frames, f)]
    if inside:
        return f"{inside[-1].filename}:{inside[-1].lineno}"
    named = re.findall(r'File "([^"]+)", line (\d+)', str(error))
    users = [(file, line) for file, line in named if not os.path.abspath(file).startswith((_TORCH, _OURS))]
    return ":".join(users[-1]) if users else None


def _follows_torch(frames: list[traceback.FrameSummary], frame: traceback.FrameSummary) -> bool:
    """Whether a frame was called, at some depth, by torch's tracing: it is then the model's, not the caller's."""
    position = frames.index(frame)
    return any(earlier.filename.startswith(_TORCH) for earlier in frames[:position])
