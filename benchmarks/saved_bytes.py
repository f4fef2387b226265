"""What the forward pass keeps for the backward, in bytes: eager, torch.compile and longhand. It needs no GPU.

python -m benchmarks.saved_bytes [--only gpt] [--size small|default]

Counted is the memory of the tensors that autograd saves (torch.autograd.graph.saved_tensors_hooks), once for each
storage; what stands before the call (parameters, buffers, arguments) and the results are left out of it.
torch.compile's partitioner decides for it: backend="aot_eager_decomp_partition" is that one, on the same
decompositions, without Inductor, which adds copies of images in another layout (--inductor counts those, too).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn

from benchmarks import report
from benchmarks.cases import example
from longhand.compiled.backend import longhand_backend
from longhand.factory import Call

EXAMPLES = ("gpt_train", "resnet_block_train")
_BACKENDS: dict[str, Any] = {
    "torch.compile": "aot_eager_decomp_partition",
    "longhand": longhand_backend,
}


def saved_bytes(run: Callable[..., Any], owner: nn.Module, call: Call) -> int:
    """Bytes that autograd saves in one call beyond what stands before it, the results left out."""
    given = [*owner.parameters(), *owner.buffers(), *pytree.tree_leaves((call.args, call.kwargs))]
    there = {_storage(value) for value in given if isinstance(value, torch.Tensor)}
    saved: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved[_storage(tensor)] = tensor.untyped_storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        results = run(*call.args, **call.kwargs)
    there |= {_storage(leaf) for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)}
    return sum(storage.nbytes() for key, storage in saved.items() if key not in there)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def count(name: str, size: str = "small", *, inductor: bool = False) -> dict[str, int]:
    """Saved bytes of one example, by contender."""
    torch.manual_seed(0)
    call = example(f"examples.{name}:{size}", "cpu")
    model = call.model
    assert isinstance(model, nn.Module)
    counts = {"eager": saved_bytes(model, model, call)}
    backends = {**_BACKENDS, "torch.compile, Inductor": "inductor"} if inductor else _BACKENDS
    for contender, backend in backends.items():
        torch.compiler.reset()
        compiled = torch.compile(model, backend=backend)
        compiled(*call.args, **call.kwargs)  # compiles; what is traced meanwhile is saved, too
        counts[contender] = saved_bytes(compiled, model, call)
    torch.compiler.reset()
    return counts


def main() -> None:
    """Counts and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="words; examples whose name has one of them")
    parser.add_argument("--size", choices=("small", "default"), default="small")
    parser.add_argument("--inductor", action="store_true", help="count what Inductor itself saves, too")
    arguments = parser.parse_args()
    words = [word for word in arguments.only.split(",") if word]
    rows: list[list[str]] = []
    for name in EXAMPLES:
        if words and not any(word in name for word in words):
            continue
        counts = count(name, arguments.size, inductor=arguments.inductor)
        rows = rows or [["saved bytes", *counts]]
        rows.append([name, *(f"{n_bytes:,}" for n_bytes in counts.values())])
    print(report.machine("cpu"))
    report.print_table(rows)


if __name__ == "__main__":
    main()
