"""Functions printed for several modules: one function where they are one, and never where they are not."""

from __future__ import annotations

from longhand.emit.layers.alike_texts import OneFunction, PrintedFunction, as_one


def printed(*lines: str, inputs: tuple[str, ...] = ("x",), **stated: int) -> PrintedFunction:
    return PrintedFunction(lines, inputs, stated)


def one(*functions: PrintedFunction) -> OneFunction:
    found = as_one(functions)
    assert found is not None
    return found


def test_other_locals_are_the_same_function() -> None:
    found = one(
        printed("q = F.linear(x, attn.q.weight)", "return q * 2"),
        printed("y = F.linear(h, attn.q.weight)", "return y * 2", inputs=("h",)),
    )
    assert found.lines == ("q = F.linear(x, attn.q.weight)", "return q * 2")
    assert found.parameters == ("x",) and found.arguments == (("x",), ("h",))


def test_one_tensor_in_two_places_is_two_parameters_where_another_call_gives_two() -> None:
    found = one(
        printed("q = F.linear(x, attn.q.weight)", "k = F.linear(x, attn.k.weight)", "return q @ k"),
        printed(
            "q = F.linear(x, attn.q.weight)",
            "k = F.linear(memory, attn.k.weight)",
            "return q @ k",
            inputs=("x", "memory"),
        ),
    )
    assert found.lines[1] == "k = F.linear(memory, attn.k.weight)"
    assert found.parameters == ("x", "memory")
    assert found.arguments == (("x", "x"), ("x", "memory"))


def test_numbers_with_a_keyword_are_parameters_also_where_one_is_left_out() -> None:
    found = one(
        printed("return F.conv1d(x, layer.weight)"),
        printed("return F.conv1d(x, layer.weight, stride=2)"),
    )
    assert found.lines == ("return F.conv1d(x, layer.weight, stride=stride)",)
    assert found.numbers == ((("stride", "1"),), (("stride", "2"),))


def test_a_name_in_place_is_no_difference() -> None:
    found = one(
        printed(
            "y = F.relu(x)", "z = y  # in place: nothing reads y afterwards", "kernels.gelu(y, z)", "return z"
        ),
        printed("y = F.relu(x)", "kernels.gelu(y, y)  # in place", "return y"),
    )
    assert found.lines[1].startswith("z = y")


def test_what_is_no_function_of_both() -> None:
    linear = printed("q = F.linear(x, attn.q.weight)", "k = F.linear(q, attn.k.weight)", "return k")
    assert as_one([linear, printed("q = F.linear(x, attn.q.weight)", "return q")]) is None
    # The second reads another local than the first.
    other = ("q = F.linear(x, attn.q.weight)", "k = F.linear(x, attn.k.weight)", "return k")
    assert as_one([linear, printed(*other)]) is None
    # The weights of another part.
    other = ("q = F.linear(x, attn.v.weight)", "k = F.linear(q, attn.k.weight)", "return k")
    assert as_one([linear, printed(*other)]) is None
    # A number that no keyword tells.
    assert as_one([printed("return x.reshape(2, 3)"), printed("return x.reshape(2, 4)")]) is None
    # An argument that has no known default.
    assert as_one([printed("return F.pad(x, value=1)"), printed("return F.pad(x)")]) is None


def test_words_for_sizes_are_stated_where_all_agree_and_given_otherwise() -> None:
    same = one(printed("return x.reshape(-1, dim)", dim=8), printed("return x.reshape(-1, width)", width=8))
    assert same.stated == {"dim": 8} and same.parameters == ("x",)
    differ = one(printed("return x.reshape(-1, dim)", dim=8), printed("return x.reshape(-1, width)", width=4))
    assert differ.parameters == ("x", "dim")
    assert differ.numbers == ((("dim", "8"),), (("dim", "4"),))
