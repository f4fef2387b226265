"""Numbers that no tensor tells stand once, at the top of model.py and backward.py; a module's name is no value's."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of
from longhand.emit.layers.file_settings import FileSettings, with_words
from longhand.emit.text.expression import scale_text
from longhand.emit.text.python_code import CallCode, KeywordCode, LiteralCode, NameCode, ProductCode
from longhand.schedule.modules.settings import sizes_of_file
from longhand.schedule.names.layer_names import as_called
from longhand.schedule.names.meanings.values_of_modules import names_of_modules, of_value
from longhand.schedule.names.words import GradientWord, Scope


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(48, 144)
        self.proj = nn.Linear(48, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        head_dim = 12
        q, k, v = self.qkv(x).view(batch, seq, 3, -1, head_dim).unbind(2)
        scores = (torch.tanh(q).transpose(1, 2) @ k.permute(0, 2, 3, 1)).softmax(-1)
        out = (scores @ v.transpose(1, 2)).transpose(1, 2).reshape(batch, seq, dim)
        return self.proj(out)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(48, eps=1e-3)
        self.attn = Attention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.attn(self.norm(x))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.last = nn.LayerNorm(48, eps=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


def bodies(text: str) -> list[ast.FunctionDef]:
    named = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    return [node for node in named if node.name != "__init__"]


def test_numbers_stand_at_the_top(emit: Callable[..., Any]) -> None:
    text = str(emit(Model().eval(), (torch.randn(2, 5, 48),), device="cuda")["model.py"])
    assert text.count("EPS = 0.001") == 1 and "eps=EPS" in text and "eps=0.001" not in text
    top = text[: text.index("class ")]
    assert "HEAD_DIM = 12" in top
    launches = [node for body in bodies(text) for node in ast.walk(body) if isinstance(node, ast.Call)]
    launches = [node for node in launches if ast.unparse(node.func).startswith("kernels.")]
    given = [one for call in launches for one in (*call.args, *(word.value for word in call.keywords))]
    numbers = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, int)]
    assert launches and max(numbers, default=0) < 10
    assert not any(isinstance(one, ast.Constant) for call in launches for one in call.args)  # all by keyword


def test_layers_have_headings_and_plain_calls_no_quotes(emit: Callable[..., Any]) -> None:
    text = str(emit(Model().eval(), (torch.randn(2, 5, 48),), device="cuda")["model.py"])
    assert text.count("        # attn\n") == 1
    assert "self.qkv(x)" not in text and "self.proj(out)" not in text  # a call of the weight says that


def test_no_value_is_called_as_a_module(emit: Callable[..., Any]) -> None:
    text = str(emit(Model().eval(), (torch.randn(2, 5, 48),), device="cuda")["model.py"])
    assigned = {
        name.id
        for body in bodies(text)
        for node in ast.walk(body)
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }
    assert assigned and not assigned & {"norm", "attn", "proj", "qkv", "last"}


def test_the_words_of_modules_give_way_to_those_of_values() -> None:
    modules = names_of_modules(["layers.0.attn.o_proj", "layers.0.post_norm", "layers.0.mlp"])
    assert list(of_value("o_proj", modules, set())) == ["o_proj_out"]
    assert list(of_value("post_norm", modules, set())) == ["normed", "post_norm_out"]
    assert list(of_value("mlp", modules, {"mlp"})) == ["mlp"]  # the user's own
    assert list(of_value("hidden", modules, set())) == ["hidden"]
    assert list(of_value(GradientWord("mlp"), modules, set())) == ["d_mlp_out"]


def test_a_word_of_several_sizes_is_no_constant() -> None:
    stated = [{"head_dim": 12, "n": 65}, {"n": 226, "dim": "self.dim"}, {"head_dim": 12, "eps": 3}]
    assert sizes_of_file(stated, {"EPS"}) == {"head_dim": 12}


class ByLetters(nn.Module):
    """A local of the user's is called as a constant would be."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        EPS = torch.tanh(x) * x.sum(-1, keepdim=True)
        return torch.nn.functional.layer_norm(EPS @ x.mT, (7,)) @ EPS


def test_a_users_name_is_no_constant(emit: Callable[..., Any]) -> None:
    text = str(emit(ByLetters().eval(), (torch.randn(2, 7, 12),), device="cuda")["model.py"])
    assert "eps=1e-5" in text and "eps=EPS" not in text


