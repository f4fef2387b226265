"""Models that compute something else where they hear that they are compiled: their units do what eager does.

Capture answers `torch.compiler.is_compiling()` with True, as torch.compile does: most code asks to spare itself a
branch that depends on data. Where a unit is wrong and its model's code asks, it is made again with eager's answer.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch

from longhand.capture.bytecode.hook import is_available
from longhand.capture.frontends.call import title
from longhand.errors import LonghandError, ToldCompiledWarning, VerificationError
from longhand.factory import Call
from longhand.options import Frontend
from longhand.telling.summary import Summary
from longhand.verify.original import copied

_QUESTIONS: frozenset[CodeType] = frozenset(
    {torch.compiler.is_compiling.__code__, torch.compiler.is_dynamo_compiling.__code__}
)


def as_in_eager(
    write: Callable[[Frontend], Summary], first: Callable[[], Summary], call: Call, *, train: bool
) -> Summary:
    """What `first` writes; where that is wrong because of the answer, what is written with eager's.

    Raises:
        VerificationError: The unit does not compute what eager does with either answer, or nothing asks.
    """
    try:
        return first()
    except VerificationError as error:
        wrong = error
    if not is_available() or not asks_whether_compiled(call, train=train):
        raise wrong
    called = title(call.model, None)
    says = f"{called} computes something else where torch.compiler.is_compiling() is True, as under torch.compile"
    try:
        summary = write(Frontend.UNCOMPILED)
    except VerificationError:
        raise wrong from None  # it is not the answer that is to blame
    except LonghandError as other:
        raise VerificationError(
            f"{says}, and with False it is no unit: {other.args[0]}",
            hint="Nothing was written. Mend the model, or keep the unit of the compiled model: run=False (--no-run).",
        ) from None
    warnings.warn(
        f"{says}. The unit computes what eager does (frontend='uncompiled').",
        ToldCompiledWarning,
        stacklevel=3,
    )
    return summary


def asks_whether_compiled(call: Call, *, train: bool) -> bool:
    """Whether the call's code asks, by running it once more in eager, on copies of the model and the tensors."""
    has_asked = False

    def watch(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal has_asked
        is_user = frame.f_back is not None and not frame.f_back.f_globals.get("__name__", "").startswith(
            "torch."
        )
        has_asked |= event == "call" and frame.f_code in _QUESTIONS and is_user

    before = sys.getprofile()
    with torch.random.fork_rng(), torch.set_grad_enabled(train):
        own = copied(call)
        sys.setprofile(watch)
        try:
            with contextlib.suppress(Exception):  # which the trial has met; what was asked until then counts
                own.model(*own.args, **own.kwargs)
        finally:
            sys.setprofile(before)
    return has_asked
