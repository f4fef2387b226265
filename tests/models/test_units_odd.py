"""Units of calls that no one thinks of first: nothing to compute, nested arguments, autocast, threads, new weights."""

import collections
import threading

import pytest
import torch
from torch import nn

from tests.models.unit_calls import agree, compare, generated

Pair = collections.namedtuple("Pair", "left right")


def test_tensors_without_elements(tmp_path):
    def f(x, y):
        return (x * 2).sum(0), torch.cat([x, y]), x @ y.t(), x.softmax(-1), (x + 1).relu()

    compare(f, [(torch.randn(0, 5), torch.randn(3, 5))] * 2, tmp_path / "rows")
    compare(lambda x: (x.sum(1), torch.cat([x, x]).flatten()), [(torch.randn(3, 0),)], tmp_path / "cols")


def test_nested_arguments_and_results(tmp_path):
    def f(named, listed, pair):
        return {"a": named["x"] + listed[0], "b": [listed[1] * 2, Pair(pair.left.sum(), None)]}

    calls = [
        ({"x": torch.randn(3, 4)}, [torch.randn(3, 4), torch.randn(2)], Pair(torch.randn(5), torch.randn(1)))
        for _ in range(2)
    ]
    unit = compare(f, calls, tmp_path / "u")
    with torch.no_grad(), pytest.raises(ValueError, match=r'named\["x"\]: expected shape \(3, 4\)'):
        unit({"x": torch.randn(9, 4)}, *calls[0][1:])


def test_results_of_torchs_own_types(tmp_path):
    compare(
        lambda x: (x.max(1), x.min(0), x.sort(1)),
        [(torch.randn(4, 5),), (torch.randn(4, 5),)],
        tmp_path / "u",
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_modules_of_other_types(dtype, tmp_path):
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 7), nn.Softmax(-1))
    compare(model.to(dtype), [(torch.randn(5, 16, dtype=dtype),) for _ in range(2)], tmp_path / "u")


def test_a_standard_deviation_of_columns(tmp_path):
    compare(lambda x: (x.std(0), x - x.var(0)), [(torch.randn(33, 20),)], tmp_path / "u")


def small(folder):
    model = nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.LayerNorm(40))
    return model, generated(model, (torch.randn(9, 24),), folder)


def test_under_autocast_a_unit_refuses(tmp_path):
    _, unit = small(tmp_path / "u")
    with (
        torch.no_grad(),
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(RuntimeError, match="autocast"),
    ):
        unit(torch.randn(9, 24))


def test_inference_mode_and_new_weights(tmp_path):
    model, unit = small(tmp_path / "u")
    x = torch.randn(9, 24)
    with torch.inference_mode():
        agree(unit(x.clone()), model(x))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
        agree(unit(x), model(x))


def test_a_unit_of_another_type_is_refused(tmp_path):
    _, unit = small(tmp_path / "u")
    with torch.no_grad(), pytest.raises(TypeError, match="float32"):
        unit.double()(torch.randn(9, 24))


def test_threads_share_a_unit(tmp_path):
    model, unit = small(tmp_path / "u")
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for _ in range(40):
                x = torch.randn(9, 24, generator=generator)
                if not torch.allclose(unit(x), model(x), atol=1e-5):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_parts_of_a_new_tensor_are_assigned(tmp_path):
    """What `new_zeros` makes is decomposed at capture; views of it are still views of it."""

    def f(tokens, table):
        shifted = tokens.new_zeros(tokens.shape)
        shifted[:, 1:] = tokens[:, :-1].clone()
        shifted[:, 0] = 2
        shifted.masked_fill_(shifted == 7, 1)
        return torch.nn.functional.embedding(shifted, table) + 1, shifted

    compare(f, [(torch.randint(9, (2, 7)), torch.randn(9, 5)) for _ in range(2)], tmp_path / "u")


def test_a_row_that_is_always_the_same(tmp_path):
    def f(x, table):
        return x + torch.nn.functional.embedding(torch.zeros(x.shape[0], dtype=torch.int64), table)

    compare(f, [(torch.randn(3, 5), torch.randn(9, 5)) for _ in range(2)], tmp_path / "u")