def test_names_inside_an_expression_are_exchanged() -> None:
    size = ProductCode((NameCode("batch"), NameCode("dim")))
    eps, other = KeywordCode("eps", LiteralCode("1e-5")), KeywordCode("eps", LiteralCode("1e-6"))
    call = CallCode("kernels.norm", (NameCode("x"), KeywordCode("dim", size), eps, other))
    written = str(with_words(call, {"dim": "DIM"}, {"eps": 1e-5}))
    assert written == "kernels.norm(x, dim=batch * DIM, eps=EPS, eps=1e-6)", "what is another number stays"


def test_one_word_is_one_size() -> None:
    """hieradet had SHORTCUT_DIM = 192 beside shortcut_dim = 384, and H = 8, which every function hid."""
    assert sizes_of_file([{"H": 8, "dim": 64}], set()) == {"dim": 64}, "the user's own capitals are a local's"
    settings = FileSettings({}, set(), {"shortcut_dim": 192, "dim": 64})
    assert settings.constant("dim", 64) == "DIM" and settings.constant("H", 8) == ""
    assert settings.constant("shortcut_dim", 384) == "" and "shortcut_dim" not in settings.sizes
    assert settings.constant("shortcut_dim", 192) == "", "what one function has otherwise is no constant"
    of_kernels = FileSettings.of({"scale": 0.5}, set(), (), ())
    assert of_kernels.constant("scale", 4) == "" and of_kernels.sizes == {}, "SCALE is the number of kernels"


def test_one_word_is_one_size_in_both_files() -> None:
    """A UNet's model.py had SAMPLE_CHANNELS = 3, and its backward.py SAMPLE_CHANNELS = 32."""
    settings = FileSettings.of({}, set(), (), (), {"sample_channels": 3, "dim": 64})
    assert settings.constant("sample_channels", 32) == "" and settings.constant("dim", 64) == "DIM"
    assert settings.sizes == {"dim": 64}


class Widened(nn.Module):
    """A row of three numbers, and of sixteen, that the user calls the same."""

    def __init__(self) -> None:
        super().__init__()
        self.widen, self.narrow, self.norm = nn.Linear(3, 16), nn.Linear(16, 3), nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.widen(x.reshape(2, -1, 3).exp()))
        return self.narrow(torch.cat([x[..., 8:].tanh(), x[..., :8]], -1)).exp()


def test_what_model_py_has_constants_of_is_told_to_backward_py(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, int]] = []
    made: list[FileSettings] = []
    write = FileSettings.of

    def spied(*given: Any) -> FileSettings:
        told.append(dict(given[4]))
        made.append(write(*given))
        return made[-1]

    monkeypatch.setattr(FileSettings, "of", spied)
    text_of((Widened().train(), (torch.randn(2, 24),), {}), "cpu", train=True)
    (of_model, of_backward), (model, _) = told, made
    assert of_model == {} and of_backward == model.sizes and model.sizes


def test_a_function_returns_what_its_caller_calls_it() -> None:
    names = {"a": "residual", "b": "hidden", "x": "total"}
    scope = Scope({"residual", "hidden", "total"})
    assert as_called(["a", "b"], ["hidden", "fc_out"], names, scope) == {"a": "hidden", "b": "fc_out"}
    # The caller's word is another value's inside: only what would be misread gives way.
    assert as_called(["a", "b"], ["hidden", "total"], names, scope) == {"b": "layer_hidden"}
    assert as_called(["a", "b"], ["x", "hidden"], names, scope) == {}


class Scores(nn.Module):
    """Attention whose scores are scaled by what heads are wide."""

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        self.scale = head_dim**-0.5

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        dots = torch.matmul(q, k) * self.scale
        return torch.softmax(dots * torch.sigmoid(dots), dim=-1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_scale_of_heads_is_written_as_that(device: str) -> None:
    """It was 0.125, in the kernel and in its reference."""
    given = torch.randn(2, 5, 64), torch.randn(2, 64, 5)
    texts = text_of((Scores(64).eval(), given, {}), device, train=False)
    kernels = "\n".join(text for path, text in texts.items() if path.startswith("kernels/"))
    assert "64**-0.5" in kernels and "* 0.125" not in kernels
    assert scale_text("SCALE", 0.125) == "64**-0.5"
    assert scale_text("SCALE", 0.5) is scale_text("SCALE", 0.1) is scale_text("BETA", 0.125) is None
