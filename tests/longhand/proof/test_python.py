"""What the proof says of Python files that Python itself refuses."""

import pytest

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
