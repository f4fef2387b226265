"""`longhand check --format sarif`: held to what SARIF 2.1.0's schema requires of what it holds."""

import json
import sys

import pytest

from longhand import cli
from longhand.cli.findings import Level, Rule, of_judgements
from longhand.handoff.acceptance import Judgement
from tests.longhand.test_ci import MODEL

# Of sarif-schema-2.1.0.json: for each object that is written here, its properties' types; those required have a *.
OBJECTS = {
    "log": {"$schema": str, "version*": str, "runs*": ["run"]},
    "run": {"tool*": "tool", "columnKind": str, "results": ["result"]},
    "tool": {"driver*": "driver"},
    "driver": {"name*": str, "version": str, "rules": ["rule"]},
    "rule": {"id*": str, "shortDescription": "message", "defaultConfiguration": "configuration"},
    "configuration": {"level": str},
    "result": {
        "ruleId": str,
        "ruleIndex": int,
        "level": str,
        "message*": "message",
        "locations": ["location"],
    },
    "message": {"text*": str},
    "location": {"physicalLocation": "physicalLocation"},
    "physicalLocation": {"artifactLocation": "artifactLocation", "region": "region"},
    "artifactLocation": {"uri": str},
    "region": {"startLine": int},
}


def hold(value, kind):
    properties = {name.rstrip("*"): of for name, of in OBJECTS[kind].items()}
    assert value.keys() <= properties.keys()
    assert {name.rstrip("*") for name in OBJECTS[kind] if name.endswith("*")} <= value.keys()
    for name, one in value.items():
        of = properties[name]
        if isinstance(of, list):
            assert isinstance(one, list)
            for each in one:
                hold(each, of[0])
        elif isinstance(of, str):
            hold(one, of)
        else:
            assert type(one) is of
            assert name != "level" or one in ("none", "note", "warning", "error")
            assert name != "startLine" or one >= 1
            assert name != "uri" or ("\\" not in one and " " not in one)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("sarif_net", None)
    (tmp_path / "sarif_net.py").write_text(MODEL.format(factor=0.5))
    assert cli.run(["generate", "sarif_net:make", "--out", "my unit", "--no-run"]) == 0
    yield tmp_path
    sys.modules.pop("sarif_net", None)


def told(capsys, *words):
    capsys.readouterr()
    code = cli.run(["check", "my unit", "--format", "sarif", *words])
    log = json.loads(capsys.readouterr().out)
    hold(log, "log")
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    return code, run["results"]


def test_current_broken_and_stale(project, capsys):
    assert told(capsys, "--trust") == (0, [])
    (kernel,) = (project / "my unit/kernels").glob("*.cpp")
    text = kernel.read_text()
    kernel.write_text(text.replace("constexpr", "<<<<<<< yours\nconstexpr", 1))
    code, (first, *_) = told(capsys)
    assert code == 2 and first["ruleId"] == "broken-edit"
    place = first["locations"][0]["physicalLocation"]
    assert (
        place["artifactLocation"]["uri"].startswith("my%20unit/kernels/") and place["region"]["startLine"] > 1
    )
    kernel.write_text(text)
    (project / "sarif_net.py").write_text(MODEL.format(factor=0.25))
    sys.modules.pop("sarif_net", None)
    code, results = told(capsys, "--trust")
    assert code == 1 and {one["ruleId"] for one in results} == {"stale"}
    assert "longhand generate" in results[0]["message"]["text"]


def test_wrong(project, capsys):
    (kernel,) = (project / "my unit/kernels").glob("*.cpp")
    kernel.write_text(kernel.read_text().replace("0.5f", "0.75f"))
    code, results = told(capsys, "--trust", "--verify")
    assert code == 5 and "wrong" in {one["ruleId"] for one in results}


def logged(capsys, *words):
    """The code and the results of a command that reports as SARIF."""
    capsys.readouterr()
    code = cli.run([*words, "--format", "sarif"])
    log = json.loads(capsys.readouterr().out)
    hold(log, "log")
    return code, [(one["ruleId"], place_of(one)) for one in log["runs"][0]["results"]]


