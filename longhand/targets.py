"""From what a user says (device, arch, mode) and hands over (tensors) to the target that is compiled for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.emit.unit.files import LANGUAGES, Language
from longhand.errors import OptionError
from longhand.options import Device, Mode, Options, Target, parse_enum
from longhand.schedule.targets import TARGETS, TargetFacts


def options_for(device: str | None, arch: str | None, mode: str | None, tensors: Iterable[object]) -> Options:
    """The options of one compilation.

    Args:
        device: ``cpu``, ``cuda`` or a target that was registered; None takes the device that the tensors are on.
        arch: ``sm_90``; None asks the GPU of this machine, if the target is one.
        mode: One of torch.compile's four modes; None is the default one.
        tensors: The arguments and weights, or devices; other objects among them are passed over.

    Raises:
        OptionError: Something of this is unknown, or contradicts another.
    """
    if device is None:
        chosen, language = _device_of(list(tensors)), None
    else:
        chosen, language = _named(device)
    if chosen is Device.CUDA and arch is None:
        arch = _arch_of_this_machine()
    return Options(Target(chosen, arch, language), parse_enum(Mode, mode or Mode.DEFAULT.value, "The mode"))


def register(facts: TargetFacts, language: Language) -> None:
    """Lets `device=` name a further target: kernels in a language of its own, for tensors on a device of torch's.

    Args:
        facts: What decides how kernels are planned; its name is the target's.
        language: What writes them.

    Raises:
        OptionError: Another target has that name.
    """
    if TARGETS.setdefault(facts.name, facts) != facts:
        raise OptionError(f"There is a target {facts.name} already.")
    LANGUAGES.setdefault(facts.name, language)


def _named(name: str) -> tuple[Device, str | None]:
    """The device of a target, and its language where it is not the device's own."""
    facts = TARGETS.get(name)
    if facts is None or facts.name == facts.device.value:
        return parse_enum(Device, name, "The device"), None
    return facts.device, name


def refuse_exported(model: object) -> None:
    """An exported program is no callable.

    Raises:
        OptionError: It is one; the message says what to give instead.
    """
    if isinstance(model, torch.export.ExportedProgram):
        raise OptionError(
            "An ExportedProgram is no model that can be called.",
            hint="Give program.module(); of the original model longhand writes more readable code.",
        )


def tensors_of(model: object, *arguments: object) -> list[object]:
    """The leaves of the arguments and, for a module, its parameters and buffers."""
    leaves = pytree.tree_leaves(arguments)
    if isinstance(model, torch.nn.Module):
        leaves += [*model.parameters(), *model.buffers()]
    return leaves


def placing(graph: fx.GraphModule, inputs: Iterable[object]) -> list[object]:
    """What says where a graph runs: its tensors; of one that is given none (positions), what its calls name."""
    tensors = [leaf for leaf in inputs if isinstance(leaf, torch.Tensor)]
    if tensors:
        return list(tensors)
    arguments = pytree.tree_leaves([(node.args, node.kwargs) for node in graph.graph.nodes])
    words = [leaf for leaf in arguments if isinstance(leaf, str) and leaf.partition(":")[0] == "cuda"]
    devices = [torch.device(word) for word in words]
    devices += [leaf for leaf in arguments if isinstance(leaf, torch.device) and leaf.type == "cuda"]
    return [*graph.parameters(), *graph.buffers(), *devices]


def _device_of(placed: Sequence[object]) -> Device:
    kinds = {leaf.device.type for leaf in placed if isinstance(leaf, torch.Tensor)}
    kinds |= {leaf.type for leaf in placed if isinstance(leaf, torch.device)}
    if "cuda" in kinds:
        return Device.CUDA
    if unknown := sorted(kinds - {"cpu"}):
        raise OptionError(
            f"longhand writes code for cpu and cuda; the tensors are on {unknown[0]}.",
            hint="Move the model, or name the target with device=.",
        )
    return Device.CPU


def _arch_of_this_machine() -> str:
    if not torch.cuda.is_available():
        raise OptionError(
            "The target is CUDA and this machine has no GPU to take the architecture from.",
            hint="Name it: arch='sm_90' (--arch sm_90).",
        )
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"
