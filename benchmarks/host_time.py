"""What the host does in a call of a small batch, where it is what one waits for: ``python -m benchmarks.host_time``.

One sentence of 64 tokens or one image, in inference and default modes, eager, torch.compile and longhand in turns:
microseconds until a call returns (the GPU may still work), the kernels that it launches, and how far each result is
from eager's. With ``--device cpu`` a call's whole time; ``--tiny`` makes the models so narrow that little of it is
arithmetic.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf

import longhand
from benchmarks import report

_VOCABULARY, _SEQ, _LAYERS = 8192, 64, 12
_WARM_UPS, _CALLS = 10, 60


@dataclass(frozen=True)
class _Width:
    """What makes a model wide: a tiny one spends its time on the host alone."""

    hidden: int
    intermediate: int
    heads: int
    channels: tuple[int, int, int, int]


_WIDE = _Width(768, 2048, 12, (64, 128, 256, 512))
_TINY = _Width(64, 128, 4, (8, 8, 16, 16))


def _llama(width: _Width) -> torch.nn.Module:
    return hf.LlamaModel(hf.LlamaConfig(max_position_embeddings=4096, use_cache=False, **_transformer(width)))


def _gpt2(width: _Width) -> torch.nn.Module:
    config = hf.GPT2Config(
        vocab_size=_VOCABULARY, n_embd=width.hidden, n_head=width.heads, n_layer=_LAYERS, use_cache=False
    )
    return hf.GPT2Model(config)


def _bert(width: _Width) -> torch.nn.Module:
    return hf.BertModel(hf.BertConfig(**_transformer(width)))


def _vit(width: _Width) -> torch.nn.Module:
    sizes = _transformer(width)
    del sizes["vocab_size"]
    return hf.ViTModel(hf.ViTConfig(image_size=64, patch_size=8, **sizes))


def _resnet18(width: _Width) -> torch.nn.Module:
    config = hf.ResNetConfig(
        embedding_size=width.channels[0],
        hidden_sizes=list(width.channels),
        depths=[2, 2, 2, 2],
        layer_type="basic",
    )
    return hf.ResNetModel(config)


def _transformer(width: _Width) -> dict[str, Any]:
    return {
        "vocab_size": _VOCABULARY,
        "hidden_size": width.hidden,
        "intermediate_size": width.intermediate,
        "num_attention_heads": width.heads,
        "num_hidden_layers": _LAYERS,
    }


MODELS: dict[str, Callable[[_Width], torch.nn.Module]] = {
    "llama": _llama,
    "gpt2": _gpt2,
    "bert": _bert,
    "resnet18": _resnet18,
    "vit": _vit,
}


def inputs_of(name: str, device: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """One sentence, or one image of 64 x 64."""
    if name in ("resnet18", "vit"):
        return {"pixel_values": torch.randn(1, 3, 64, 64, device=device, dtype=dtype)}
    return {"input_ids": torch.randint(_VOCABULARY, (1, _SEQ), device=device)}


def host_times(calls: dict[str, Callable[[], Any]], wait: Callable[[], object]) -> dict[str, list[float]]:
    """Microseconds that each call takes to return, the calls in turns; each starts when the device is done."""
    times: dict[str, list[float]] = {word: [] for word in calls}
    for turn in range(_WARM_UPS + _CALLS):
        for word, call in calls.items():
            start = time.perf_counter()
            call()
            if turn >= _WARM_UPS:
                times[word].append((time.perf_counter() - start) * 1e6)
            wait()
    return times


def n_kernels(call: Callable[[], Any]) -> int:
    """How many kernels, copies and fills a call starts on the GPU."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return sum(event.count for event in profile.key_averages() if event.device_type.name == "CUDA")


def rows_of(name: str, device: str, width: _Width) -> list[list[str]]:
    """A line each for eager, torch.compile and longhand."""
    torch.manual_seed(0)
    torch.compiler.reset()
    longhand.reset()
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = MODELS[name](width).eval().to(device, dtype)
    inputs = inputs_of(name, device, dtype)
    runs = {"eager": model, "torch.compile": torch.compile(model), "longhand": longhand.compile(model)}
    is_gpu = device == "cuda"
    wait = torch.cuda.synchronize if is_gpu else lambda: None
    calls = {word: _without_arguments(run, inputs) for word, run in runs.items()}
    expected = calls["eager"]()[0].double()
    errors = {
        word: float((call()[0].double() - expected).norm() / expected.norm()) for word, call in calls.items()
    }
    kernels = {word: str(n_kernels(call)) if is_gpu else "" for word, call in calls.items()}
    rows = []
    for word, times in host_times(calls, wait).items():
        figures = f"{statistics.median(times):.0f}", f"{min(times):.0f}"
        rows.append([name, word, *figures, kernels[word], f"{errors[word]:.1e}"])
    return rows


def _without_arguments(run: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> Callable[[], Any]:
    return lambda: run(**inputs)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*MODELS, []], help="by default all")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="width 64: next to no arithmetic")
    options = parser.parse_args()
    print(report.machine(options.device))
    rows = [["model", "by", "median us", "minimum us", "kernels", "off eager by"]]
    with torch.no_grad():
        for name in options.names or MODELS:
            rows += rows_of(name, options.device, _TINY if options.tiny else _WIDE)
    report.print_table(rows)


if __name__ == "__main__":
    main()
