"""Builds the frame hook into a temporary folder where longhand was not installed with it."""

import importlib
import importlib.machinery
import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NAME = "longhand.capture._frame_eval"


@pytest.fixture(scope="session")
def hook(tmp_path_factory):
    if NAME in sys.modules:
        return sys.modules[NAME]
    if importlib.util.find_spec(NAME) is not None:
        return importlib.import_module(NAME)
    out = tmp_path_factory.mktemp("frame_eval") / "_frame_eval.so"
    include = sysconfig.get_path("include")
    source = ROOT / "capture" / "_frame_eval.c"
    command = ["gcc", "-std=gnu11", "-O2", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(out)]
    subprocess.run(command, check=True)
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(out))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(NAME, loader))
    loader.exec_module(module)
    sys.modules[NAME] = module
    return module
