"""Which versions of torch and triton longhand knows, and what it says about others."""

from __future__ import annotations

import contextlib
import functools
import warnings
from importlib import metadata

import torch

from longhand.errors import OptionError

__all__ = ["TORCH", "TRITON", "UntestedVersionWarning", "check_versions", "explained", "is_newer"]

Release = tuple[int, int]

# Oldest and newest (docs/versions.md).
TORCH: tuple[Release, Release] = ((2, 11), (2, 15))
TRITON: tuple[Release, Release] = ((3, 6), (3, 9))


class UntestedVersionWarning(UserWarning):
    """torch or triton is newer than what longhand was tested with."""


def _release(version: str) -> Release:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _words(known: tuple[Release, Release]) -> str:
    return " to ".join(f"{major}.{minor}" for major, minor in known)


def is_newer() -> bool:
    """Whether this torch is newer than the ones longhand was tested with."""
    return _release(torch.__version__) > TORCH[1]


def explained(error: ImportError | AttributeError) -> Exception:
    """What is told where longhand itself cannot be imported: with a newer torch, that this torch lacks something."""
    if not is_newer():
        return error
    known = _words(TORCH)
    return OptionError(
        f"torch {torch.__version__} lacks what longhand needs: {error}.",
        hint=f"longhand was tested with torch {known}: pip install 'torch=={TORCH[1][0]}.{TORCH[1][1]}.*'",
    )


@functools.cache
def check_versions() -> None:
    """Warns, once in a process, of a torch or triton that is newer than the tested ones.

    Raises:
        OptionError: torch is too old.
    """
    versions = {"torch": (str(torch.__version__), TORCH)}
    with contextlib.suppress(metadata.PackageNotFoundError):  # needed for GPUs only
        versions["triton"] = (metadata.version("triton"), TRITON)
    for name, (version, known) in versions.items():
        if _release(version) < known[0]:
            raise OptionError(
                f"longhand needs {name} {_words(known)}; this is {version}.",
                hint=f"pip install --upgrade '{name}>={known[0][0]}.{known[0][1]}'",
            )
        if _release(version) > known[1]:
            warnings.warn(
                f"{name} {version} is newer than those that longhand was tested with ({_words(known)}). "
                "`longhand verify` compares a unit with the model that it was made from.",
                UntestedVersionWarning,
                stacklevel=3,
            )
