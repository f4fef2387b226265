"""What attention is called with, before and after masks are proven: ``python -m benchmarks.masks [MODEL ...]``.

Small decoders and encoders of transformers, each with the masks that it makes for itself and with an attention_mask
that data decides. Before: what the model gives to attention where it is traced. After: what the unit gives to it.
``--write-docs`` makes docs/masks.md of the table.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
import transformers as hf
from torch import fx

from benchmarks import report
from benchmarks.architectures.transformers_settings import GROUPED, SETTINGS, tokens
from longhand.capture.frontends.export import capture_export
from longhand.capture.graph import CapturedGraph, InputKind
from longhand.options import Device, Target
from tests.models.hugging_face import MODELS

_PAGE = Path(__file__).resolve().parent.parent / "docs" / "masks.md"
_INTRODUCTION = """# What attention is called with

Written by `python -m benchmarks.masks --write-docs`: do not edit it.

Models of transformers, small, each called without an `attention_mask` and with one that data decides. *Before* is
what the model's code gives to attention, and how often; *after* is what the unit gives to it. `is_causal=True` and
"no mask" were proven: the mask is what its indices say, whatever the data. "A table" is a constant that the unit
holds (a sliding window), "made once" a bias that data decides, made before the layers. "Products and a softmax" is
attention that the model writes out: one call in the unit, with what was added to the scores as its bias, or products
and a softmax there, too, where that is no attention that one call computes (gemma2 bounds the scores by a tanh). [How
it is proven](architecture.md#decisions-that-hold-across-rooms).
"""
Example = tuple[torch.nn.Module, dict[str, Any]]
aten = torch.ops.aten

_SMALL_FALCON = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 97}
_LAYER_TYPES = ["sliding_attention", "full_attention"]


def _gemma3() -> Example:
    config = hf.Gemma3TextConfig(head_dim=12, sliding_window=8, layer_types=_LAYER_TYPES, **GROUPED)
    return hf.Gemma3ForCausalLM(config).eval(), {"input_ids": tokens()}


def _phi3() -> Example:
    config = hf.Phi3Config(pad_token_id=0, eos_token_id=1, bos_token_id=1, **GROUPED)
    return hf.Phi3ForCausalLM(config).eval(), {"input_ids": tokens()}


def _falcon_alibi() -> Example:
    config = hf.FalconConfig(alibi=True, use_cache=False, **_SMALL_FALCON)
    return hf.FalconForCausalLM(config).eval(), {"input_ids": tokens()}


FACTORIES: dict[str, Callable[[], Example]] = {
    **{name: MODELS[name] for name in ("gpt2", "llama")},
    **{name: SETTINGS[name] for name in ("mistral", "qwen2", "qwen3", "gemma2")},
    "gemma3": _gemma3,
    "phi3": _phi3,
    **{name: SETTINGS[name] for name in ("gpt_neox", "opt", "bloom", "falcon")},
    "falcon with alibi": _falcon_alibi,
    **{name: SETTINGS[name] for name in ("t5", "whisper", "bart")},
    "bert": MODELS["bert"],
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One model, called in one way.

    Attributes:
        model: Its name in the table.
        has_argument: Whether it is called with an attention_mask.
        before: What the model calls attention with, and how often.
        after: What the captured graph calls attention with, and how often.
    """

    model: str
    has_argument: bool
    before: dict[str, int]
    after: dict[str, int]


def row(name: str, has_argument: bool, target: Target) -> Row | None:
    """Captures a model; None where it takes no attention_mask."""
    torch.manual_seed(0)
    model, kwargs = FACTORIES[name]()
    kwargs.pop("attention_mask", None)
    if has_argument:
        if "attention_mask" not in inspect.signature(model.forward).parameters or "input_ids" not in kwargs:
            return None
        kwargs["attention_mask"] = torch.ones(kwargs["input_ids"].shape, dtype=torch.long)
    before: collections.Counter[str] = collections.Counter()
    attention = F.scaled_dot_product_attention

    def noted(query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **given: Any) -> Any:
        before[_before(attn_mask, bool(given.get("is_causal")))] += 1
        return attention(query, key, value, attn_mask, *args, **given)

    with mock.patch.object(F, "scaled_dot_product_attention", noted):
        graph = capture_export(model, (), kwargs, target=target)
    return Row(name, has_argument, dict(before) or _written_out(graph), _after(graph))


def _before(mask: torch.Tensor | None, is_causal: bool) -> str:
    if mask is None:
        return "causal" if is_causal else "no mask"
    return f"{str(mask.dtype).removeprefix('torch.')} mask {_shape(mask)}"


def _shape(value: torch.Tensor) -> str:
    return "x".join(map(str, value.shape))


def _after(graph: CapturedGraph) -> dict[str, int]:
    tables = {entry.node for entry in graph.inputs if entry.kind is InputKind.CONSTANT}
    calls = [node for node in graph.graph.nodes if node.target is aten.scaled_dot_product_attention.default]
    return dict(collections.Counter(_call(call, tables) for call in calls)) or _written_out(graph)


def _call(call: fx.Node, tables: set[str]) -> str:
    given = call.args[3] if len(call.args) > 3 else call.kwargs.get("attn_mask")
    if not isinstance(given, fx.Node):
        is_causal = call.args[5] if len(call.args) > 5 else call.kwargs.get("is_causal", False)
        return "is_causal=True" if is_causal else "no mask"
    value = given.meta["val"]
    kind = "mask" if value.dtype is torch.bool else "bias"
    source = given.args[0] if given.target is aten.slice.Tensor else given
    made = "a table" if isinstance(source, fx.Node) and source.name in tables else "made once"
    return f"{str(value.dtype).removeprefix('torch.')} {kind} {_shape(value)}, {made}"


def _written_out(graph: CapturedGraph) -> dict[str, int]:
    """Attention as products and a softmax; as one call, where the unit has that."""
    kinds = ("softmax", "scaled_dot_product_attention")
    n = sum(any(kind in str(node.target) for kind in kinds) for node in graph.graph.nodes)
    return {"products and a softmax": n}


def _cell(calls: dict[str, int]) -> str:
    return "; ".join(f"{words} ({count})" for words, count in calls.items())


def _lines(names: Sequence[str], device: Device) -> Iterator[str]:
    """The table for a device."""
    target = Target(device, "sm_90" if device is Device.CUDA else None)
    yield "| model | attention_mask | before (calls) | after (calls) |"
    yield "|---|---|---|---|"
    for name in names:
        for has_argument in (False, True):
            compared = row(name, has_argument, target)
            if compared is not None:
                argument = "given" if has_argument else "not given"
                yield f"| {name} | {argument} | {_cell(compared.before)} | {_cell(compared.after)} |"


def main() -> int:
    """Prints the tables, and writes them into the documentation if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(FACTORIES), metavar="MODEL")
    parser.add_argument("--device", choices=[device.value for device in Device], help="only this one")
    parser.add_argument("--write-docs", action="store_true", help="write docs/masks.md, too")
    options = parser.parse_args()
    head = f"transformers {hf.__version__}, {report.versions()}, 2 layers.\n"
    print(head)
    text = [_INTRODUCTION, head]
    for device in Device:
        if options.device in (None, device.value):
            text.append(f"## {device.value}\n")
            print(text[-1])
            for line in _lines(options.models, device):
                text.append(line)
                print(line, flush=True)
            text.append("")
    if options.write_docs:
        _PAGE.write_text("\n".join(text).rstrip("\n") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
