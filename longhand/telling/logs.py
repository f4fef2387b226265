"""What longhand tells while it works: one logger per subject, chosen with `set_logs` or LONGHAND_LOGS."""

from __future__ import annotations

import enum
import logging
import os
import sys
from typing import Any

import torch

from longhand.options import parse_enum


class Subject(enum.Enum):
    """What can be told."""

    GRAPH_BREAKS = "graph_breaks"
    GUARDS = "guards"
    RECOMPILES = "recompiles"
    FUSION = "fusion"
    OUTPUT_CODE = "output_code"
    EAGER = "eager"  # graphs that run in eager, and why
    CALLS = "calls"  # at exit: how many calls ran in kernels, how many in eager, and why; with every other subject, too
    KERNELS = "kernels"  # what was compiled: registers, spills


# Where torch's Dynamo captures, it tells these subjects in its own words.
_TOLD_BY_DYNAMO = (Subject.GRAPH_BREAKS, Subject.GUARDS, Subject.RECOMPILES)


def logger(subject: Subject) -> logging.Logger:
    """The logger of one subject."""
    return logging.getLogger(f"longhand.{subject.value}")


def set_logs(*subjects: str) -> None:
    """Tells about these subjects from now on, and no others.

    Args:
        subjects: graph_breaks, guards, recompiles, fusion, output_code, eager, calls, kernels.

    Raises:
        OptionError: A subject is unknown.
    """
    chosen = {parse_enum(Subject, text, "The log subject") for text in subjects}
    root = logging.getLogger("longhand")
    if chosen and not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        root.addHandler(handler)
    if chosen:
        chosen.add(Subject.CALLS)
    for subject in Subject:
        logger(subject).setLevel(logging.INFO if subject in chosen else logging.WARNING)
    if os.environ.get("TORCH_LOGS") is None:
        asked: dict[str, Any] = {subject.value: subject in chosen for subject in _TOLD_BY_DYNAMO}
        torch._logging.set_logs(**asked)


def set_logs_from_environment() -> None:
    """Does what LONGHAND_LOGS=graph_breaks,fusion asks for; nothing if it is not set."""
    text = os.environ.get("LONGHAND_LOGS", "")
    if text:
        set_logs(*(word.strip() for word in text.split(",") if word.strip()))
