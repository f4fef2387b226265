"""A decoder of transformers with a static cache: prompt and steps run in kernels, by either door, and are eager's."""

import pytest
import torch
import transformers

import longhand

CONFIG = transformers.LlamaConfig(
    vocab_size=53,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=48,
)


def steps(run):
    """A prompt of five tokens and one more; the scores of each call, and what the cache holds at last."""
    cache = transformers.StaticCache(config=CONFIG, max_cache_len=9)
    found = []
    with torch.no_grad():
        for tokens in (torch.arange(2, 7)[None], torch.tensor([[11]])):
            found.append(run(input_ids=tokens, past_key_values=cache).logits)
    return [*found, cache.layers[0].keys, cache.layers[0].values]


@pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated")
@pytest.mark.parametrize("door", ["torch.compile", "longhand.compile"])
def test_steps_run_in_kernels(door, hook, tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("LONGHAND_STRICT", "1")  # what runs in eager raises
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(CONFIG).eval()
    longhand.reset()
    compiled = (
        torch.compile(model, backend="longhand") if door == "torch.compile" else longhand.compile(model)
    )
    for ours, eager in zip(steps(compiled), steps(model), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)
    assert list(tmp_path.rglob("model.py"))
