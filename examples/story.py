"""From first try to production: plays the whole story in a fresh repository and writes its transcript, docs/story.md.

``python -m examples.story`` makes a virtual environment for a developer, with longhand installed from a wheel of this
checkout, and one for a server, without longhand and with nothing but Python on its PATH. torch and what longhand
depends on come from the environment that runs this. Every command is run by bash; what it prints is what the page
shows, but for what differs from run to run: seconds, errors, folders.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "story.md"
_SECONDS = 900  # for one command

MODEL = '''"""Ranks passages: an encoder with a gated MLP, and a softmax over what it says of each."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.RMSNorm(dim)
        self.gate = nn.Linear(dim, 2 * dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        normed = self.norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Ranker(nn.Module):
    def __init__(self, dim=64, n_blocks=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim) for _ in range(n_blocks))
        self.norm = nn.LayerNorm(dim)
        self.score = nn.Linear(dim, 1)

    def forward(self, passages):
        for block in self.blocks:
            passages = block(passages)
        scores = self.score(self.norm(passages)).squeeze(-1)
        return torch.softmax(scores * 0.5, dim=-1)


def make():
    """The model, and an example call: 8 questions with 32 passages each."""
    torch.manual_seed(0)
    return Ranker().eval(), (torch.randn(8, 32, 64),)
'''
SETTINGS = """[tool.longhand]
units = ["generated/*"]
"""
SAVE = "import ranker, torch; torch.save(ranker.make()[0].state_dict(), 'weights.pt')"
SERVER = '''"""Answers requests: a POST of so many questions gets the place of the best passage of each."""

import http.server
import json
import threading
import urllib.request

import torch
from ranker import Ranker

model = Ranker()
model.load_state_dict(torch.load("weights.pt"))


