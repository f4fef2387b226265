"""Training steps on a GPU: all in generated kernels, and what is not is an error here, with the unit's line."""

import copy
import warnings

import pytest
import torch
import transformers

import longhand
from longhand.errors import EagerWarning

pytestmark = pytest.mark.gpu


def vit():
    config = transformers.ViTConfig(
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=32,
        patch_size=8,
    )
    return transformers.ViTForImageClassification(config), lambda: {
        "pixel_values": torch.randn(4, 3, 32, 32, device="cuda"),
        "labels": torch.randint(0, 2, (4,), device="cuda"),
    }


def decoder():
    config = transformers.LlamaConfig(
        vocab_size=101,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=128,
    )

    def batch():
        tokens = torch.randint(0, 101, (2, 33), device="cuda")
        return {"input_ids": tokens, "labels": tokens, "use_cache": False}

    return transformers.LlamaForCausalLM(config), batch


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
@pytest.mark.parametrize("make", [vit, decoder])
def test_a_training_step(make, frontend, dtype, tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("LONGHAND_STRICT", "1")
    longhand.reset()
    torch.manual_seed(0)
    model, batch = make()
    model = model.to("cuda", dtype).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    ours = copy.deepcopy(model)
    run = longhand.compile(ours, frontend=frontend)
    tolerance = 5e-2 if dtype is torch.bfloat16 else 2e-3
    with warnings.catch_warnings():
        warnings.simplefilter("error", EagerWarning)
        for _ in range(2):
            given = {
                name: value.to(dtype) if torch.is_tensor(value) and value.is_floating_point() else value
                for name, value in batch().items()
            }
            losses = [called(**given).loss for called in (run, model)]
            torch.testing.assert_close(losses[0], losses[1], rtol=tolerance, atol=tolerance)
            for loss in losses:
                loss.backward()
    largest = max(one.grad.abs().max().item() for one in model.parameters() if one.grad is not None)
    for (name, theirs), mine in zip(model.named_parameters(), ours.parameters(), strict=True):
        if theirs.grad is not None:
            # A softmax takes away what a bias of keys adds: its gradient is rounding alone.
            scale = max(theirs.grad.abs().max().item(), 1e-3 * largest)
            worst = (mine.grad - theirs.grad).abs().max().item()
            assert worst <= tolerance * scale, f"{name}: {worst:.3g} of {scale:.3g}"
