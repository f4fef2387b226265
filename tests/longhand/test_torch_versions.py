"""A newer torch is warned of once; one that lacks what is needed is named; the versions are the same everywhere."""

import importlib
import re
import runpy
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
import torch

import longhand
from longhand import cli, torch_versions
from longhand.capture.bytecode.versions.running import KNOWN
from longhand.errors import OptionError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def asked_anew():
    torch_versions.check_versions.cache_clear()
    yield
    torch_versions.check_versions.cache_clear()


def test_the_versions_here_are_known_silently():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch_versions.check_versions()


def test_a_newer_torch_is_warned_of_once(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.16.0")
    with pytest.warns(torch_versions.UntestedVersionWarning, match=r"2.16.0 is newer.*2.11 to 2.15"):
        longhand.compile(lambda x: x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        longhand.compile(lambda x: x)


def test_an_older_torch_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.10.1")
    with pytest.raises(OptionError, match=r"needs torch 2.11 to 2.15; this is 2.10.1"):
        longhand.compile(lambda x: x)


def test_what_a_newer_torch_lacks_is_named(monkeypatch):
    def importing(name, real=importlib.import_module):
        if name == "longhand.compiling":
            raise ImportError("cannot import name 'TensorGuards' from 'torch._C._dynamo.guards'")
        return real(name)

    monkeypatch.delitem(vars(longhand), "compile", raising=False)
    monkeypatch.setattr(importlib, "import_module", importing)
    with pytest.raises(ImportError, match="TensorGuards"):
        longhand.compile  # noqa: B018
    monkeypatch.setattr(torch, "__version__", "2.17.0")
    with pytest.raises(OptionError, match=r"torch 2.17.0 lacks what longhand needs: .*TensorGuards"):
        longhand.compile  # noqa: B018


def test_the_versions_are_the_same_everywhere():
    create = runpy.run_path(str(ROOT / "tests" / "environments" / "create.py"))
    assert create["TORCH"] == torch_versions.TORCH
    assert tuple(KNOWN) == cli._SUPPORTED
    assert create["PYTHON"] == (min(KNOWN), max(KNOWN))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lowest, after = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups()
    assert (3, int(lowest)) == min(KNOWN) and (3, int(after) - 1) == max(KNOWN)
    assert any(text.startswith("torch>=2.11") for text in project["dependencies"])
    assert sys.version_info[:2] in KNOWN
