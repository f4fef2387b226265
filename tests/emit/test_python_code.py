"""Functions of model.py are compared as values, and each value is made of names and literals: no text in disguise."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import re
from collections.abc import Iterator

import pytest
import sympy
import torch
from torch import nn

import longhand
from longhand.emit.layers.layer_methods import Method, MethodStatements
from longhand.emit.text.python_code import (
    CallCode,
    Code,
    FormulaCode,
    InfixCode,
    ItemCode,
    KeywordCode,
    LiteralCode,
    MethodCode,
    NameCode,
    ProductCode,
    PythonStatement,
    SeveralCode,
    SliceCode,
    begun_with,
    formula,
    product,
    whole_number,
)

A_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+|\[(\d+|layer)\])*")
X, SEQ = NameCode("x"), NameCode("seq")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ProductCode((SEQ, InfixCode(SEQ, "-", whole_number(1)))), "seq * (seq - 1)"),
        (product([InfixCode(SEQ, "-", whole_number(1))]), "(seq - 1)"),
        (SeveralCode((X,)), "(x,)"),
        (SeveralCode((X, SEQ), "[]"), "[x, seq]"),
        (ItemCode(X, (SliceCode(), SliceCode(None, SEQ), whole_number(-1))), "x[:, :seq, -1]"),
        (MethodCode(MethodCode(X, "T"), "view", (SEQ,)), "x.T.view(seq)"),
        (
            CallCode("torch.cat", (SeveralCode((X,), "[]"), KeywordCode("dim", whole_number(0)))),
            "torch.cat([x], dim=0)",
        ),
        (CallCode("f", (KeywordCode("from", X, is_own=True),)), 'f(**{"from": x})'),
    ],
)
def test_code_is_printed(code: Code, text: str) -> None:
    assert str(code) == text
    ast.parse(text)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (PythonStatement(("x",), ItemCode(X, (whole_number(0),)), unpacks=True), "x, = x[0]"),
        (PythonStatement(value=X, word="return"), "return x"),
        (PythonStatement(("block",), X, word="for"), "for block in x:"),
        (PythonStatement(value=X, word="elif"), "elif x:"),
        (PythonStatement(word="pass", depth=1), "    pass"),
        (PythonStatement(("x",), SEQ, remark="in place"), "x = seq  # in place"),
    ],
)
def test_a_statement_is_printed(statement: PythonStatement, text: str) -> None:
    assert str(statement) == text


def test_formulas_are_the_same_where_their_words_are() -> None:
    s0, s1 = (sympy.Symbol(name, integer=True, positive=True) for name in ("s0", "s1"))
    one, other = formula(2 * s0 - 1, {"s0": "seq"}), formula(2 * s1 - 1, {"s1": "seq"})
    assert one == other and str(one) == str(other) == "2*seq - 1"
    assert one != formula(2 * s0 - 1, {"s0": "dim"}) and one != formula(2 * s0 + 1, {"s0": "seq"})


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).view(2, 6, 2, -1).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        return self.norm(x + self.out(torch.cat([mixed[..., 4:], mixed[..., :4]], dim=-1)))


class Stages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ModuleList([Block(8) for _ in range(3)])
        self.down = nn.Linear(8, 16)
        self.second = nn.ModuleList([Block(16) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.first:
            x = block(x)
        x = self.down(x)
        for block in self.second:
            x = block(x)
        return x


def leaves(value: object) -> Iterator[tuple[type, str]]:
    """Every text in a value, with the class that holds it."""
    if isinstance(value, FormulaCode):
        return
    if isinstance(value, tuple):
        for item in value:
            yield from leaves(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inside = getattr(value, field.name)
            yield from [(type(value), inside)] if isinstance(inside, str) else leaves(inside)


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def compared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[Method, Method]]:
    """The functions whose work is compared while a unit is made, in pairs."""
    asked: list[Method] = []
    work = Method.work.fget
    assert work is not None

    def watched(one: Method) -> MethodStatements:
        asked.append(one)
        return work(one)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Method, "work", property(watched))
        out = tmp_path_factory.mktemp("units") / "unit"
        arch = {} if request.param == "cpu" else {"arch": "sm_90"}
        longhand.generate(
            Stages().eval(), (torch.randn(2, 6, 8),), out=out, device=request.param, run=False, **arch
        )
    return list(itertools.pairwise(asked))


def test_what_is_compared_is_made_of_names_and_literals(compared: list[tuple[Method, Method]]) -> None:
    assert compared
    texts = [leaf for pair in compared for one in pair for leaf in leaves(one.work)]
    assert len(texts) > 100
    for kind, text in texts:
        if kind is LiteralCode:
            ast.literal_eval(text)
        elif kind is NameCode:
            assert A_NAME.fullmatch(text) or text.startswith("torch."), text
        elif kind in (CallCode, KeywordCode):
            assert A_NAME.fullmatch(text), text


def test_values_are_the_same_where_their_text_is(compared: list[tuple[Method, Method]]) -> None:
    """So that no function is written twice for how its values were made; and never one for two texts."""
    for one, other in compared:
        texts = [
            (method.parameters, list(map(str, method.statements)), list(map(str, method.bound.told)))
            for method in (one, other)
        ]
        assert (one.work == other.work) == (texts[0] == texts[1])


def test_what_words_stand_for_is_no_difference(compared: list[tuple[Method, Method]]) -> None:
    one = compared[0][0]
    wider = dataclasses.replace(one.bound, stated=dict.fromkeys(one.bound.stated, 99))
    assert one.work == dataclasses.replace(one, name="other", remark="other", bound=wider).work
    assert one.work != dataclasses.replace(one, statements=one.statements[:-1]).work
    assert one.work != dataclasses.replace(one, parameters=(*one.parameters, "more")).work


def test_a_chain_of_views_begins_with_what_its_word_stood_for() -> None:
    turned = MethodCode(X, "transpose", (whole_number(1), whole_number(2)))
    chain = MethodCode(NameCode("view"), "reshape", (SEQ, whole_number(-1)))
    assert str(begun_with(chain, "view", turned)) == "x.transpose(1, 2).reshape(seq, -1)"
    assert begun_with(chain, "other", turned) is None
    assert begun_with(NameCode("view"), "view", InfixCode(X, "+", X)) is None  # it would need parentheses
