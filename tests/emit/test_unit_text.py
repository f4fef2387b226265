"""What is written: the same bytes in every process, no noise, names that stay."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from longhand.schedule.names.unit_names import Ledger

_ROOT = Path(__file__).resolve().parents[2]
_HASH_IN_NEW_PROCESS = """
import hashlib, torch
from longhand.capture.frontends.export import capture_export
from longhand.emit.unit.files import emit_unit
from longhand.schedule.names.unit import name_plans
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target
from longhand.schedule.scheduler import schedule
from examples.llama_block import small

torch.manual_seed(0)
model, args = small()
options = Options(Target(Device.CPU))
plan = schedule(lower(capture_export(model, args, {}, target=options.target), options), options)
digest = hashlib.sha256()
for path, content in emit_unit(name_plans(plan)).items():
    digest.update(path.encode() + (content if isinstance(content, bytes) else content.encode()))
print(digest.hexdigest())
"""


def test_same_bytes_whatever_the_hash_seed() -> None:
    """In this process, which has a seed of its own and may have made other units, and in a new one."""
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(_HASH_IN_NEW_PROCESS, {})
    seed = "77" if os.environ.get("PYTHONHASHSEED") != "77" else "1"
    done = subprocess.run(
        [sys.executable, "-c", _HASH_IN_NEW_PROCESS],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(_ROOT)},
        cwd=_ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == here.getvalue() != ""


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(24, 48)
        self.norm = nn.LayerNorm(24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.first(self.norm(x)) * 0.5
        weights = torch.exp(scores) / torch.exp(scores).sum(-1, keepdim=True)
        return torch.tanh(weights)


class MlpAndMore(Mlp):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(x) * x.sum(-1, keepdim=True)
        return super().forward(gate @ gate.mT @ x)


def test_names_come_from_the_math_and_the_user(emit: Any) -> None:
    files = emit(Mlp().eval(), (torch.randn(5, 24),))
    kernels = sorted(path for path in files if re.fullmatch(r"kernels/\w+\.cpp", path))
    assert "kernels/layer_norm.cpp" in kernels
    assert any("exp_normalize" in path for path in kernels)
    text = str(files["model.py"])
    assert "# Mlp.forward    return torch.tanh(weights)" in text
    assert any("scores" in str(files[path]) for path in kernels)
    assert "F.linear(normed, self.first.weight, self.first.bias)" in text
    for path, content in files.items():
        if path.endswith((".py", ".cpp")) and isinstance(content, str):
            assert not re.search(r"\b(tmp|buf|arg|primals|in_ptr|out_ptr)_?\d+", content), path


def test_names_of_a_ledger_stay(emit: Any) -> None:
    lock = json.loads(emit(Mlp().eval(), (torch.randn(5, 24),))["longhand.lock"])
    ledger = Ledger.from_json(lock["ledger"])
    assert ledger.to_json() == lock["ledger"]
    renamed = {key: {**entry, "kernel": f"my_{entry['kernel']}"} for key, entry in lock["ledger"].items()}
    again = json.loads(
        emit(Mlp().eval(), (torch.randn(5, 24),), ledger=Ledger.from_json(renamed))["longhand.lock"]
    )
    assert all(name.startswith("my_") for name in again["kernels"])
    more = json.loads(
        emit(MlpAndMore().eval(), (torch.randn(5, 24),), ledger=Ledger.from_json(renamed))["longhand.lock"]
    )
    kept = set(more["kernels"].values()) & set(renamed)
    assert kept and all(name.startswith("my_") for name, key in more["kernels"].items() if key in kept)


def test_only_the_lock_knows_versions_lines_and_hashes(emit: Any) -> None:
    files = emit(Mlp().eval(), (torch.randn(5, 24),))
    lock = json.loads(files["longhand.lock"])
    for path, content in files.items():
        if path == "longhand.lock" or not isinstance(content, str):
            continue
        assert torch.__version__ not in content and "DO NOT EDIT" not in content, path
        assert not re.search(r"\.py:\d+", content), path
        if not path.startswith(".base/"):
            assert lock["hashes"][path] == hashlib.sha256(content.encode()).hexdigest()
            assert files[f".base/{path}"] == content
    assert lock["quotes"]
    assert all(re.fullmatch(r"[\w/.-]+\.py:\d+", place) for place in lock["quotes"].values())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_python_files_are_standalone_and_have_no_unused_names(emit: Any, device: str) -> None:
    files = emit(Mlp().eval(), (torch.randn(5, 24),), device=device)
    for path, content in files.items():
        if not path.endswith(".py") or path.startswith(".base/"):
            continue
        tree = ast.parse(str(content))
        imported = {
            (alias.asname or alias.name).partition(".")[0]: node
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        for node in imported.values():
            module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            assert not re.match(r"longhand|torch\._|torch\.\w+\._", module or ""), path
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        exported = {
            value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.List)
            for value in node.elts
            if isinstance(value, ast.Constant)
        }
        assert set(imported) <= used | exported, path


@pytest.mark.parametrize("unit", ["gpt_train_cpu", "gpt_train_cuda", "resnet_block_train_cuda"])
def test_a_training_unit_says_in_the_models_words_what_it_keeps(unit: str) -> None:
    text = (Path(__file__).resolve().parents[2] / "generated" / unit / "README.md").read_text()
    parts = re.findall(
        r"^    (saved|computed again)[^:]*: (\d+) tensors, ([\d,]+) bytes.*\n((?:        .*\n)*)", text, re.M
    )
    assert len(parts) == 2
    for _, n_tensors, n_bytes, listed in parts:
        assert not re.search(r"^ *(linear|getitem|conv2d|relu|layer_norm)(_\d+)? ", listed, re.M)
        n_found = n_summed = 0
        for line in listed.splitlines():
            rest = re.match(r" *and (\d+) smaller ones +([\d,]+)", line)
            found = re.match(r" *\w+ +(?:(\d+) x )? *([\d,]+) ", line)
            n = int(rest[1]) if rest else int(found[1] or 1) if found else 0
            size = int((rest or found)[2].replace(",", "")) if rest or found else 0
            n_found, n_summed = n_found + n, n_summed + (size if rest else n * size)
        assert n_found >= int(n_tensors), "numbers without elements are listed, too"
        assert n_summed == int(n_bytes.replace(",", ""))
