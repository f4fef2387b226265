"""Units of models of nearly equal layers: results, gradients and state_dict are eager's, whatever the layers hold."""

import pytest
import torch

from longhand.errors import CaptureError
from tests.models.fresh_state import differences, dynamic_differences
from tests.models.layered import LAYERED

# One for each way in which layers were, or could be, taken for one another.
INFERENCE = [
    "rotary_bases_5",
    "one_rotary_base_that_differs_6",
    "plain_tensors_7",
    "small_buffers_5",
    "made_tensors_3",
    "permutations_7",
    "shifted_windows_3",
    "some_buffers_in_the_state_dict_6",
    "chosen_parts_4",
    "spectral_norms_3",
    "there_and_back_5",
    "modules_in_turn_6",
    "pyramid_3",
    "orthogonal_1",
    "skipped_layers_6",
    "graph_network_3",
]
TRAINING = [
    "fused_qkv_rotary_bases_2",
    "plain_tensors_3",
    "checkpointed_2",
    "graph_network_2",
    "shuffled_channels_2",
    "weight_norms_3",
    "tied_weights_5",
    "translator_5",
]
# Their power iteration writes, unseen by autograd, what the weight is divided by: refused, and said so.
REFUSED_IN_TRAINING = ["spectral_norms_1", "spectral_norms_3"]
DYNAMIC = ["tied_head_3", "shifted_windows_2", "shifts_5"]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("name", INFERENCE)
def test_inference(name, tmp_path):
    model, args = LAYERED[name]()
    assert not differences(model, (args, {}), tmp_path / "unit")


@pytest.mark.parametrize("name", TRAINING)
def test_training(name, tmp_path):
    model, args = LAYERED[name]()
    assert not differences(model, (args, {}), tmp_path / "unit", train=True)


@pytest.mark.parametrize("name", DYNAMIC)
def test_symbolic_sizes(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model, args = LAYERED[name]()
    assert not dynamic_differences(model, (args, {}))


def test_what_autograd_does_not_see_is_refused(tmp_path):
    model, args = LAYERED[REFUSED_IN_TRAINING[0]]()
    with pytest.raises(CaptureError, match="where autograd does not see it"):
        differences(model, (args, {}), tmp_path / "unit", train=True)
    assert not (tmp_path / "unit").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LAYERED if name not in INFERENCE])
def test_inference_of_every_model(name, tmp_path):
    test_inference(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LAYERED if name not in TRAINING + REFUSED_IN_TRAINING])
def test_training_of_every_model(name, tmp_path):
    test_training(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LAYERED if name not in DYNAMIC])
def test_symbolic_sizes_of_every_model(name, tmp_path, monkeypatch):
    test_symbolic_sizes(name, tmp_path, monkeypatch)
