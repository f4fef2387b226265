"""A varied thirty of the table of architectures: of fourteen every kernel of the CUDA unit compiles to a binary,
without a GPU (of three of them in the sweep: tests/long_cases.txt); sixteen more are right on the CPU, in kernels,
through ``longhand.compile``.

To compile those for a GPU, too, takes ten minutes of two cores: that, and the whole table
(``python -m benchmarks.architectures --compile-only``), belongs to ``make sweep``.
"""

import datetime
import itertools

import pytest
import torch
import transformers

from benchmarks.architectures import catalog
from benchmarks.architectures.calls import copied, tensors
from benchmarks.architectures.compiled import compiled_result
from benchmarks.architectures.cubins import cubin_result
from benchmarks.architectures.document import document
from benchmarks.architectures.processes import in_share
from benchmarks.architectures.rows import Book, Part, Result, Verdict
from benchmarks.architectures.scaling import scaled
from benchmarks.architectures.transformers_asked import corrections
from benchmarks.report import versions
from longhand.options import Frontend

THIRTY = (
    "audio-spectrogram-transformer",
    "bart",
    "bert",
    "bloom",
    "clip",
    "cohere",
    "convnextv2",
    "deberta-v2",
    "dinov2",
    "falcon",
    "fnet",
    "gemma2",
    "gpt2",
    "gpt_neo",
    "gpt_neox",
    "llama",
    "mamba2",
    "mistral",
    "mobilenet_v2",
    "nystromformer",
    "opt",
    "phi3",
    "poolformer",
    "qwen3",
    "resnet",
    "segformer",
    "squeezebert",
    "t5",
    "vit",
    "whisper",
)
# Those of which all kernels are compiled in less than half a minute: mamba2's take two.
QUICK = THIRTY[::2][:8] + THIRTY[::2][9:]

# At most four seconds of one core each, fifty together (AMD, PyTorch 2.13): what takes longer is left to the table.
ON_CPU = (
    "albert",
    "bart",
    "biogpt",
    "ctrl",
    "distilbert",
    "electra",
    "gpt_neo",
    "llama",
    "mistral",
    "mpt",
    "nystromformer",
    "olmo",
    "phi3",
    "qwen3",
    "t5",
    "whisper",
)


def test_thirty_are_tried():
    assert len({*QUICK, *ON_CPU}) == 30


@pytest.mark.parametrize("name", ON_CPU)
def test_inference_is_right_in_kernels(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    example = catalog.example(f"transformers/{name}")
    result = compiled_result(example, torch.float32, Frontend.BYTECODE, train=False)
    assert result.verdict is Verdict.RIGHT, result
    assert result.numbers["kernels"] and result.numbers["share"] >= 0.5, result


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in THIRTY),
        "vit_mae",  # draws noise on the GPU, by name
    ],
)
def test_kernels_compile(name):
    result = cubin_result(catalog.example(f"transformers/{name}"), "sm_90", train=False)
    assert result.verdict is Verdict.RIGHT, result
    assert result.numbers["kernels"], result


def test_a_cache_that_the_first_call_fills_is_filled_before_a_unit_is_made():
    """Alibi keeps its biases as a buffer: the unit was refused for what only the first call changes."""
    pytest.importorskip("x_transformers")
    result = cubin_result(catalog.example("x_transformers/alibi"), "sm_90", train=False)
    assert result.verdict is Verdict.RIGHT and result.numbers["kernels"], result


def test_nothing_ties_in_a_model_of_the_table():
    """Doge scales what `topk` chooses among by a parameter that is made of zeros."""
    module, *_ = catalog.example("transformers/doge")
    assert all(p.any() for p in module.parameters() if p.numel() > 1)


def test_inputs_are_those_that_a_compiled_model_takes():
    """LongT5 makes itself a mask in eager, and expects one where it is told that it is compiled."""
    _, _, kwargs = catalog.example("transformers/longt5")
    assert "attention_mask" in kwargs


@pytest.mark.parametrize("name", ["rotate", "dilation"])
def test_what_a_step_is_called_with_goes_where_the_step_goes(name):
    """Angles were left in float32: there was no exact result to hold a rotation against, and none on a GPU at all."""
    pytest.importorskip("kornia")
    module, args, kwargs = copied(catalog.example(f"kornia/{name}"), torch.float64)
    assert module(*args, **kwargs).dtype is torch.float64
    assert [buffer.device.type for buffer in module.to("meta").buffers()] == ["meta"]


@pytest.mark.parametrize(
    "name",
    [
        *["qwen2_vl_text", "glm46v", "speech_to_text", "vibevoice_acoustic_tokenizer_encoder", "ovis2"],
        # sound of one channel; patches of images; what training hides
        *["dac", "glm_ocr_vision", "train/sew"],
        # settings without a default, and inputs that no rule guesses
        *["reformer", "time_series_transformer", "conditional_detr", "siglip2", "hgnet_v2", "uvdoc"],
        # one factor for all widths; a decoder that stands for a whole of three; sizes that checkpoints alone tell
        *["d_fine", "musicgen_melody", "deepseek_ocr2", "dbrx"],
        # several streams of words; sound with a channel; patches with their places; widths that layers tell
        *["kyutai_speech_to_text", "clap", "gemma4_vision", "granite_speech5_ctc"],
    ],
)
def test_a_row_can_be_made(name):
    """Whose configuration leaves out what its model's code names: sections that turn, filters that double."""
    row = f"transformers/{name.removeprefix('train/')}"
    module, args, kwargs = catalog.example(row, train=name.startswith("train/"))
    with torch.no_grad():
        assert any(tensor.isfinite().all() for tensor in tensors(module(*args, **kwargs)))


