"""What a user can ask of the compiler, as one frozen value that every stage may read."""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import TypeVar

from longhand.errors import OptionError


class Device(enum.Enum):
    """What the generated kernels run on, named as torch.device names it."""

    CPU = "cpu"
    CUDA = "cuda"


class Mode(enum.Enum):
    """The modes of torch.compile, with the same meaning."""

    DEFAULT = "default"
    REDUCE_OVERHEAD = "reduce-overhead"
    MAX_AUTOTUNE = "max-autotune"
    MAX_AUTOTUNE_NO_CUDAGRAPHS = "max-autotune-no-cudagraphs"

    @property
    def records_cuda_graphs(self) -> bool:
        """Whether a CUDA unit of this mode records and replays CUDA graphs."""
        return self in (Mode.REDUCE_OVERHEAD, Mode.MAX_AUTOTUNE)


class Frontend(enum.Enum):
    """What captures Python code."""

    DYNAMO = "dynamo"
    BYTECODE = "bytecode"
    UNCOMPILED = "uncompiled"  # as bytecode, but torch.compiler.is_compiling() is False, as in eager
    EXPORT = "export"


_ARCHITECTURE = re.compile(r"sm_([7-9]\d|\d{3})[af]?")  # what Triton compiles for


@dataclasses.dataclass(frozen=True)
class Target:
    """The machine that the unit is written for.

    Attributes:
        device: The kind of device.
        arch: The CUDA architecture, such as "sm_90"; None on the CPU (the C++ builder asks the running machine).
        language: What kernels are written in, where it is not the device's own (C++, Triton).
    """

    device: Device
    arch: str | None = None
    language: str | None = None

    def __post_init__(self) -> None:
        if self.device is Device.CUDA and not _ARCHITECTURE.fullmatch(self.arch or ""):
            raise OptionError(
                f"CUDA needs an architecture such as sm_90, got {self.arch!r}.", hint="Pass --arch sm_90."
            )
        if self.device is Device.CPU and self.arch is not None:
            raise OptionError(f"--arch is for CUDA; the target is the CPU, got {self.arch!r}.")

    @property
    def name(self) -> str:
        """As a user names it: the language, or the device that it is of."""
        return self.language or self.device.value


@dataclasses.dataclass(frozen=True)
class Options:
    """Everything that decides what is generated, besides the model and its inputs.

    Attributes:
        target: What to write for.
        mode: As in torch.compile.
        factory: ``MODULE:FACTORY`` as the command line had it, for the lock: `verify` and `bench` make the original
            with it. None when the model came as an object.
        inputs: The ``--input`` texts that went with it.
        dynamic: The ``--dynamic`` texts.
        train: Write the backward pass too.
        activation_memory_budget: In training: between 0 and 1, how much of what the cheapest cut would keep for the
            backward pass may be kept; what is missing is computed again.
        frontend: What captures the call that a unit is written from.
        run: The unit is run once before it is kept.
    """

    target: Target
    mode: Mode = Mode.DEFAULT
    factory: str | None = None
    inputs: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = ()
    train: bool = False
    activation_memory_budget: float = 1.0
    frontend: Frontend = Frontend.EXPORT
    run: bool = True


_E = TypeVar("_E", bound=enum.Enum)


def parse_enum(kind: type[_E], text: str, option: str) -> _E:
    """The member of `kind` whose value is `text`; OptionError that lists the choices otherwise."""
    try:
        return kind(text)
    except ValueError:
        choices = ", ".join(str(member.value) for member in kind)
        raise OptionError(f"{option} {text!r} is unknown.", hint=f"Choose one of: {choices}.") from None
