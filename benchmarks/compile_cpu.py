"""The processor's time to write a unit of transformers' GPT-2, C++ and Triton left uncompiled, in a process of its own.

    PYTHONPATH=. python benchmarks/compile_cpu.py LAYERS inference|training cpu|cuda

User time, which others on the machine disturb less than a clock on the wall. It is started by its path, so that
``PYTHONPATH=TREE`` measures another checkout: run old and new in alternation.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import tempfile
from pathlib import Path

import torch

from benchmarks import report
from benchmarks.architectures import catalog  # lets transformers be imported beside any torchvision
from longhand.capture.graph import CapturedGraph
from longhand.collection import no_collection
from longhand.frontends import capture_call
from longhand.options import Frontend
from longhand.pipeline import plan_and_text
from longhand.targets import options_for
from longhand.telling.clock import Clock

_ARCH = {"cpu": None, "cuda": "sm_90"}


def user_seconds() -> float:
    """Of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def model_and_inputs(
    n_layers: int, train: bool
) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
    """A GPT-2 of small layers."""
    import transformers

    torch.manual_seed(catalog.SEED)
    sizes = {"n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 128}
    no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = transformers.GPT2Config(n_layer=n_layers, use_cache=False, **sizes, **no_dropout)
    words = torch.randint(0, 128, (2, 16))
    return transformers.GPT2LMHeadModel(config).train(train), (words,), {"labels": words} if train else {}


def main() -> None:
    """Prints the seconds: of capture, and of everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_layers", type=int)
    parser.add_argument("part", choices=["inference", "training"])
    parser.add_argument("device", choices=list(_ARCH))
    chosen = parser.parse_args()
    print(report.machine("cpu"))
    train = chosen.part == "training"
    model, args, kwargs = model_and_inputs(chosen.n_layers, train)
    options = options_for(chosen.device, _ARCH[chosen.device], "default", list(args))
    options = dataclasses.replace(options, train=train, frontend=Frontend.EXPORT, run=False)
    of_capture = []

    def capture() -> CapturedGraph:
        begin = user_seconds()
        with torch.set_grad_enabled(train):
            graph = capture_call(model, args, kwargs, options, None)
        of_capture.append(user_seconds() - begin)
        return graph

    with tempfile.TemporaryDirectory() as folder, no_collection():
        begin = user_seconds()
        plan_and_text(capture, options, Path(folder) / "unit", Clock())
        total = user_seconds() - begin
    print(
        f"{chosen.n_layers} layers, {chosen.part}, {chosen.device}: {total:.2f} s, capture {of_capture[0]:.2f}"
    )


if __name__ == "__main__":
    main()
