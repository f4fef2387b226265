"""A value has one name in a unit: where it is made, where it is passed, in the record, in the kernel, and backwards."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.readability.units import text_of
from tests.emit.test_plain_names import parameters


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


class Norm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.weight * (states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + 1e-6))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = Norm(16), Norm(16)
        self.query, self.up, self.down = nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        query = self.query(self.before(states))
        rotated_query = (query * cos) + (rotate_half(query) * sin)
        states = states + rotated_query
        return states + self.down(F.gelu(self.up(self.between(states))))


class Partial(nn.Module):
    """Turns the first half of each query and key alone, which is then joined with the rest: the terms are kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q, k = self.query(x).view(2, 8, 4, 8).transpose(1, 2), self.key(x).view(2, 8, 4, 8).transpose(1, 2)
        turned, rest = q[..., :4], q[..., 4:]
        q_embed = (turned * cos) + (rotate_half(turned) * sin)
        other_turned, other_rest = k[..., :4], k[..., 4:]
        k_embed = (other_turned * cos) + (rotate_half(other_turned) * sin)
        q_whole = torch.cat([q_embed, rest], dim=-1)
        k_whole = torch.cat([k_embed, other_rest], dim=-1)
        return F.scaled_dot_product_attention(q_whole, k_whole, k_whole)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, 16, padding_idx=3)
        self.places, self.kinds, self.parts = nn.Embedding(8, 16), nn.Embedding(8, 16), nn.Embedding(8, 16)
        self.rows, self.columns = nn.Embedding(8, 16), nn.Embedding(8, 16)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm = Norm(16)

    def forward(self, ids: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        at = torch.zeros_like(ids)
        states = (
            self.tokens(ids)
            + self.places(at)
            + self.kinds(at)
            + self.parts(at)
            + self.rows(at)
            + self.columns(at)
        )
        for layer in self.layers:
            states = layer(states, cos, sin)
        return self.norm(states)


@pytest.fixture(scope="module")
def unit() -> dict[str, str]:
    torch.manual_seed(0)
    given = (torch.randint(50, (2, 8)), torch.randn(8, 16), torch.randn(8, 16))
    return text_of((Model().train(), given, {}), "cuda", train=True)


def kernels(unit: dict[str, str]) -> dict[str, str]:
    return {path: text for path, text in unit.items() if path.startswith("kernels/") and "_ptr" in text}


def calls(unit: dict[str, str]) -> dict[str, list[list[str]]]:
    """By kernel what its calls pass by place."""
    passed: dict[str, list[list[str]]] = {}
    for file in ("model.py", "backward.py"):
        for name, given in re.findall(r"kernels\.(\w+)\(([^()]*)", unit[file]):
            own = [one.strip() for one in given.split(",") if one.strip() and "=" not in one]
            passed.setdefault(name, []).append(own)
    return passed


def test_the_gradient_of_a_result_is_called_after_it(unit: dict[str, str]) -> None:
    """It was d_states, of whatever the user's forward called so last."""
    (result,) = re.findall(r"return (\w+), saved", unit["model.py"])
    assert f"def backward(ctx, d_{result}):" in unit["backward.py"]
    assert re.search(rf"def \w+_backward\(model, saved, d_{result}\):", unit["backward.py"])


def test_records_have_the_words_of_the_forward_pass(unit: dict[str, str]) -> None:
    (record,) = re.findall(r"saved = LayerSaved\(([^)]*)\)", unit["model.py"])
    fields = re.findall(r"(\w+)=([\w.]+)", record)
    assert fields and all(field == value for field, value in fields)


def test_what_a_layer_returns_and_its_gradient_have_one_word(unit: dict[str, str]) -> None:
    """The gradient was d_output."""
    (returned,) = re.findall(r"^        return ([\w, ]+), saved\n\n\nclass Model", unit["model.py"], re.M)
    (given,) = re.findall(r"def layer_backward\(layer, saved, (d_\w+)", unit["backward.py"])
    assert given.removeprefix("d_") in returned.split(", ")


def test_a_kernel_calls_what_it_is_given_as_all_of_its_calls_do(unit: dict[str, str]) -> None:
    """Or what that ends in, which says no place: ``states`` of ``layer_0_states``."""
    texts = {path.split("/")[1].removesuffix(".py"): text for path, text in kernels(unit).items()}
    n_told = 0
    for name, given in calls(unit).items():
        words = parameters(texts[name]) if re.search(r'"""(?:Fill|Update)', texts[name]) else []
        for place, word in enumerate(words[: len(given[0])]):
            variables = {one[place].rpartition(".")[2] for one in given}
            if len(variables) == 1 and not {"weight", "bias", "next"} & {*min(variables).split("_")}:
                assert f"_{min(variables).removeprefix('d_')}".endswith(f"_{word.removeprefix('d_')}"), (
                    name,
                    word,
                )
                n_told += 1
    assert n_told > 20


@pytest.fixture(scope="module")
def partial() -> dict[str, str]:
    torch.manual_seed(0)
    given = (torch.randn(2, 8, 32), torch.randn(8, 4), torch.randn(8, 4))
    return text_of((Partial().train(), given, {}), "cuda", train=True)


class Terms(nn.Module):
    def forward(self, x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        shifted = (x.sum(0) * gain) + x  # the target names the term
        return shifted * 1.5


def test_the_terms_of_a_statement_say_of_what_and_by_what() -> None:
    """They were ``product``, ``second_product`` and ``mul``."""
    given = (torch.randn(4096, 300), torch.randn(300))
    words = {*re.findall(r"\w+", text_of((Terms(), given, {}), "cuda", train=False)["model.py"])}
    assert "shifted_gain_term" in words
    assert not {word for word in words if word.endswith("product")}


def test_parts_of_a_gradient_say_where_each_comes_from(partial: dict[str, str]) -> None:
    """No module is between two of a value: they had the same word."""
    words = {*re.findall(r"\w+", "".join([partial["backward.py"], *kernels(partial).values()]))}
    assert {"d_turned_from_cos", "d_turned_from_rotate_half"} <= words


def test_a_sum_of_what_has_names_is_no_run_of_partial_sums(unit: dict[str, str]) -> None:
    """It was sum_of_three, sum_of_five and second_total."""
    assert not re.findall(r"sum_of_(?!squares|products)\w+|second_total", "".join(kernels(unit).values()))


def test_what_has_no_gradient_is_padding(unit: dict[str, str]) -> None:
    """The mask was ``writes_d_tokens``."""
    (text,) = [text for path, text in kernels(unit).items() if "ids != 3" in text]
    assert "is_not_padding = ids != 3" in text and "writes_" not in text


def test_only_what_no_weight_multiplies_is_normalized(unit: dict[str, str]) -> None:
    for text in kernels(unit).values():
        assert not re.findall(r"\bnormalized = (?:weight|\w+_weight) \*", text)
        assert not re.findall(r"\bnormalized = .*\* (?:weight|\w+_weight)\b", text)
