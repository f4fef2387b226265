"""Hugging Face models (small, random weights) through the export door."""

from __future__ import annotations

import pytest
import torch
import transformers


def gpt2():
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=99, n_positions=32)
    config.use_cache = False
    return transformers.GPT2LMHeadModel(config), (torch.randint(0, 99, (2, 7)),), {}


def bert():
    config = transformers.BertConfig(
        num_hidden_layers=2, num_attention_heads=2, hidden_size=32, intermediate_size=64, vocab_size=99
    )
    mask = torch.ones(2, 7, dtype=torch.long)
    return transformers.BertModel(config), (torch.randint(0, 99, (2, 7)),), {"attention_mask": mask}


def llama():
    config = transformers.LlamaConfig(
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=32,
        intermediate_size=64,
        vocab_size=99,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config), (torch.randint(0, 99, (2, 7)),), {}


def vit():
    config = transformers.ViTConfig(
        num_hidden_layers=2,
        num_attention_heads=2,
        hidden_size=32,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
    )
    return transformers.ViTModel(config), (torch.randn(2, 3, 32, 32),), {}


@pytest.mark.parametrize("make", [gpt2, bert, llama, vit])
def test_matches_eager(captured, make):
    model, args, kwargs = make()
    graph = captured(model.eval(), args, kwargs)
    targets = {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
    assert "aten.scaled_dot_product_attention.default" in targets
    origins = [node.meta["provenance"] for node in graph.graph.nodes if node.op == "call_function"]
    assert all("transformers" in origin.file for origin in origins if origin.file)
    assert sum(bool(origin.statement) for origin in origins) >= 0.95 * len(origins)
