"""`longhand check --format sarif`: held to what SARIF 2.1.0's schema requires of what it holds."""

import json
import sys

import pytest

from longhand import cli
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