def test_one_factor_keeps_what_is_equal():
    """A width that another part of the model reads is divided as that part's is; counts and stages stay."""
    default = transformers.RTDetrConfig()
    small = scaled(default, 8, {})
    backbone = small.backbone_config
    assert list(small.encoder_in_channels) == list(backbone.hidden_sizes[1:]) == [64, 128, 256]
    assert small.d_model == small.encoder_hidden_dim == 32 and small.decoder_attention_heads == 8
    assert list(backbone.out_indices) == [2, 3, 4] and small.decoder_layers == 2


def test_what_an_error_says_of_a_size_is_mended():
    features = {"input_features": torch.randn(2, 80, 64), "input_ids": torch.zeros(2, 19, dtype=torch.long)}
    told = RuntimeError("mat1 and mat2 shapes cannot be multiplied (160x64 and 320x64)")
    [mended] = corrections(None, features, told)
    assert mended["input_features"].shape == (2, 80, 320) and mended["input_ids"] is features["input_ids"]
    assert corrections(None, features, RuntimeError("something else")) == []


def test_the_page_tells_what_has_no_model():
    """With the reason; not what was made elsewhere."""
    results = {
        ("family/a", "cpu fp32", "made"): Result(Verdict.NOT_MADE, "ImportError: a needs natten"),
        ("family/b", "cpu fp32", "made"): Result(Verdict.RIGHT),
        ("family/c", "cpu fp32", "made"): Result(Verdict.NOT_MADE, "RuntimeError: old"),
        ("family/c", "cuda fp32", "inference"): Result(Verdict.RIGHT),
    }
    text = document(results, dict.fromkeys(results, "torch"))
    assert "1 rows have no model here, of 3 that were tried:\n\n" in text
    assert "- family/a: needs a package that is not here: ImportError: a needs natten\n" in text


def test_results_are_kept_and_found_again(tmp_path):
    book = Book(tmp_path / "results.jsonl")
    book.add("family/a", "cpu fp32", Part.INFERENCE, Result(Verdict.WRONG, "error", {"error": 1.0}))
    book.add("family/a", "cpu fp32", Part.INFERENCE, Result(Verdict.RIGHT, "", {"error": 0.0}))
    again = Book(tmp_path / "results.jsonl")
    assert again.results == book.results and again.knows("family/a", "cpu fp32", Part.INFERENCE)
    assert again.measured_with == book.measured_with
    text = document(again.results, again.measured_with)
    today = datetime.date.today().isoformat()
    assert f"Measured, cpu fp32: {versions()}, {today}." in text and "| family | 1 |" in text
    assert "No breaks were counted." in text
    assert not again.knows("family/a", "cpu bf16", Part.INFERENCE)


def test_the_page_tells_where_more_breaks_than_dynamo():
    """In inference and in training apart; what was not counted is told in italics, and Dynamo's failures by name."""
    counted = {
        ("family/a", "cpu fp32", "capture"): (3, ["a.py:1: print"]),
        ("family/a", "cpu fp32", "dynamo"): (1, []),
        ("family/b", "cpu fp32", "capture"): (2, ["b.py:1: print"]),
        ("family/b", "cpu fp32", "dynamo"): (1, ["b.py:2: print"]),
        ("family/c", "cpu fp32", "capture"): (1, []),
        ("family/d", "cuda fp32", "inference"): (4, 5),
        ("family/b", "cpu fp32 train", "capture"): (1, []),
        ("family/b", "cpu fp32 train", "dynamo"): (1, []),
    }
    results = {
        key: Result(Verdict.RIGHT, "", {"graphs": graphs, "breaks": breaks})
        for key, (graphs, breaks) in counted.items()
    }
    # What Dynamo hides in a function that it leaves to CPython counts all the same.
    left = {"graphs": 1, "breaks": ["e.py:5 in f: print"], "left": ["e.py:f"]}
    seen = {"graphs": 3, "breaks": ["e.py:5 in f: print", "e.py:6 in f: print"]}
    results["family/e", "cpu fp32", "capture"] = Result(Verdict.RIGHT, "", seen)
    results["family/e", "cpu fp32", "dynamo"] = Result(Verdict.RIGHT, "", left)
    results["family/f", "cpu fp32", "capture"] = results[
        "family/c", "cpu fp32", "capture"
    ]  # and Dynamo not tried
    results["family/c", "cpu fp32", "dynamo"] = Result(Verdict.FAILED, "InternalTorchDynamoError")
    text = document(results, dict.fromkeys(results, "torch"))
    assert (
        "More breaks than Dynamo, cpu fp32: family/a, family/e, of 3 rows where both were counted. "
        "Dynamo fails on family/c.\n"
    ) in text
    assert "More breaks than Dynamo, cpu fp32 train: none, of 1 rows where both were counted." in text
    assert "| family | 6 | 0 of 3 | 1 of 3 | 2 | 1 of 1 | 1 of 1 | 0 | 1 of 1 |" in text
    assert "| b | 2 (1) | 1 (1) | 1 (0) | 1 (0) |  |" in text and "| d | *4 (5)* |  |  |  | right |" in text
    assert "- a, breaks, cpu fp32: a.py:1: print" in text


def test_shares_are_apart_and_whole():
    rows = [str(number) for number in range(10)]
    shares = [list(in_share(rows, f"{number}/3")) for number in (1, 2, 3)]
    assert sorted(itertools.chain(*shares)) == rows
    with pytest.raises(ValueError):
        list(in_share(rows, "4/3"))