def place_of(result):
    place = result["locations"][0]["physicalLocation"]
    return place["artifactLocation"]["uri"], place["region"]["startLine"]


def annotated(capsys, *words):
    capsys.readouterr()
    cli.run([*words, "--format", "github"])
    return capsys.readouterr().out.splitlines()


def test_verify_and_diff_tell_a_wrong_edit_at_the_kernels_file(project, capsys):
    assert logged(capsys, "verify", "my unit") == (0, [])
    (kernel,) = (project / "my unit/kernels").glob("*.cpp")
    kernel.write_text(kernel.read_text().replace("0.5f", "0.75f"))
    line = 1 + kernel.read_text()[: kernel.read_text().index("0.75f")].count("\n")
    at = f"my%20unit/kernels/{kernel.name}"
    code, found = logged(capsys, "verify", "my unit")
    assert code == 1 and ("wrong", (at, 1)) in found and ("wrong", ("my%20unit/model.py", 1)) in found
    assert logged(capsys, "diff", "my unit") == (0, [("edited", (at, line))])
    code, found = logged(capsys, "diff", "my unit", "--markdown", "--trust")
    assert code == 1 and found == [("wrong", (at, 1)), ("edited", (at, line))]
    (edited,) = annotated(capsys, "diff", "my unit")
    assert edited.startswith(
        f"::notice file=my unit/kernels/{kernel.name},line={line},title=longhand: edited::"
    )


def test_generate_tells_a_conflict_at_its_line(project, capsys):
    (kernel,) = (project / "my unit/kernels").glob("*.cpp")
    text = kernel.read_text()
    kernel.write_text(text.replace("0.5f", "(0.25f + 0.25f)"))
    line = 1 + text[: text.index("0.5f")].count("\n")
    (project / "sarif_net.py").write_text(MODEL.format(factor=0.75))
    sys.modules.pop("sarif_net", None)
    code, found = logged(capsys, "generate", "my unit", "--no-run")
    assert code == 1 and found == [("conflict", (f"my%20unit/kernels/{kernel.name}", line))]


def test_explain_tells_breaks_at_the_users_lines(project, capsys):
    lines = ["import torch", "def f(x):", "    y = x * 2", "    print('here')", "    return y + 1"]
    lines += ["def make():", "    return f, (torch.ones(3),)"]
    text = "\n".join(lines)
    (project / "broken_call.py").write_text(text)
    try:
        code, found = logged(capsys, "explain", "broken_call:make")
        assert code == 0 and found == [("graph-break", ("broken_call.py", 4))]
        (line,) = annotated(capsys, "explain", "broken_call:make")[-1:]
        assert line.startswith("::warning file=") and "line=4,title=longhand: graph break::" in line
    finally:
        sys.modules.pop("broken_call", None)


@pytest.mark.parametrize("command", ["check", "verify", "diff", "accept", "explain", "generate"])
def test_what_reports_at_lines_reports_for_programs(command):
    from longhand.cli.commands import commands

    options = {word for option in commands.commands[command].params for word in option.opts}
    assert {"--format", "--json"} <= options


def test_every_command_reports_as_json():
    from longhand.cli.commands import commands

    for name, command in commands.commands.items():
        assert "--json" in {word for option in command.params for word in option.opts}, name


def test_accept_tells_each_judgement_at_its_kernels_file(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/softmax.cpp").write_text("")
    judged = (Judgement("softmax", "it is wrong"), Judgement("gelu", gain=0.1))
    refused, accepted = of_judgements(tmp_path, judged)
    assert (refused.rule, refused.path) == (Rule.REFUSED, tmp_path / "kernels/softmax.cpp")
    assert refused.rule.level is Level.ERROR and "it is wrong" in refused.text
    assert accepted.rule is Rule.ACCEPTED and accepted.rule.level is Level.NOTE
