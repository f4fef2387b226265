"""Hugging Face architectures on the CPU, compiled and compared: ``python -m benchmarks.architectures [NAME ...]``.

Small configurations, random weights. For each: graphs, the share of bytes (outside products, convolutions and
attention) that generated kernels move, the error against float64 beside eager's own, and what runs as an ATen call
or in eager, with the reason. ``--dynamic`` makes every size symbolic. The exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
import transformers as hf
from torch import nn

from longhand.backend import GraphReport, longhand_backend

Example = tuple[nn.Module, dict[str, Any]]
Factory = Callable[[], Example]
TRANSFORMER = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
}
TEXT = {**TRANSFORMER, "vocab_size": 97}
GROUPED = {**TEXT, "num_key_value_heads": 2, "use_cache": False}
ENCODER_DECODER = {
    "d_model": 48,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "vocab_size": 97,
    "use_cache": False,
}
_STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}


def tokens(length: int = 19) -> torch.Tensor:
    """Random token numbers, two sequences."""
    return torch.randint(3, 97, (2, length))


def text(config: str, model: str, **settings: Any) -> Factory:
    """A model of token numbers."""
    return lambda: (getattr(hf, model)(getattr(hf, config)(**settings)).eval(), {"input_ids": tokens()})


def image(config: str, model: str, size: int = 32, **settings: Any) -> Factory:
    """A model of images."""

    def make() -> Example:
        module = getattr(hf, model)(getattr(hf, config)(**settings)).eval()
        return module, {"pixel_values": torch.randn(2, 3, size, size)}

    return make


def _t5() -> Example:
    config = hf.T5Config(
        d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, vocab_size=97, use_cache=False
    )
    inputs = {"input_ids": tokens(), "decoder_input_ids": tokens(7)}
    return hf.T5ForConditionalGeneration(config).eval(), inputs


def _clip() -> Example:
    text = {**TEXT, "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 2}
    vision = {**TRANSFORMER, "image_size": 32, "patch_size": 8}
    config = hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
    return hf.CLIPModel(config).eval(), {"input_ids": tokens(), "pixel_values": torch.randn(2, 3, 32, 32)}


def _whisper() -> Example:
    words = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    limits = {"num_mel_bins": 16, "max_source_positions": 30, "max_target_positions": 20}
    config = hf.WhisperConfig(**ENCODER_DECODER, **words, **limits)
    inputs = {"input_features": torch.randn(2, 16, 60), "decoder_input_ids": tokens(7)}
    return hf.WhisperModel(config).eval(), inputs


VIT = {**TRANSFORMER, "image_size": 32, "patch_size": 8}
ARCHITECTURES: dict[str, Factory] = {
    "distilbert": text(
        "DistilBertConfig", "DistilBertModel", dim=48, n_layers=2, n_heads=4, hidden_dim=96, vocab_size=97
    ),
    "roberta": text("RobertaConfig", "RobertaModel", max_position_embeddings=64, **TEXT),
    "electra": text("ElectraConfig", "ElectraModel", embedding_size=24, **TEXT),
    "albert": text("AlbertConfig", "AlbertModel", embedding_size=24, **TEXT),
    "deberta_v2": text(
        "DebertaV2Config", "DebertaV2Model", relative_attention=True, pos_att_type=["p2c", "c2p"], **TEXT
    ),
    "t5": _t5,
    "bart": text("BartConfig", "BartModel", max_position_embeddings=64, **ENCODER_DECODER),
    "opt": text(
        "OPTConfig",
        "OPTForCausalLM",
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=96,
        vocab_size=97,
        max_position_embeddings=64,
        word_embed_proj_dim=48,
        use_cache=False,
    ),
    "gpt_neox": text("GPTNeoXConfig", "GPTNeoXForCausalLM", use_cache=False, **TEXT),
    "gpt_neo": text(
        "GPTNeoConfig",
        "GPTNeoForCausalLM",
        hidden_size=48,
        num_layers=2,
        num_heads=4,
        vocab_size=97,
        attention_types=[[["global", "local"], 1]],
        window_size=8,
        max_position_embeddings=64,
        use_cache=False,
    ),
    "gpt2 with a cache": text(
        "GPT2Config", "GPT2LMHeadModel", n_layer=2, n_embd=48, n_head=4, vocab_size=97, n_positions=32
    ),
    "mistral": text("MistralConfig", "MistralForCausalLM", sliding_window=8, **GROUPED),
    "mixtral": text("MixtralConfig", "MixtralForCausalLM", num_local_experts=4, **GROUPED),
    "qwen2": text("Qwen2Config", "Qwen2ForCausalLM", **GROUPED),
    "qwen3": text("Qwen3Config", "Qwen3ForCausalLM", head_dim=12, **GROUPED),
    "gemma": text("GemmaConfig", "GemmaForCausalLM", head_dim=12, **GROUPED),
    "gemma2": text("Gemma2Config", "Gemma2ForCausalLM", head_dim=12, sliding_window=8, **GROUPED),
    "phi": text("PhiConfig", "PhiForCausalLM", use_cache=False, **TEXT),
    "falcon": text(
        "FalconConfig",
        "FalconForCausalLM",
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=97,
        use_cache=False,
    ),
    "bloom": text(
        "BloomConfig", "BloomForCausalLM", hidden_size=48, n_layer=2, n_head=4, vocab_size=97, use_cache=False
    ),
    "mamba": text(
        "MambaConfig",
        "MambaForCausalLM",
        hidden_size=32,
        num_hidden_layers=2,
        vocab_size=97,
        state_size=4,
        use_cache=False,
    ),
    "clip": _clip,
    "whisper": _whisper,
    "deit": image("DeiTConfig", "DeiTModel", **VIT),
    "dinov2": image("Dinov2Config", "Dinov2Model", **VIT),
    "swin": image(
        "SwinConfig",
        "SwinModel",
        image_size=32,
        patch_size=2,
        embed_dim=12,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    ),
    "convnext": image("ConvNextConfig", "ConvNextModel", **_STAGES),
    "resnet": image("ResNetConfig", "ResNetModel", embedding_size=8, layer_type="basic", **_STAGES),
    "segformer": image(
        "SegformerConfig",
        "SegformerForSemanticSegmentation",
        size=64,
        depths=[1, 1, 1, 1],
        hidden_sizes=[8, 16, 24, 32],
        num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=24,
    ),
}


@dataclasses.dataclass(frozen=True)
class Row:
    """What became of one architecture.

    Attributes:
        name: Which.
        n_graphs: Graphs that Dynamo made.
        share: Of the bytes outside products, convolutions and attention, those that generated kernels move.
        error: The largest difference from float64, relative to each result's scale.
        eager_error: Eager's own.
        fallbacks: What is left to ATen or eager, and why.
    """

    name: str
    n_graphs: int
    share: float
    error: float
    eager_error: float
    fallbacks: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """No farther from float64 than eager is, times a small factor."""
        return self.error <= 3 * self.eager_error + 2e-6


def measure(name: str, dynamic: bool | None = None) -> Row:
    """Compiles one architecture and compares it with eager and with float64."""
    torch.manual_seed(0)
    torch.compiler.reset()
    module, kwargs = ARCHITECTURES[name]()
    reports: list[GraphReport] = []
    backend = functools.partial(longhand_backend, report=reports.append)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = tensors(module(**kwargs))
        actual = tensors(torch.compile(module, backend=backend, dynamic=dynamic)(**kwargs))
        wide = exact(module, kwargs) or expected
    if [(t.shape, t.dtype) for t in actual] != [(t.shape, t.dtype) for t in expected]:
        raise AssertionError(f"{name}: results of other shapes or types than eager's")
    summaries = [report.summary for report in reports if report.summary]
    ours = sum(summary.kernel_bytes for summary in summaries)
    others = sum(summary.library_bytes for summary in summaries)
    calls = {f"{c.target}: {c.reason}" for summary in summaries for c in summary.library_calls if c.reason}
    reasons = [f"eager: {report.reason}" for report in reports if report.reason]
    return Row(
        name,
        len(reports),
        ours / max(ours + others, 1),
        worst(actual, wide),
        worst(expected, wide),
        (*reasons, *sorted(calls)),
    )


def tensors(result: Any) -> list[torch.Tensor]:
    """The tensors of a result, in order."""
    leaves = pytree.tree_leaves(dict(result) if hasattr(result, "keys") else result)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def exact(module: nn.Module, kwargs: dict[str, Any]) -> list[torch.Tensor] | None:
    """The results in float64; None where some operation has none."""
    wide = {key: value.double() if value.is_floating_point() else value for key, value in kwargs.items()}
    try:
        return tensors(module.double()(**wide))
    except RuntimeError:
        return None
    finally:
        module.float()


def worst(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest difference, relative to the scale of its tensor."""
    found = 0.0
    for ours, wide in zip(actual, expected, strict=True):
        if wide.numel():
            scale = wide.double().abs().max().clamp_min(1e-12)
            found = max(found, ((ours.double() - wide.double()).abs().max() / scale).item())
    return found


def main() -> int:
    """Prints the table."""
    dynamic = True if "--dynamic" in sys.argv else None
    names = [name for name in sys.argv[1:] if not name.startswith("--")] or list(ARCHITECTURES)
    n_wrong = 0
    print(f"{'architecture':<18} graphs  kernels    error    eager's")
    for name in names:
        row = measure(name, dynamic)
        n_wrong += not row.is_right
        verdict = "" if row.is_right else "  WRONG"
        print(
            f"{row.name:<18} {row.n_graphs:>6} {row.share:>8.0%} {row.error:>8.1e} {row.eager_error:>10.1e}{verdict}",
            flush=True,
        )
        for fallback in row.fallbacks:
            print(f"    {fallback[:160]}")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
