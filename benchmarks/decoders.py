"""Decoders of transformers as they come, with the mask that each makes for itself: ``python -m benchmarks.decoders``.

12 layers of 768, bfloat16, on a GPU, in turns and on the same inputs: eager, torch.compile and longhand in their
default modes. torch.compile keeps the mask that the model makes; longhand proves that it is causal and drops it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

import longhand
from benchmarks import report
from longhand.tune.bench import time_side_by_side

_SIZES = {"vocab_size": 8192, "use_cache": False}
_LLAMA = {
    **_SIZES,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 2048,
    "max_position_embeddings": 4096,
}
MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "llama": lambda: hf.LlamaModel(hf.LlamaConfig(num_key_value_heads=12, **_LLAMA)),
    "qwen3": lambda: hf.Qwen3Model(hf.Qwen3Config(num_key_value_heads=4, head_dim=64, **_LLAMA)),
    "gpt2": lambda: hf.GPT2Model(hf.GPT2Config(n_positions=4096, **_SIZES)),
    "bert": lambda: hf.BertModel(
        hf.BertConfig(vocab_size=8192, max_position_embeddings=4096, intermediate_size=2048)
    ),
}
_CALLS = ((8, 512), (4, 2048))


def measure(name: str, batch: int, seq: int) -> str:
    """One line of the table: milliseconds, and whether longhand's result is as near to float64 as eager's."""
    torch.manual_seed(0)
    torch.compiler.reset()
    longhand.reset()
    model = MODELS[name]().eval().to("cuda", torch.bfloat16)
    tokens = torch.randint(8192, (batch, seq), device="cuda")
    runs: dict[str, Callable[..., Any]] = {
        "eager": model,
        "torch.compile": torch.compile(model),
        "longhand": longhand.compile(model),
    }
    with torch.no_grad():
        results = {word: run(input_ids=tokens)[0].double() for word, run in runs.items()}
        exact = model.double()(input_ids=tokens)[0]
        model.to(torch.bfloat16)
        errors = {word: float((result - exact).norm() / exact.norm()) for word, result in results.items()}
        del exact, results
        calls = {word: _without_arguments(run, tokens) for word, run in runs.items()}
        times = time_side_by_side(calls, device="cuda", n_turns=15)
    cells = [f"{word} {times[word].median:.3f} ms (error {errors[word]:.1e})" for word in runs]
    return f"{name} B{batch} S{seq}: {', '.join(cells)}"


def _without_arguments(run: Callable[..., Any], tokens: torch.Tensor) -> Callable[[], Any]:
    return lambda: run(input_ids=tokens)


def main() -> int:
    """Prints the table."""
    print(f"{report.machine('cuda')}, transformers {hf.__version__}")
    for name in sys.argv[1:] or MODELS:
        for batch, seq in _CALLS:
            print(measure(name, batch, seq), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
