"""The command line's manners: exit codes, one-paragraph errors, help with an example, nothing changed on disk."""

import pytest

from longhand import cli
from longhand.cli.commands import commands

ATTENTION = "examples.attention:small"


def run(capsys, *words):
    code = cli.run([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("name", sorted(commands.commands))
def test_help_shows_an_example_within_80_columns(capsys, name):
    code, out, _ = run(capsys, name, "--help")
    assert code == 0
    assert f"longhand {name} " in out.partition("For instance:")[2]
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("generate", "examples.attention:smal", "--out", "OUT"), "has no 'smal'"),
        (("generate", ATTENTION, "--out", "OUT", "--device", "tpu"), "'tpu' is unknown"),
        (("generate", ATTENTION, "--out", "OUT", "--device", "cpu", "--arch", "sm_90"), "--arch is for CUDA"),
        (("generate", ATTENTION, "--out", "OUT", "--device", "cuda", "--arch", "90"), "such as sm_90"),
        (("generate", ATTENTION, "--out", "OUT", "--mode", "fast"), "'fast' is unknown"),
        (("generate", ATTENTION, "--out", "OUT", "--dynamic", "y:0"), "Names: x."),
        (("verify", "OUT"), "is no generated unit"),
        (("bench", "OUT"), "is no generated unit"),
        (("view", "OUT"), "is no generated unit"),
    ],
)
def test_bad_input_is_one_paragraph_and_changes_nothing(capsys, tmp_path, words, expected):
    kept = tmp_path / "unit"
    kept.mkdir()
    (kept / "mine.txt").write_text("mine")
    code, _, err = run(capsys, *(str(kept) if word == "OUT" else word for word in words))
    paragraph = " ".join(err.split())
    assert code == 2
    assert expected in paragraph and "Traceback" not in err
    assert max(map(len, err.splitlines())) <= 80 or " " not in max(err.splitlines(), key=len)
    assert "\n\n" not in err.strip()
    assert [path.name for path in kept.iterdir()] == ["mine.txt"]


def test_a_missing_option_is_a_usage_error(capsys):
    code, _, err = run(capsys, "generate", ATTENTION)
    assert code == 2 and "--out" in err


def test_an_unknown_command_is_a_usage_error(capsys):
    assert run(capsys, "generat")[0] == 2


def test_an_unsupported_python_is_refused_before_torch_is_needed(capsys, monkeypatch):
    version = type(
        "version", (), {"major": 3, "minor": 9, "__getitem__": lambda self, index: (3, 9)[index]}
    )()
    monkeypatch.setattr(cli.sys, "version_info", version)
    code, _, err = run(capsys, "--help")
    assert code == 2 and "this is 3.9" in err


def test_a_bug_is_called_one_and_debug_shows_the_traceback(capsys, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("half a kernel")

    monkeypatch.setattr("longhand.staleness.renewal.resolve", broken)
    code, _, err = run(capsys, "generate", ATTENTION, "--out", "nowhere")
    assert code == 3 and "ZeroDivisionError: half a kernel" in err and "LONGHAND_DEBUG=1" in err
    monkeypatch.setenv("LONGHAND_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.run(["generate", ATTENTION, "--out", "nowhere"])