class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with torch.no_grad():
            weights = model(torch.tensor(asked))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"best": weights.argmax(-1).tolist()}).encode())

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
torch.manual_seed(1)
question = json.dumps(torch.randn(3, 32, 64).tolist()).encode()
print(urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}", question).read().decode())
'''


@dataclasses.dataclass(frozen=True)
class Prose:
    """A paragraph, or a heading, of the page."""

    text: str


@dataclasses.dataclass(frozen=True)
class File:
    """A file that somebody writes, in a folder."""

    path: str
    text: str
    where: str = "project"


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of bash.

    Attributes:
        text: As it is typed.
        code: Its exit code; another one ends the story.
        shown: The lines at the end of its output that the page shows; 0: all.
        where: "project", or "server", on whose PATH is its own environment alone.
        feature: An option that the command must know by its --help; else it is left out.
    """

    text: str
    code: int = 0
    shown: int = 0
    where: str = "project"
    feature: str = ""

    @property
    def help_of_it(self) -> str:
        """What prints the command's options."""
        return " ".join([*self.text.split()[:2], "--help"])


Step = Prose | File | Command

STORY: tuple[Step, ...] = (
    Prose(
        "A model is written, its kernels are generated, edited, renewed, reviewed, built and served. "
        "`python -m examples.story` plays this and writes this page: every command was run, in a new virtual "
        "environment and a new git repository, and this is what it printed. Seconds, errors and folders are left out: "
        "they differ from run to run."
    ),
    Prose("## A model"),
    File("ranker.py", MODEL),
    File("pyproject.toml", SETTINGS),
    Prose(
        "An environment with longhand, and a repository with a server. (What longhand depends on, torch above all, is "
        "not installed again: the new environments import it from the one that plays this story.)"
    ),
    Command("python -m venv --without-pip .venv"),
    Command("python -m pip install -q --no-deps --no-index longhand-*.whl && longhand --version"),
    Command("git init -q -b main && git init -q --bare ../origin.git && git remote add origin ../origin.git"),
    Command("printf '%s\\n' .venv __pycache__ '*.whl' '*.pt' review.html > .gitignore"),
    Prose("## Generate"),
    Prose("The number of questions may vary: `--dynamic passages:0`."),
    Command("longhand generate ranker:make --out generated/ranker --dynamic passages:0"),
    Command("longhand view generated/ranker swiglu"),
    Command("git add -A && git commit -qm 'A ranker, and its kernels'"),
    Prose("## Edit two kernels"),
    Prose("A tunable of one; in the other, two products of each element become one and one of each column."),
    Command("sed -i 's/GRAIN = 4096/GRAIN = 16384/' generated/ranker/kernels/swiglu.cpp"),
    Command(
        r"sed -i '/const float normalized/d; s/normalized \* weight\[col\]/residual_row[col] * (rstd * weight[col])/' "
        "generated/ranker/kernels/add_and_rms_norm.cpp"
    ),
    Command("longhand diff generated/ranker"),
    Prose(
        "`verify` compares with eager and with longhand's own references, also at sizes that are not the example's."
    ),
    Command("longhand verify generated/ranker --sizes passages:0=2,13"),
    Command("git commit -qam 'Fewer threads for few elements; one product less' && git push -q origin main"),
    Prose("## The model changes"),
    Prose("What a block adds is halved. The kernel that adds it is one of those that were edited."),
    Command("git switch -qc halve && sed -i 's/x + self.down/x + 0.5 * self.down/' ranker.py"),
    Command("git diff --unified=0 ranker.py | tail -n 2"),
    Command("longhand check --trust generated/ranker", code=1),
    Command("longhand generate generated/ranker"),
    Command("longhand diff --stat generated/ranker"),
    Command("longhand check --trust --verify --sizes passages:0=2,13 generated/ranker"),
    Command("git add -A && git commit -qm 'Blocks add half of what they say' && git push -q origin halve"),
    Prose("## Review"),
    Command("longhand view generated/ranker --html review.html --since main", feature="--html"),
    Prose("What the summary of the pull request holds: what changed since the target branch."),
    Command("longhand diff --trust --markdown --since main generated/ranker"),
    Prose(
        "## The pull request's check\n\n"
        "The continuous integration checks out the merge of the branch with its target. `action.yml` runs "
        "this (and, without `--sizes`, tries two sizes at random):"
    ),
    Command("git switch -q main && git merge -q --no-ff -m 'Merge of halve' halve"),
    Command("longhand check --trust --verify --sizes passages:0=2,13 --format github"),
    Prose(
        "A wrong edit does not pass: the line that is at fault gets an annotation, and the exit code says so."
    ),
    Command("sed -i 's/0.5f/0.75f/' generated/ranker/kernels/scale_softmax.cpp"),
    Command("longhand check --trust --verify --sizes passages:0=2,13 --format github", code=5),
    Command("git restore generated && git push -q origin main && git log --oneline --format=%s | head -n 3"),
    Prose("## Build"),
    Command("longhand build generated/ranker --wheel dist --version 1.1"),
    Command(f'python -c "{SAVE}"'),
    Command("cp dist/*.whl weights.pt ../server"),
    Prose(
        "## Serve\n\n"
        "Another environment: torch, no longhand, and a PATH without any compiler. The wheel holds what runs there."
    ),
    Command("python -m venv --without-pip .venv", where="server"),
    Command("python -m pip install -q --no-deps --no-index ranker-1.1-*.whl", where="server"),
    Command("python -c 'import longhand'", code=1, shown=1, where="server"),
    Command("type -p g++ gcc clang || echo no compiler", where="server"),
    File("serve.py", SERVER, where="server"),
    Command("python serve.py", where="server"),
    Prose("A GPU is served in the same way: [Deploying](deployment.md)."),
)


class Player:
    """Plays the story in a folder, and keeps its transcript.

    Args:
        folder: A new one.
    """

    def __init__(self, folder: Path) -> None:
        self.home, self.page = folder, ["# From first try to production"]
        for name in ("project", "server", "bin"):
            (folder / name).mkdir()
        (folder / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
        build_wheel(folder / "project")

    def play(self, step: Step) -> None:
        """One step, and what the page says of it.

        Raises:
            RuntimeError: A command ends with another exit code than it should.
        """
        match step:
            case Prose(text=text):
                self.page.append(text)
            case File(path=path, text=text):
                (self.home / step.where / path).write_text(text)
                kind = {".py": "python", ".toml": "toml"}[Path(path).suffix]
                self.page.append(f"`{path}`:\n\n```{kind}\n{text.rstrip()}\n```")
            case Command() if step.feature and step.feature not in self.run(step.help_of_it, step.where)[1]:
                pass
            case Command(text=text, code=code, where=where):
                found, said = self.run(text, where)
                if found != code:
                    raise RuntimeError(f"{text}: exit code {found}, expected {code}\n{said}")
                if " venv " in text:
                    share_packages(self.home / where / ".venv")
                lines = normalized(said, self.home).splitlines()[-step.shown :]
                shown = [f"{where if where == 'server' else ''}$ {text}", *lines]
                shown += [f"(exit code {code})"] if code else []
                fence = "````" if "```" in said else "```"
                self.page.append("\n".join([f"{fence}console", *shown, fence]))

    def run(self, text: str, where: str) -> tuple[int, str]:
        """A command's exit code, and what it says."""
        tools = [self.home / where / ".venv" / "bin", self.home / "bin"]
        path = [*map(str, tools), *(["/usr/local/bin", "/usr/bin", "/bin"] if where == "project" else [])]
        kept = {key: os.environ[key] for key in ("LANG", "LD_LIBRARY_PATH") if key in os.environ}
        person = {f"GIT_{who}_{what}": "ada" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["/bin/bash", "-c", text],
            cwd=self.home / where,
            env={
                **kept,
                **person,
                "PATH": ":".join(path),
                "HOME": str(self.home),
                "XDG_CACHE_HOME": str(self.home / "cache" / where),
                "GIT_CONFIG_NOSYSTEM": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
                "OMP_NUM_THREADS": "1",
                "COLUMNS": "100",
                "NO_COLOR": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
        )
        return done.returncode, done.stdout


def build_wheel(folder: Path) -> None:
    """A wheel of this checkout, in a folder; nothing of the checkout changes."""
    options = {"--build-option": ["build", "--build-base", str(folder.parent / "built")]}
    program = (
        "import sys; from setuptools import build_meta; sys.argv = ['setup.py'];"
        f"build_meta.build_wheel({str(folder)!r}, {options!r})"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True)


def share_packages(environment: Path) -> None:
    """Lets a virtual environment import the packages of the one that runs this, longhand's checkout aside.

    A .pth file adds the folder alone: an editable installation in it is a .pth file of its own, which is not read.
    """
    (own,) = environment.glob("lib/python*/site-packages")
    (own / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")


def normalized(text: str, home: Path) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace(str(home), "~")
    for pattern, instead in (
        (
            r"^capture [^()]*",
            "capture N s, lower N s, schedule N s, emit N s, compile N s, run N s, write N s\n",
        ),
        (r"\b\d+\.\d+ s\b", "N s"),
        (r"\b\d(\.\d+)?e[+-]\d+\b", "N.NNe-NN"),
        (r"\b\d\.\d\d(?=  ok)", "N.NN"),
        (r"(?<=: )-?\d+\.\d{4,}(?=, expected)|(?<=expected )-?\d+\.\d{4,}", "N.N"),
        (r"(?<=, )\d+(\.\d+)? kB$", "N kB"),
        (r"longhand \d\S* \(.*", "longhand X.Y.Z (...)"),
        (r"linux_\w+", "linux_x86_64"),
    ):
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def commands_of(page: str) -> list[str]:
    """The commands that a page shows, in order."""
    blocks = re.findall(r"^`{3,4}console\n(.*?)^`{3,4}$", page, re.DOTALL | re.MULTILINE)
    return [line.partition("$ ")[2] for block in blocks for line in block.splitlines()[:1]]


def play() -> str:
    """The whole story; its page."""
    with tempfile.TemporaryDirectory(prefix="longhand-story-") as folder:
        player = Player(Path(folder))
        for step in STORY:
            print(step.text.splitlines()[0], file=sys.stderr)
            player.play(step)
    return "\n\n".join(player.page) + "\n"


if __name__ == "__main__":
    PAGE.write_text(play())
