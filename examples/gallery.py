"""Writes generated/ from the examples: `make gallery`. tests/test_gallery.py holds it current.

A model's unit is generated/<example>_<device>. The functions of fused_ops are units of their own:
generated/fused_ops_<device>/<function>. CPU units are made from the factory `small`, CUDA units from `default`.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import torch

import longhand
from examples.fused_ops import FUNCTIONS
from longhand.factory import resolve

ROOT = Path(__file__).resolve().parent.parent / "generated"
ARCH = "sm_90"
MODELS = ("attention", "gpt", "llama_block", "resnet_block")
TRAINED = ("gpt_train", "resnet_block_train")
UPDATES = ("adamw",)  # functions over lists of tensors


@dataclasses.dataclass(frozen=True)
class Entry:
    """One unit of the gallery.

    Attributes:
        path: Its folder, relative to generated/.
        factory: ``MODULE:FACTORY``.
        device: ``cpu`` or ``cuda``.
        train: Whether it has a backward pass.
    """

    path: str
    factory: str
    device: str
    train: bool = False

    def write(self, folder: Path) -> None:
        """Writes, or brings up to date, the unit in a folder."""
        torch.manual_seed(0)
        call = resolve(self.factory)
        longhand.generate(
            call.model,
            call.args,
            call.kwargs,
            out=folder,
            device=self.device,
            arch=ARCH if self.device == "cuda" else None,
            train=self.train,
            factory=self.factory,
        )


def entries() -> list[Entry]:
    """Every unit of the gallery."""
    found = []
    for device, size in (("cpu", "small"), ("cuda", "default")):
        found += [Entry(f"{model}_{device}", f"examples.{model}:{size}", device) for model in MODELS]
        found += [Entry(f"{model}_{device}", f"examples.{model}:{size}", device, True) for model in TRAINED]
        found += [Entry(f"{update}_{device}", f"examples.{update}:{size}", device) for update in UPDATES]
        for function in FUNCTIONS:
            name = function.__name__
            found.append(Entry(f"fused_ops_{device}/{name}", f"examples.fused_ops:{size}.{name}", device))
    return found


def main(words: list[str]) -> None:
    """Writes the units whose path contains one of the words; all without words."""
    for entry in entries():
        if not words or any(word in entry.path for word in words):
            print(entry.path, flush=True)
            entry.write(ROOT / entry.path)


if __name__ == "__main__":
    main(sys.argv[1:])
