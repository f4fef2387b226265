"""What the proof says of Python files that Python itself refuses."""

import pytest

from longhand.emit.module.backward_writer import first_and_rest
from longhand.emit.unit.templates import format_files
from longhand.errors import ProofError
from longhand.proof.python import prove_python

MANY = [f"saved_{n}" for n in range(300)]


def test_what_the_parser_takes_and_the_compiler_refuses():
    text = f"given = list(range(400))\n{', '.join(MANY)}, *rest = given\n"
    with pytest.raises(ProofError, match=r"backward\.py:2.*too many expressions in star-unpacking"):
        prove_python({"backward.py": text})


def test_what_is_no_python_at_all():
    files = format_files({"model.py": "x = 1\ndef forward(x:\n    return x\n", "check.py": "y=2"})
    assert files["check.py"] == "y = 2\n"
    with pytest.raises(ProofError, match=r"model\.py:2"):
        prove_python(files)


@pytest.mark.parametrize("count", [2, 255, 256, 300])
def test_any_number_of_saved_tensors_before_those_of_the_layers(count):
    names = MANY[:count]
    given = [*range(count), "layer", "other layer"]
    found = {"given": given}
    exec(compile("\n".join(first_and_rest(names, "of_layers", "given")), "backward.py", "exec"), found)
    assert [found[name] for name in names] == list(range(count))
    assert found["of_layers"] == ["layer", "other layer"]
